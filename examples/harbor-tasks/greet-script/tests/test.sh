#!/bin/bash
if [ "$(./greet.sh Ada 2>/dev/null)" = "Hello, Ada!" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
