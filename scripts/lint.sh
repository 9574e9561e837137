#!/usr/bin/env bash
# What is checked without running anything: formatting, clippy, the template, the OpenAPI document, licences and sources.
# Every check runs; the script fails if any of them did.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.local/tools/bin:$PATH

environment=.local/lint

sam_validate() {
  scripts/python-env.sh .local/deployment scripts/deployment-requirements.txt &&
    AWS_EC2_METADATA_DISABLED=true SAM_CLI_TELEMETRY=0 .local/deployment/bin/sam validate --lint --region us-east-1
}

failed=()
check() {
  local name=$1
  shift
  echo "== $name"
  if ! "$@"; then
    failed+=("$name")
  fi
}

check "format" cargo fmt --all --check
check "format of fuzz/" cargo fmt --manifest-path fuzz/Cargo.toml --check
check "clippy" cargo clippy --quiet --workspace --all-targets -- -D warnings
check "Python environment" scripts/python-env.sh "$environment" scripts/lint-requirements.txt
check "template.yaml" "$environment/bin/cfn-lint" --regions us-east-1 --template template.yaml
check "template.yaml with SAM CLI" sam_validate
check "Python environment" scripts/python-env.sh .local/checkov scripts/checkov-requirements.txt
check "security of template.yaml" .local/checkov/bin/checkov --config-file .checkov.yaml
check "openapi.yaml" "$environment/bin/openapi-spec-validator" openapi.yaml
check "cargo-deny" scripts/tool.sh cargo-deny
check "licences and sources" cargo deny --log-level error check licenses bans sources

if ((${#failed[@]})); then
  echo "Failed: $(IFS=,; echo "${failed[*]}" | sed 's/,/, /g')" >&2
  exit 1
fi
echo "All checks passed."
