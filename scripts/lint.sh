#!/usr/bin/env bash
# What is checked without running anything: formatting, clippy, the template, the OpenAPI document, licences and sources.
# Every check runs; the script fails if any of them did.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.local/tools/bin:$PATH

environment=.local/lint
requirements=scripts/lint-requirements.txt

# A Python environment of the project's own, made again when the pinned versions change.
prepare() {
  cmp -s "$requirements" "$environment/requirements.txt" && return 0
  echo "  Installing cfn-lint and openapi-spec-validator into $environment, about 20 s"
  local log=.local/setup-lint.log
  if python3 -m venv --clear "$environment" >"$log" 2>&1 &&
    "$environment/bin/python" -m pip install --no-input --disable-pip-version-check -r "$requirements" >>"$log" 2>&1; then
    cp "$requirements" "$environment/requirements.txt"
    return 0
  fi
  tail -n 15 "$log" | sed 's/^/  | /' >&2
  echo "Installing failed (on Debian it needs the package python3-venv). The whole log: $log" >&2
  return 1
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

mkdir -p .local
check "format" cargo fmt --all --check
check "clippy" cargo clippy --quiet --workspace --all-targets -- -D warnings
check "Python environment" prepare
check "template.yaml" "$environment/bin/cfn-lint" --regions us-east-1 --template template.yaml
check "openapi.yaml" "$environment/bin/openapi-spec-validator" openapi.yaml
check "cargo-deny" scripts/tool.sh cargo-deny
check "licences and sources" cargo deny --log-level error check licenses bans sources

if ((${#failed[@]})); then
  echo "Failed: $(IFS=,; echo "${failed[*]}" | sed 's/,/, /g')" >&2
  exit 1
fi
echo "All checks passed."
