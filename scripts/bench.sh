#!/usr/bin/env bash
# scripts/bench.sh [PART…]: builds what is measured and prints a table for each part; all of startup, clients, warm,
# idempotency, ingest, load and accept unless some are named.
set -euo pipefail
cd "$(dirname "$0")/.."

parts=("$@")
((${#parts[@]})) || parts=(startup clients warm idempotency ingest load accept)
for part in "${parts[@]}"; do
  case $part in
  startup | clients | warm | idempotency | ingest | load | accept) ;;
  *)
    echo "scripts/bench.sh does not know the part $part: startup, clients, warm, idempotency, ingest, load or accept" >&2
    exit 2
    ;;
  esac
done

scripts/bench-setup.sh
binaries=${CARGO_TARGET_DIR:-target}/release
[ -x "$binaries/benches" ] || echo "  Building everything as for a release, once; on two cores that takes about 10 minutes"
cargo build --release --workspace --bins
for part in "${parts[@]}"; do
  case $part in
  # Nothing else is to run while functions start.
  startup) "$binaries/benches" startup ;;
  *) "$binaries/local" test -- "$binaries/benches" "$part" ;;
  esac
done
