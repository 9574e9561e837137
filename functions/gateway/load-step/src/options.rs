//! How workers put and take the messages of a test.

use std::num::{NonZeroU16, NonZeroUsize};

use broker::load::{Foreign, GetOptions, PutOptions};
use jiff::Timestamp;
use load_test::{Consumers, LoadTest, Producers};
use load_test_store::TestRecord;
use mq::{BatchCount, ContentSeed, Outgoing, ProduceCommand, ProduceSource, PropertyText, TxSize};
use uuid::Uuid;

/// Returns how the producers of a run put messages. Ids and bodies follow from the run and the
/// message's number, so that a message that is put twice is the same message.
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

/// Returns how consumers take messages, at most `most` in advance.
pub(crate) fn gets(
    test_id: Uuid,
    test: &LoadTest,
    consumers: &Consumers,
    most: u64,
) -> Result<GetOptions, String> {
    let together = consumers.tx_size.map_or(consumers.ack_every.get(), TxSize::get);
    let prefetch = u16::try_from(u64::from(consumers.prefetch.get()).min(most)).unwrap_or(u16::MAX);
    Ok(GetOptions {
        test: property_of(test_id)?,
        prefetch: NonZeroU16::new(prefetch).unwrap_or(NonZeroU16::MIN),
        ack_every: at_least_one(together),
        foreign: match test.foreign {
            Some(load_test::Foreign::Take) => Foreign::Take,
            None => Foreign::Leave,
        },
    })
}

/// Returns how messages are taken that an earlier probe of a search has left.
pub(crate) fn gets_of_leftovers(test_id: Uuid) -> Result<GetOptions, String> {
    Ok(GetOptions {
        test: property_of(test_id)?,
        prefetch: NonZeroU16::MIN.saturating_add(999),
        ack_every: NonZeroUsize::MIN.saturating_add(499),
        foreign: Foreign::Leave,
    })
}

fn property_of(test_id: Uuid) -> Result<PropertyText, String> {
    PropertyText::try_from(test_id.to_string())
}

fn at_least_one(number: u32) -> NonZeroUsize {
    usize::try_from(number).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN)
}
