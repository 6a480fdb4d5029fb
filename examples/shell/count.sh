# count.sh TOOL TEXT COUNTS: counts words with a tool, and prints a line about it.
case $1 in
sort) sort "$2" | uniq -c | awk '{ print $2, $1 }' > "$3" ;;
awk) awk '{ seen[$1]++ } END { for (word in seen) print word, seen[word] }' "$2" | sort > "$3" ;;
*) echo "count.sh: no tool $1, expected sort or awk" >&2 && exit 1 ;;
esac
awk '{ words += $2 } END { print words " words, " NR " distinct" }' "$3"
