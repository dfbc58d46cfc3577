#!/bin/bash
if (cd /app && python3 -c 'import shop; assert shop.price(2) == 6') && ! grep -rqw calc /app/shop; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
