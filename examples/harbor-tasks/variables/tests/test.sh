#!/bin/bash
if [ "$(cat /project/src/release.txt 2>/dev/null)" = "$EXPECTED" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
