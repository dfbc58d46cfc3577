#!/bin/bash
sed -i 's/\bcalc\b/price/' shop/*.py
