#!/usr/bin/env bash
# scripts/advisories.sh: checks the Rust dependencies for known vulnerabilities (RustSec's database,
# through cargo-deny). The database is a git repository on GitHub. If GitHub cannot be reached, the
# script prints SKIPPED and succeeds; with ADVISORIES=required it fails instead.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.local/tools/bin:$PATH

database=https://github.com/RustSec/advisory-db
if ! GIT_TERMINAL_PROMPT=0 timeout 20 git ls-remote --exit-code "$database" HEAD >/dev/null 2>&1; then
  echo "SKIPPED: the dependencies were not checked for known vulnerabilities, because $database cannot be reached from here."
  echo "Run \`make advisories\` on a machine that reaches it."
  [ "${ADVISORIES:-}" != required ]
  exit
fi
scripts/tool.sh cargo-deny
cargo deny --log-level error check advisories
