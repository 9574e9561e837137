#!/usr/bin/env bash
# scripts/deployment.sh [PYTEST OPTION…]: tests template.yaml, samconfig.toml and deploy/ with SAM's
# translator, with CloudFormation's schemas, and with SAM CLI against the AWS stand-in.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/python-env.sh .local/python local/requirements.txt
scripts/python-env.sh .local/deployment scripts/deployment-requirements.txt
exec .local/deployment/bin/python -m pytest -q -p no:cacheprovider tests/deployment "$@"
