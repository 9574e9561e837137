#!/usr/bin/env bash
# scripts/schemathesis.sh: generates valid and invalid requests from openapi.yaml, sends them with
# three kinds of key and without one, and checks every response against the contract. It starts a
# stack of its own, or with `inside` uses the one that it runs in. CONTRACT_SECONDS (90) bounds the
# run. SEED (1) chooses the requests; SEED=random
# uses another seed each time and prints it.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.local/schemathesis
if [ "${1:-}" != inside ]; then
  # The same build as for the tests, so that nothing is compiled twice.
  cargo build --workspace --bins --tests
  exec "${CARGO_TARGET_DIR:-target}/debug/local" test -- "$0" inside
fi

scripts/python-env.sh "$environment" scripts/schemathesis-requirements.txt

seed=${SEED:-1}
[ "$seed" = random ] && seed=$((RANDOM * 32768 + RANDOM))
reports=.local/test/schemathesis
mkdir -p "$reports"
log=$reports/log

# load KEY CNPJ: loads a batch of the key's tenant, for requests that need one, and prints its id.
load() {
  curl --silent --show-error --fail --max-time 60 --retry 5 "$API/v1/inovafarma/products" \
    -H "X-Api-Key: $1" -H 'X-Inova-Load-Type: delta' -H 'Content-Type: application/json' \
    -H "Idempotency-Key: $(cat /proc/sys/kernel/random/uuid)" \
    --data-binary "[{\"CNPJ\":\"$2\",\"SHOPID\":1,\"PRODUCTID\":1,\"TITLE\":\"x\"},{\"CNPJ\":\"1\"}]" |
    sed -n 's/.*"batch_id" *: *"\([^"]*\)".*/\1/p'
}
batches="$(load local-dev-key-a 11444777000161) $(load local-pharmacy-key 11222333000181)"

# One worker: before 3.11.8, two threads that call ast.parse break each other (CPython gh-106905).
status=0
SCHEMATHESIS_SEED=$seed SCHEMATHESIS_BATCHES=$batches \
  "$environment/bin/schemathesis" --config-file tests/schemathesis/schemathesis.toml run openapi.yaml --url "$API" \
  --seed "$seed" --max-time "${CONTRACT_SECONDS:-90}" --workers 1 --report ndjson --report-ndjson-path "$reports/requests.ndjson" |
  tee "$log" || status=$?
# Schemathesis passes a run that had no time for any request.
if ! grep -q 'Tested: [1-9]' "$log"; then
  echo "No response was checked: CONTRACT_SECONDS=${CONTRACT_SECONDS:-90} is too short on this machine." >&2
  exit 1
fi
if ((status)); then
  echo "A response differs from the contract. The report is $log, the requests are beside it; SEED=$seed sends them again." >&2
  exit 1
fi
