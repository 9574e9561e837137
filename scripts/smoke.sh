#!/usr/bin/env bash
# Checks a deployment from outside: scripts/smoke.sh API API_KEY, or make smoke API=… API_KEY=…
# API_KEY needs the scope mq:read, and its tenant a target profile named TARGET_REF (default
# local-rabbit). If the ingest is deployed, and the key has products:write and products:read for all
# establishments, the script loads two catalogues of one product. Their CNPJ INTEGRAHUB0115 belongs
# to nobody; the second catalogue deactivates the product of the first. Nothing else changes.
# Exits with 1 if a check fails.
set -u

usage="usage: TARGET_REF=local-rabbit $0 API API_KEY"
url=${1:-${API:-}}
key=${2:-${API_KEY:-}}
target_ref=${TARGET_REF:-local-rabbit}
if [ -z "$url" ] || [ -z "$key" ]; then
  echo "$usage" >&2
  exit 2
fi
url=${url%/}

for tool in curl gzip; do
  command -v "$tool" >/dev/null || { echo "$tool is missing: install it" >&2; exit 2; }
done

scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
# curl reads the key from a file, so that the list of processes does not show the key.
(umask 077 && printf 'header = "X-Api-Key: %s"\n' "$key" >"$scratch/key")
printf '{"targetRef":"%s"}' "$target_ref" >"$scratch/target.json"
gzip -c "$scratch/target.json" >"$scratch/target.json.gz"

failures=0
body=$scratch/body

# Sends a request and prints the status, or 000 if nothing answered. The body goes to $body.
request() { # METHOD PATH [CURL ARGUMENTS]
  local method=$1 path=$2
  shift 2
  : >"$body"
  curl --silent --max-time 35 --output "$body" --write-out '%{http_code}' --request "$method" "$@" "$url$path"
}

post() { # PATH FILE [CURL ARGUMENTS]
  local path=$1 file=$2
  shift 2
  request POST "$path" --config "$scratch/key" --header 'Content-Type: application/json' --data-binary "@$file" "$@"
}

ok() { printf 'ok    %s\n' "$1"; }

note() { printf 'note  %s\n' "$1"; }

skip() { printf 'skip  %s\n' "$1"; }

failed() { # CHECK STATUS MEANING
  failures=$((failures + 1))
  printf 'FAIL  %s\n      got: %s %s\n      %s\n' "$1" "$2" "$(head -c 400 "$body" | tr -d '\r\n')" "$3"
}

has() { grep -Eq "$1" "$body"; }

unreachable() {
  failed "$1" "no answer" "Nothing answers at $url. Compare the URL with the stack's output ApiUrl."
  exit 1
}

status=$(request GET /health/live)
case $status in
  200) ok "live: the API and its status function answer" ;;
  000) unreachable "live" ;;
  *) failed "live" "$status" "The API answers, but its status function fails. See the log group …-status." ;;
esac

status=$(request GET /health/ready)
if [ "$status" = 200 ]; then
  ok "ready: stores and mq-access answer"
else
  failed "ready" "$status" "The dependency with \"ok\":false does not answer: a table, its permission or mq-access is missing."
fi

status=$(request POST /queue/depth --header 'Content-Type: application/json' --data-binary "@$scratch/target.json")
if [ "$status" = 401 ] && has API_KEY_REQUIRED; then
  ok "no key: refused with 401"
else
  failed "no key" "$status" "A request without a key must get 401. Give nobody access to this deployment before that is fixed."
fi

status=$(post /queue/depth "$scratch/target.json")
if [ "$status" = 200 ]; then
  ok "depth: $(head -c 300 "$body")"
else
  case "$status $(cat "$body")" in
    401*) meaning="The key is unknown, or its item is refused (the log says access.item_malformed). The item's pk is KEY# and the lower-case SHA-256 of the key (docs/access.md)." ;;
    403*) meaning="The key lacks the scope mq:read, or the target is not allowed." ;;
    404*TARGET_REF_NOT_FOUND*) meaning="The key's tenant has no profile $target_ref. Name another profile by TARGET_REF." ;;
    404*) meaning="The profile names a queue that its broker does not have." ;;
    502*) meaning="The broker refused; the response says why. Check the profile's user and secret." ;;
    503* | 504*) meaning="The broker did not answer. Check subnets, route tables, security groups and the profile's connName." ;;
    *) meaning="An unexpected response. See the log groups …-depth and …-mq-access." ;;
  esac
  failed "depth of $target_ref" "$status" "$meaning"
fi
plain=$status

# A gzip as application/gzip has to work. Fronts differ in what they do to a gzip under
# application/json, so the script reports it. The second pair is the one that senders of products
# are asked for.
while read -r type encoding; do
  status=$(request POST /queue/depth --config "$scratch/key" --header "Content-Type: $type" --header "Content-Encoding: $encoding" \
    --data-binary "@$scratch/target.json.gz")
  check="gzip under $type, Content-Encoding: $encoding"
  if [ "$plain" = 401 ] || [ "$plain" = 403 ]; then
    skip "$check: the gateway reads no body before it accepts the key"
  elif [ "$status" = "$plain" ] && ! has 'CONTENT_CORRUPT|MALFORMED_JSON'; then
    ok "$check: understood"
  elif [ "$type" = application/json ] && has CONTENT_CORRUPT; then
    note "$check: the front reads the body as text and destroys it. Let clients send application/gzip, or deploy with ApiFront=rest, which inflates it on its way (docs/front.md)."
  else
    meaning="The plain body got $plain, the compressed body got $status."
    [ "$type" = application/gzip ] || meaning="$meaning A REST API understands it: ApiFront=rest (docs/front.md). Until then let clients send application/gzip."
    failed "$check" "$status" "$meaning"
  fi
done <<'TYPES'
application/gzip identity
application/json gzip
application/json identity
TYPES

status=$(post /connections/test "$scratch/target.json")
if [ "$status" = 200 ] && has '^\{[^[]*"ok": ?true'; then
  ok "connection test: the broker of $target_ref accepts the connection"
elif [ "$status" = 200 ]; then
  failed "connection test of $target_ref" "$status" "The step with \"ok\":false failed."
else
  failed "connection test of $target_ref" "$status" "The test could not run; see the checks above."
fi

uuid() { cat /proc/sys/kernel/random/uuid 2>/dev/null || uuidgen | tr '[:upper:]' '[:lower:]'; }

products=/v1/inovafarma/products

# Sends a full load of the one product. The answer goes to $body.
load() { # PRODUCTID CONTENT-TYPE CONTENT-ENCODING
  printf '[{"CNPJ":"INTEGRAHUB0115","SHOPID":1,"PRODUCTID":"%s","TITLE":"smoke test","PRICE":"1.00"}]' "$1" >"$scratch/load"
  if [ "$2" = application/gzip ] || [ "$3" = gzip ]; then
    gzip -c "$scratch/load" >"$scratch/load.gz" && mv "$scratch/load.gz" "$scratch/load"
  fi
  request POST "$products" --config "$scratch/key" --header "Content-Type: $2" --header "Content-Encoding: $3" \
    --header 'X-Inova-Load-Type: full' --header "Idempotency-Key: $(uuid)" --data-binary "@$scratch/load"
}

batch_id() { sed -n 's/.*"batch_id": *"\([^"]*\)".*/\1/p' "$body" | head -n 1; }

# Waits until the batch in $body is final, for two minutes at most. $body then has the batch.
final() {
  local id tries
  id=$(batch_id)
  for tries in $(seq 60); do
    status=$(request GET "/v1/inovafarma/batches/$id" --config "$scratch/key")
    if [ "$status" != 200 ] || has '"status": ?"(COMPLETED|PARTIAL_FAIL|FAILED|EXPIRED)"'; then return; fi
    sleep 2
  done
  failed "batch $id" "$status" "After two minutes the batch is not final ($tries requests). See the alarms, and the log groups …-chunker and …-upsert."
  return 1
}

through_the_ingest() {
  status=$(load 1 application/gzip identity)
  case "$status $(cat "$body")" in
    202*) ok "load: a catalogue of one product is accepted" ;;
    404*ROUTE* | 404*'"message"'*) skip "ingest: it is not deployed here"; return ;;
    403*) skip "ingest: the key lacks products:write"; return ;;
    *) failed "load" "$status" "The catalogue was refused. See the log group …-product-ingest."; return ;;
  esac
  final || return
  if [ "$status" = 403 ]; then skip "batches: the key lacks products:read"; return; fi
  if has '"items_failed": ?1[^0-9]'; then
    # A key of certain establishments, or an establishment of another tenant or of none: the batch
    # is accepted, and its item is refused.
    request GET "/v1/inovafarma/batches/$(batch_id)/errors" --config "$scratch/key" >/dev/null
    if has CNPJ_NOT_ALLOWED; then
      skip "batch: the key may not load products of INTEGRAHUB0115: it lacks allCnpjs, or the establishment is not its tenant's"
    else
      failed "batch" "$status" "The product was refused. The batch's errors say why."
    fi
    return
  elif has '"status": ?"COMPLETED"' && has '"items_processed": ?1[^0-9]'; then
    ok "batch: the product is in the database"
  else
    failed "batch" "$status" "The batch says what is wrong; see also the log groups …-chunker and …-upsert."
    return
  fi
  status=$(load 2 application/json gzip)
  if has CONTENT_CORRUPT; then
    note "second load under application/json, Content-Encoding: gzip: the front destroys the body, and nothing is stored. Sent again without gzip."
    status=$(load 2 application/json identity)
  fi
  [ "$status" = 202 ] || { failed "second load" "$status" "The first load was accepted, the second was refused."; return; }
  final || return
  if has '"status": ?"COMPLETED"' && has '"deactivated": ?1[^0-9]'; then
    ok "deactivation: a full load without that product deactivates it"
  elif has '"state": ?"held"'; then
    skip "deactivation: the guard holds even the smallest deactivation"
  else
    failed "deactivation" "$status" "The second full load must be COMPLETED with one product deactivated."
  fi
}
through_the_ingest

if [ "$failures" -gt 0 ]; then
  echo "$failures failed"
  exit 1
fi
echo "all passed"
