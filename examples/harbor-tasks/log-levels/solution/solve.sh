#!/bin/bash
cut -d' ' -f1 service.log | sort | uniq -c | awk '{ print $2, $1 }' > levels.txt
