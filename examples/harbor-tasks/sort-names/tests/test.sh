#!/bin/bash
printf 'ada\nbob\nmia\nzoe\n' > /tmp/expected
if cmp -s /tmp/expected names.txt; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
