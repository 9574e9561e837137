#!/usr/bin/env bash
# The Python clients that `make bench` compares with, pinned, in an environment of their own.
set -euo pipefail
cd "$(dirname "$0")/.."

exec scripts/python-env.sh .local/bench benches/python/requirements.txt
