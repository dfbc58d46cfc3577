#!/bin/bash
if (cd /app && python3 -c 'from total import total; assert [total(n) for n in (0, 1, 4)] == [0, 1, 10]'); then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
