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
  # Runs of the same experiment on other machines stand beside it in tables with `machines: true`.
  for bundle in $(ls ../runs/"${name%%-*}"-*.bundle 2>/dev/null | grep -vxF "../runs/$name.bundle") "../runs/$name.bundle"; do
    "$flow" --store "$store/store" import "$bundle"
  done
  "$flow" --store "$store/store" report --to "$name.md"
  rm -rf "$store"
done
