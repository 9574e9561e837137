//! Options of the broker clients that put and take the messages of a load test.

use std::num::{NonZeroU16, NonZeroUsize};

use broker::load::{Foreign, GetOptions, PutOptions};
use jiff::Timestamp;
use load_test::store::TestRecord;
use load_test::{Consumers, LoadTest, Producers};
use mq::{BatchCount, ContentSeed, Outgoing, ProduceCommand, ProduceSource, PropertyText, TxSize};
use uuid::Uuid;

/// Maximum number of bytes of messages that the broker delivers to one consumer before they are
/// acknowledged. It is half of the bytes that the RabbitMQ client may hold before the consumer
/// ends.
const MOST_HELD: u64 = 16 * 1024 * 1024;

/// Estimated bytes of a delivered message in addition to its body.
const BESIDE: u64 = 1024;

/// Maximum number of messages that the broker delivers before they are acknowledged, to the
/// consumer that takes the messages left by an earlier probe (run of the same search).
const LEFTOVERS: u32 = 1_000;

/// Returns the options with which producers put the messages of the run number `run`, which starts
/// at `start`. The id and the body of a message follow from the run and the message's sequence
/// number, so a message that is put twice is the same message.
pub(crate) fn puts(
    record: &TestRecord,
    producers: &Producers,
    run: u32,
    start: Timestamp,
) -> Result<PutOptions, String> {
    let test_id = record.test_id.to_string();
    let seed = ContentSeed::new(&record.tenant, &test_id, &format!("run {run}"), start);
    let command = ProduceCommand {
        // The messages of a test are not counted here: it has those that fall due.
        source: ProduceSource::Generated { count: BatchCount::default(), payload: producers.payload.clone() },
        rate_limit_per_sec: None,
        transaction: producers.transaction,
        props: producers.mq_props.clone(),
        headers: producers.headers.clone(),
        warnings: Vec::new(),
    };
    let transaction = if producers.transaction.enabled { producers.transaction.tx_size.get() } else { 1 };
    Ok(PutOptions {
        outgoing: Outgoing::of(command, seed),
        test: property_of(record.test_id)?,
        confirms_in_flight: at_least_one(producers.confirms_in_flight.get()),
        transaction: at_least_one(transaction),
    })
}

/// Returns the options with which a consumer takes messages. The broker delivers at most `most`
/// messages before they are acknowledged.
///
/// When its minute of the test ends, a consumer takes all messages that were already delivered,
/// whatever its rate. So to a consumer with a rate or a delay, the broker delivers at most about a
/// second's messages in advance.
pub(crate) fn gets(
    test_id: Uuid,
    test: &LoadTest,
    consumers: &Consumers,
    most: u64,
) -> Result<GetOptions, String> {
    let together = consumers.tx_size.map_or(consumers.ack_every.get(), TxSize::get);
    let paced = in_a_second(consumers).map_or(u32::MAX, |paced| paced.max(together));
    let prefetch = consumers.prefetch.get().min(paced).min(most_held(test));
    Ok(GetOptions {
        test: property_of(test_id)?,
        prefetch: prefetch_of(u64::from(prefetch).min(most)),
        ack_every: at_least_one(together),
        foreign: foreign(test),
    })
}

/// Returns the options for taking the messages that an earlier probe (run of the same search) has
/// left.
pub(crate) fn gets_of_leftovers(test_id: Uuid, test: &LoadTest) -> Result<GetOptions, String> {
    Ok(GetOptions {
        test: property_of(test_id)?,
        prefetch: prefetch_of(LEFTOVERS.min(most_held(test)).into()),
        ack_every: NonZeroUsize::MIN.saturating_add(499),
        foreign: foreign(test),
    })
}

const fn foreign(test: &LoadTest) -> Foreign {
    match test.foreign {
        Some(load_test::Foreign::Take) => Foreign::Take,
        None => Foreign::Leave,
    }
}

/// Returns the number of messages that one consumer takes in a second, by its part of the
/// consumers' rate or by its delay, whichever is lower; `None` if consumers have neither a rate nor
/// a delay.
fn in_a_second(consumers: &Consumers) -> Option<u32> {
    let by_rate = consumers.rate_per_sec.map(|rate| rate.get().div_ceil(consumers.count.get()));
    let by_delay = 1_000_u32.checked_div(consumers.delay_ms.get());
    by_rate.into_iter().chain(by_delay).min()
}

/// Returns the number of a test's messages, at least one, that the broker may deliver to one
/// consumer before they are acknowledged, so that their bytes do not exceed [`MOST_HELD`]. The
/// length of foreign messages (which the test did not put) is not known.
fn most_held(test: &LoadTest) -> u32 {
    let longest = test.producers.as_ref().map_or(0, |producers| producers.payload.longest());
    let body = u64::try_from(longest).unwrap_or(u64::MAX);
    u32::try_from(MOST_HELD / body.saturating_add(BESIDE)).unwrap_or(u32::MAX).max(1)
}

fn prefetch_of(messages: u64) -> NonZeroU16 {
    u16::try_from(messages).map_or(NonZeroU16::MAX, |count| NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN))
}

fn property_of(test_id: Uuid) -> Result<PropertyText, String> {
    PropertyText::try_from(test_id.to_string())
}

fn at_least_one(number: u32) -> NonZeroUsize {
    usize::try_from(number).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn test(consumers: &Value, producers: &Value) -> LoadTest {
        crate::samples::test(json!({"consumers": consumers, "producers": producers}))
    }

    fn prefetch(test: &LoadTest, most: u64) -> u16 {
        let consumers = test.consumers.as_ref().unwrap();
        gets(Uuid::nil(), test, consumers, most).unwrap().prefetch.get()
    }

    #[test]
    fn a_consumer_gets_no_more_in_advance_than_it_takes_in_a_second() {
        for (consumers, expected) in [
            (json!({}), 100),
            (json!({"ratePerSec": 10, "count": 4}), 3),
            (json!({"ratePerSec": 10, "count": 4, "ackEvery": 20}), 20),
            (json!({"ratePerSec": 100_000}), 100),
            (json!({"delayMs": 300}), 3),
            (json!({"delayMs": 60_000}), 1),
            (json!({"delayMs": 10, "ratePerSec": 50}), 50),
        ] {
            let test = test(&consumers, &json!({"ratePerSec": 10, "messageSizeBytes": 10}));
            assert_eq!(prefetch(&test, u64::MAX), expected, "{consumers}");
        }
        let test = test(&json!({}), &json!({"ratePerSec": 10}));
        assert_eq!([0, 7, 1_000].map(|most| prefetch(&test, most)), [1, 7, 100]);
    }

    #[test]
    fn what_is_delivered_in_advance_fits_into_memory() {
        for (size, expected, leftovers) in [(0, 16_384, 1_000), (100_000, 166, 166), (4_194_304, 3, 3)] {
            let test = test(&json!({"prefetch": 65_535}), &json!({"messageSizeBytes": size}));
            assert_eq!(prefetch(&test, u64::MAX), expected, "{size}");
            assert_eq!(gets_of_leftovers(Uuid::nil(), &test).unwrap().prefetch.get(), leftovers, "{size}");
        }
    }
}
