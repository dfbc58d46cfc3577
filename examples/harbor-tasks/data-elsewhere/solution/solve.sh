#!/bin/bash
awk '{ s += $1 } END { print s }' /measurements/values.txt > /app/sum.txt
