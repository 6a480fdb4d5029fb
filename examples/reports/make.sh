#!/bin/sh
# Makes the pages here again from the runs in ../runs: examples/reports/make.sh [FLOW [NAME…]]
set -eu
flow=$(command -v "${1:-flow}")
flow=$(cd "$(dirname "$flow")" && pwd)/$(basename "$flow")
[ $# -eq 0 ] || shift
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- $(cd ../runs && ls *.bundle | sed 's/\.bundle$//')
for name in "$@"; do
  store=$(mktemp -d)
  rm -rf "$name"
  "$flow" --store "$store/store" import "../runs/$name.bundle"
  "$flow" --store "$store/store" report --to "$name.md"
  rm -rf "$store"
done
