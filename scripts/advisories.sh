#!/usr/bin/env bash
# scripts/advisories.sh: looks for known vulnerabilities in the Rust dependencies (RustSec's
# database, through cargo-deny). The database is a git repository on GitHub. Where GitHub cannot be
# reached the check is skipped, and says so; ADVISORIES=required makes that a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.local/tools/bin:$PATH

database=https://github.com/RustSec/advisory-db
if ! GIT_TERMINAL_PROMPT=0 timeout 20 git ls-remote --exit-code "$database" HEAD >/dev/null 2>&1; then
  echo "SKIPPED: the dependencies were not checked for known vulnerabilities, because $database cannot be reached from here."
  echo "Run \`make advisories\` where it can be."
  [ "${ADVISORIES:-}" != required ]
  exit
fi
scripts/tool.sh cargo-deny
cargo deny --log-level error check advisories
