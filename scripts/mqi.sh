#!/usr/bin/env bash
# scripts/mqi.sh [PYTEST OPTION…]: tests the stand-in for IBM MQ with IBM's own client for Python,
# which loads the stand-in's library and talks to its queue manager.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/python-env.sh .local/mqm-standin local/mqm-standin/requirements.txt
cargo build --workspace --lib --bins

built=$(realpath "${CARGO_TARGET_DIR:-target}")/debug
# A unix socket's path has at most 107 bytes.
sockets=$(mktemp -d /tmp/mqm-XXXXXX)
trap 'rm -rf "$sockets"' EXIT
export LD_LIBRARY_PATH=$built MQM_STANDIN_PROGRAM=$built/mqm-standin MQM_STANDIN_SOCKETS=$sockets
export PYTHONDONTWRITEBYTECODE=1
.local/mqm-standin/bin/python -m pytest -q -p no:cacheprovider local/mqm-standin/tests "$@"
