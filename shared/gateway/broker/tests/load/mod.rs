//! Tests of load producers and load consumers that must pass on every kind of broker. The tests of
//! each broker's crate call them, each with an empty queue.

pub(crate) mod consuming;
pub(crate) mod producing;

use std::num::{NonZeroU16, NonZeroUsize};
use std::time::Duration;

use broker::load::{
    Arrival, Confirmation, Foreign, GetOptions, LoadConsumer, LoadProducer, Outcome, PutEnd, PutOptions,
};
use broker::{Broker, Deadline};
use jiff::Timestamp;
use mq::{
    Access, BrokerError, ContentSeed, Headers, MqProps, Outgoing, Payload, ProduceCommand, ProduceSource,
    QueueName, Transaction,
};

const TEST: &str = "test-1";

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

/// Builds the options of a producer with `confirms_in_flight` unconfirmed messages and
/// `transaction` messages in a transaction.
pub(crate) fn puts(confirms_in_flight: usize, transaction: usize) -> PutOptions {
    puts_of(TEST, confirms_in_flight, transaction)
}

fn puts_of(test: &str, confirms_in_flight: usize, transaction: usize) -> PutOptions {
    let payload = Payload::Random { size: 10_i64.try_into().unwrap() };
    let command = ProduceCommand {
        source: ProduceSource::Generated { count: 1_i64.try_into().unwrap(), payload },
        rate_limit_per_sec: None,
        transaction: Transaction::default(),
        props: MqProps::default(),
        headers: Headers::default(),
        warnings: Vec::new(),
    };
    PutOptions {
        outgoing: Outgoing::of(
            command,
            ContentSeed::new("tenant", test, "fingerprint", Timestamp::UNIX_EPOCH),
        ),
        test: test.to_owned().try_into().unwrap(),
        confirms_in_flight: NonZeroUsize::new(confirms_in_flight).unwrap(),
        transaction: NonZeroUsize::new(transaction).unwrap(),
    }
}

/// Builds the options of a consumer with this prefetch that removes `ack_every` messages together.
pub(crate) fn gets(prefetch: u16, ack_every: usize, foreign: Foreign) -> GetOptions {
    GetOptions {
        test: TEST.to_owned().try_into().unwrap(),
        prefetch: NonZeroU16::new(prefetch).unwrap(),
        ack_every: NonZeroUsize::new(ack_every).unwrap(),
        foreign,
    }
}

/// Puts the messages with these sequence numbers, until the producer fails.
pub(crate) async fn put(
    producer: &mut dyn LoadProducer,
    options: &PutOptions,
    numbers: std::ops::Range<u64>,
) -> Result<(), BrokerError> {
    for number in numbers {
        let message = options.outgoing.with_body(number, number.to_string().into_bytes());
        producer.put(message, 1_000 + number, soon()).await?;
    }
    Ok(())
}

/// Puts the messages with these sequence numbers by a new producer, and ends it. Returns the
/// producer's last confirmations and its error.
pub(crate) async fn put_all(
    broker: &dyn Broker,
    access: &Access,
    queue: &QueueName,
    options: &PutOptions,
    numbers: std::ops::Range<u64>,
) -> PutEnd {
    let mut producer = broker.connect_load_producer(access, queue, options, soon()).await.unwrap();
    // Why a put failed is said again at the end.
    let _ = put(&mut *producer, options, numbers).await;
    producer.finish(soon()).await
}

/// Returns the sequence number and the outcome of each message.
pub(crate) fn outcomes(confirmations: &[Confirmation]) -> Vec<(u64, Outcome)> {
    confirmations.iter().map(|answer| (answer.sequence, answer.outcome)).collect()
}

fn all_confirmed(numbers: std::ops::Range<u64>) -> Vec<(u64, Outcome)> {
    numbers.map(|number| (number, Outcome::Confirmed)).collect()
}

/// Takes `count` messages from the consumer, and returns them in the order of their arrival.
pub(crate) async fn take(consumer: &mut dyn LoadConsumer, count: usize) -> Vec<Arrival> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.push(consumer.next(soon()).await.unwrap().expect("a message"));
    }
    taken
}

/// Returns the sequence number of each message; `None` if it does not belong to the load test.
pub(crate) fn numbers(arrivals: &[Arrival]) -> Vec<Option<u64>> {
    arrivals.iter().map(|arrival| arrival.stamp.map(|stamp| stamp.sequence)).collect()
}

fn of_the_test(numbers: std::ops::Range<u64>) -> Vec<Option<u64>> {
    numbers.map(Some).collect()
}

/// Returns the number of messages on the queue, once it is `expected` or the wait is over.
pub(crate) async fn depth(broker: &dyn Broker, access: &Access, queue: &QueueName, expected: u64) -> u64 {
    let mut depth = u64::MAX;
    for _ in 0..100 {
        depth = broker.depth(access, queue, soon()).await.unwrap().current_depth;
        if depth == expected {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    depth
}
