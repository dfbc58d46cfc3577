#!/bin/bash
echo "$RELEASE" > release.txt
