#!/usr/bin/env bash
# scripts/deployment.sh [PYTEST OPTION…]: holds template.yaml, samconfig.toml and deploy/ against what
# SAM, CloudFormation's schemas and SAM CLI make of them; the last against the AWS stand-in.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/python-env.sh .local/python local/requirements.txt
scripts/python-env.sh .local/deployment scripts/deployment-requirements.txt
exec .local/deployment/bin/python -m pytest -q -p no:cacheprovider tests/deployment "$@"
