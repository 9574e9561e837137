# The product ingest: a catalogue is loaded, loaded again, replaced by a shorter one, and replayed.
# A file is dropped into S3, and the events of both are read. Part of local/demo.sh. `local run` has
# written the catalogues.
# shellcheck shell=bash disable=SC2016,SC2034,SC2154 # as there, where the other variables are

batches=/v1/inovafarma/batches

# load FILE KEY: sends a full load, compressed.
load() {
  show gzip -kf "$1"
  gzip -kf "$1"
  ask /v1/inovafarma/products -H "Idempotency-Key: $2" -H 'X-Inova-Load-Type: full' \
    -H 'Content-Type: application/gzip' --data-binary "@$1.gz"
  expect '202 with a batch_id' 'status == 202 and isinstance(a.batch_id, str)'
  batch=$(look a.batch_id)
  say "$status in $milliseconds ms: $(wc -c <"$1") bytes of JSON, $(wc -c <"$1.gz") as gzip, batch $batch"
  begin=$(now)
}

# finish WHAT CONDITION: follows the batch of the last answer to its end.
finish() {
  follow "$batches/$batch" "$begin" "$(look a.status)"
  say "$states: $(look 'changes(a)')"
  expect "a COMPLETED batch $1" "a.status == 'COMPLETED' and $2"
}

load_catalogues() {
  local key batch begin
  key=$(uuid)
  step '8. Load a catalogue of 5,000 products'
  load .local/data/full.json "$key"
  finish 'of 5,000 items' 'a.items_processed == 5000 and a.items_failed == 0'
  say "What is known of it: $API$batches/$batch"
  first_batch=$batch

  step '9. Send it again with the same key, and load it again with another'
  load .local/data/full.json "$key"
  expect "the first batch's id" "a.batch_id == '$first_batch'"
  say 'The retry is the same batch'
  load .local/data/full.json "$(uuid)"
  finish 'of 5,000 unchanged items' 'a.changes.unchanged == 5000'

  step '10. Load a full catalogue that lacks the last 200 products'
  load .local/data/shorter.json "$(uuid)"
  finish 'that deactivated 200 products' 'a.changes.deactivated == 200'

  step '11. Replay the first batch, which is older than the shorter catalogue'
  batch=$first_batch
  ask "$batches/$batch/replay" -H "Idempotency-Key: $(uuid)" --json '{"scope": "all"}'
  expect 202 'status == 202'
  say "$status in $milliseconds ms: $(cat "$answer")"
  begin=$(now)
  finish 'of 5,000 items that changed nothing' \
    'a.items_processed == 5000 and a.changes.inserted == a.changes.updated == a.changes.deactivated == 0'
}

# What a pipeline does that knows S3 only: it drops a file, and waits for the result beside it.
drop_file() {
  local path begin state states=
  path=$TENANT/delta/$(uuid)/loja-12.ndjson
  step '12. Drop a file of 3,000 products into S3, in place of a request'
  begin=$(now)
  show aws s3 cp .local/data/loja-12.ndjson "\"s3://\$PAYLOAD_BUCKET/drop/$path\""
  aws_run s3 cp .local/data/loja-12.ndjson "s3://$PAYLOAD_BUCKET/drop/$path" --quiet ||
    fail "could not put drop/$path: $(cat "$words")"
  show aws s3 cp "\"s3://\$PAYLOAD_BUCKET/drop-results/$path.json\"" -
  asked=drop-results/$path.json status=0
  while true; do
    state='no result yet'
    if aws_run s3 cp "s3://$PAYLOAD_BUCKET/$asked" - >"$answer"; then state=$(look a.status); fi
    [[ $states == *"$state -> " ]] || states+="$state -> "
    [[ ! $state =~ ^(COMPLETED|PARTIAL_FAIL|FAILED|EXPIRED|REFUSED)$ ]] || break
    (($(now) - begin < 60000000)) || expect 'a final result within 60 s' False
  done
  say "${states% -> } after $(since "$begin") s"
  say "s3://$PAYLOAD_BUCKET/$asked: $(look 'text(a)')"
  dropped_batch=$(look a.batch_id)
  ask "$batches/$dropped_batch"
  expect 'a COMPLETED batch of 3,000 items' 'a.status == "COMPLETED" and a.items_processed == 3000'
}

# aws_run ARGUMENT…: the AWS CLI, whose complaints go to $words.
aws_run() { timeout --foreground 60 aws "$@" 2>"$words"; }

# A receiver of events, as a rule of the bus delivered them to a queue. All others are taken off it.
read_events() {
  local begin
  step '14. Read the events of the first batch, which was final twice, and of the dropped file'
  # Version 1 of the AWS CLI ignores AWS_ENDPOINT_URL for SQS.
  show aws sqs --endpoint-url '"$AWS_ENDPOINT_URL"' receive-message --queue-url '"$EVENTS_QUEUE_URL"' \
    --max-number-of-messages 10
  begin=$(now)
  : >"$scratch/ids"
  echo 'all of them' >"$scratch/missing"
  while [[ -s $scratch/missing ]]; do
    (($(now) - begin < 60000000)) || fail "these events did not arrive: $(cat "$scratch/missing")"
    aws_run sqs --endpoint-url "$AWS_ENDPOINT_URL" receive-message --queue-url "$EVENTS_QUEUE_URL" \
      --max-number-of-messages 10 --wait-time-seconds 1 --output json >"$answer" || fail "could not read the queue of events: $(cat "$words")"
    grep -q ReceiptHandle "$answer" || continue
    python3 local/demo/events.py "$scratch" "$first_batch" "$dropped_batch" <"$answer"
    aws_run sqs --endpoint-url "$AWS_ENDPOINT_URL" delete-message-batch --queue-url "$EVENTS_QUEUE_URL" \
      --entries "file://$scratch/receipts" >/dev/null ||
      fail "could not delete from the queue of events: $(cat "$words")"
  done
}

# The same events, as a consumer of Kafka reads them.
read_topic() {
  local ids
  step "15. Read the same events from the topic $KAFKA_EVENTS_TOPIC of Kafka"
  mapfile -t ids < <(cut -d' ' -f1 "$scratch/ids")
  show .local/kafka/bin/python local/kafka/reader.py --servers '"$KAFKA_BOOTSTRAP_SERVERS"' \
    --topic "$KAFKA_EVENTS_TOPIC" "${ids[@]}"
  timeout --foreground 90 .local/kafka/bin/python local/kafka/reader.py --servers "$KAFKA_BOOTSTRAP_SERVERS" \
    --topic "$KAFKA_EVENTS_TOPIC" "${ids[@]}" || fail 'Kafka does not have the same events'
}
