#!/usr/bin/env bash
# scripts/console.sh [inside|beside]: drives the console in Debian's Chromium, as its users do, and
# checks each screen with axe (tests/console). It starts a stack of its own, or with `inside` uses
# the one that it runs in. `beside` uses that while other tests do, and leaves out the steps that
# need queues of their own or take long. UPDATE_PICTURES=1 writes the pictures in docs/images anew.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/cached.sh

if [[ -z ${1:-} ]]; then
  # The same build as for the tests, so that nothing is compiled twice.
  cargo build --workspace --bins --tests
  exec "${CARGO_TARGET_DIR:-target}/debug/local" test -- "$0" inside
fi

# As root, also with a sudo that asks for no password.
apt() {
  local as=()
  if [[ $(id -u) != 0 ]]; then as=(sudo -n); fi
  "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

install() {
  # A list that cannot be refreshed may still be good enough.
  apt update || true
  apt install -y --no-install-recommends chromium fonts-dejavu-core
}

if [[ -z ${CHROMIUM:-} ]] && ! command -v chromium >/dev/null; then
  if ! command -v apt-get >/dev/null || ! { [[ $(id -u) == 0 ]] || sudo -n true 2>/dev/null; }; then
    missing="there is no Chromium here, and only root can install it (on Debian: apt-get install chromium; or set CHROMIUM=/path/to/it)"
    if [[ -n ${CI:-} ]]; then
      echo "The console cannot be tested: $missing" >&2
      exit 1
    fi
    echo "SKIPPED: the console, since $missing"
    exit
  fi
  echo "  Installing Chromium through apt, about a minute"
  (logged "$PWD/.local/setup-chromium.log" install)
fi
scripts/node-env.sh .local/console tests/console
node .local/console/console.mjs "$1"
