# Prints so many words, few of them often and many of them seldom, the same each time.
awk -v n="$1" 'BEGIN { srand(1); for (i = 0; i < n; i++) print "w" int(1 / (rand() + 0.0001)) }'
