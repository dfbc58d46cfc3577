#!/bin/bash
grep -c ',open$' orders.csv > count.txt
