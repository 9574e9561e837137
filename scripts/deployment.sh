#!/usr/bin/env bash
# scripts/deployment.sh [PYTEST OPTION…]: tests template.yaml, samconfig.toml and deploy/ with SAM's
# translator, with CloudFormation's schemas, and with SAM CLI against the AWS stand-in.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/python-env.sh .local/python local/requirements.txt
scripts/python-env.sh .local/deployment scripts/deployment-requirements.txt
run() {
  .local/deployment/bin/python -m pytest -q -p no:cacheprovider "$@"
}
if (($#)); then
  run tests/deployment "$@"
  exit
fi

# SAM CLI waits for the stand-in most of the time. All others compute, and translate the template
# once, because they are one process.
waiting=(tests/deployment/test_sam_cli.py tests/deployment/test_ibm_mq_layer.py)
log=$(mktemp)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -f "$log"' EXIT
run "${waiting[@]}" >"$log" 2>&1 &
status=0
run tests/deployment "${waiting[@]/#/--ignore=}" || status=$?
wait $! || status=$?
cat "$log"
exit "$status"
