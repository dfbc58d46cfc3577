#!/bin/bash
right=0
for line in 'ERROR 1' 'INFO 3' 'WARN 1'; do
    grep -qx "$line" levels.txt 2>/dev/null && right=$((right + 1))
done
awk -v right="$right" 'BEGIN { print right / 3 }' > /logs/verifier/reward.txt
