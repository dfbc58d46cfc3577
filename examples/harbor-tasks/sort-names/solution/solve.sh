#!/bin/bash
LC_ALL=C sort -u -o names.txt names.txt
