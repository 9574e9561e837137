# The message gateway: what is put is counted once however often the request is repeated, on either
# broker. Part of local/demo.sh.
# shellcheck shell=bash disable=SC2016,SC2034,SC2154 # as there, where the other variables are

# wait_on PROFILE: how many messages wait on the profile's queue already, in $before.
wait_on() {
  send /queue/depth --json "{\"targetRef\": \"$1\"}"
  expect '200 with a depth' 'status == 200 and a.currentDepth >= 0'
  before=$(look a.currentDepth)
}

# count PROFILE EXPECTED COMMENT
count() {
  cli depth -t "$1" -o json
  expect "a depth of $2" "status == 0 and a.queues[0].currentDepth == $2"
  say "$3: $2"
}

test_connection() {
  ask /connections/test --json "{\"targetRef\": \"$1\"}"
  expect '200 with "ok":true' 'status == 200 and a.ok is True'
  say "$(look 'f"{a.broker.product} {a.broker.version}: {steps(a)}"')"
}

on_rabbitmq() {
  local before key left
  local batch='"batch": {"count": 1000, "messageSizeBytes": 2048, "transaction": {"enabled": true, "txSize": 100}}'
  local body='{"targetRef": "local-rabbit", '$batch', "payload": {"mode": "random"}}'

  step '1. Put 1,000 messages of 2 KiB on DEV.QUEUE.1, 100 to a transaction'
  wait_on local-rabbit
  key=$(uuid)
  ask /messages/produce -H "Idempotency-Key: $key" --json "$body"
  expect '201 with all messages enqueued' 'status == 201 and a.enqueued == 1000'
  say "$status in $milliseconds ms: $(look 'f"{a.enqueued} messages, {a.bytes} bytes, {a.transactions} transactions"')"
  cp "$answer" "$scratch/first"
  count local-rabbit "$((before + 1000))" 'That is how many are on the queue'

  step '2. Take 3 of them'
  cli consume -t local-rabbit --max 3 --wait 2 -o json
  expect '3 messages' 'status == 0 and a.count == 3'
  look '"\n".join(f"   a message with the properties {text(message.headers)}" for message in a.messages)'
  left=$((before + 997))
  count local-rabbit "$left" 'Left on the queue'

  step '3. Send the first request again, as a client does whose network failed'
  ask /messages/produce -H "Idempotency-Key: $key" --json "$body"
  if [[ $replayed != true ]] || ! cmp -s "$answer" "$scratch/first"; then
    expect 'the stored 201 with Idempotent-Replay: true' False
  fi
  say "$status in $milliseconds ms with Idempotent-Replay: true, the same answer byte for byte"
  count local-rabbit "$left" 'Nothing was put twice, the queue still has'

  step '4. Use the same key for another request'
  ask /messages/produce -H "Idempotency-Key: $key" --json "${body/\"count\": 1000/\"count\": 5}"
  expect '409 CONFLICTING_IDEMPOTENT_REQUEST' 'status == 409 and a.reason == "CONFLICTING_IDEMPOTENT_REQUEST"'
  say "409 CONFLICTING_IDEMPOTENT_REQUEST: $(look a.detail)"

  step '5. List the targets by name, and test the connection to one'
  ask /targets
  expect "200 with the stack's profile" 'status == 200 and "local-rabbit" in [target.name for target in a.targets]'
  say "$(look '", ".join(target.name for target in a.targets)')"
  test_connection local-rabbit
}

# The same routes with another profile, and what RabbitMQ cannot do.
on_ibm_mq() {
  local before last left
  if [[ -n ${IBM_MQ_LIBRARY:-} ]]; then
    step "6. IBM MQ is reached by $IBM_MQ_LIBRARY: its queues are left alone"
    return
  fi
  step '6. The same on IBM MQ, here a stand-in: only the profile differs'
  test_connection local-qm1
  wait_on local-qm1
  local batch='"batch": {"count": 1000, "messageSizeBytes": 2048, "transaction": {"enabled": true, "txSize": 100, "atomic": true}}'
  ask /messages/produce -H "Idempotency-Key: $(uuid)" \
    --json '{"targetRef": "local-qm1", '"$batch"', "payload": {"mode": "random"}, "mqProps": {"correlIdMode": "echoMsgId"}}'
  expect '201 with all messages enqueued, each transaction whole or not at all' \
    'status == 201 and a.enqueued == 1000 and a.atomic is True'
  say "$status in $milliseconds ms: atomic true"
  last=$(look a.lastMsgIdBase64)
  count local-qm1 "$((before + 1000))" 'That is how many are on the queue'

  cli consume -t local-qm1 --select-correlation "$last" --wait 2 -o json
  expect 'the last message' "status == 0 and a.messages[0].msgIdBase64 == '$last'"
  say 'Taken the last one first, by its correlation id'
  left=$((before + 999))
  count local-qm1 "$left" 'Left on the queue'

  # Two reads that leave the queue as it is: a consume that is rolled back, which counts, and a
  # browse.
  cli consume -t local-qm1 --max 3 --wait 2 --ack rollback -o json
  expect '3 messages' 'status == 0 and a.count == 3'
  say 'Taken 3 with --ack rollback, which backs them out'
  count local-qm1 "$left" 'Still on the queue'
  cli browse -t local-qm1 --max 3 -o json
  expect '3 messages that were backed out' \
    'status == 0 and a.count == 3 and all(message.backoutCount >= 1 for message in a.messages)'
  say "Browsed the same 3: their backoutCount is $(look 'a.messages[0].backoutCount'), and nothing was taken"
  count local-qm1 "$left" 'Still on the queue'
}

# Producers and consumers on a queue that no other part uses. The test runs while other parts go on,
# because its workers have ten seconds to get ready.
start_load_test() {
  local load='"producers": {"count": 2, "ratePerSec": 200, "messageSizeBytes": 512}, "consumers": {"count": 2}'
  step '7. Start a load test of 4 s: 200 messages a second on DEV.QUEUE.2'
  test_begin=$(now)
  ask /tests -H "Idempotency-Key: $(uuid)" \
    --json '{"targetRef": "local-rabbit", "target": {"queue": "DEV.QUEUE.2"}, '"$load"', "durationSeconds": 4}'
  expect '202 with a testId' 'status == 202 and isinstance(a.testId, str)'
  test_id=$(look a.testId)
  test_status=$(look a.status)
  say "$status in $milliseconds ms: test $test_id is $test_status"
  say 'Its workers begin together in ten seconds, while this goes on'
}

# Follows the test to its end, and shows what its report says first.
show_load_test() {
  step '13. Look at the load test'
  follow "/tests/$test_id" "$test_begin" "$test_status"
  say "$states"
  say "$(look a.report.summary)"
  say "What is known of it, as a page: $API/tests/$test_id?format=html"
  # A worker that began late on a busy machine leaves a hole, and then nobody knows what is lost.
  expect 'a COMPLETED test whose messages arrived' '(
    a.status == "COMPLETED" and a.report.accounting.due == 800 and a.report.accounting.received > 0
    and not vars(a.report.accounting).get("lost"))'
}
