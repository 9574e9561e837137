//! The `x-death` history that RabbitMQ writes into messages that it dead-letters.

use std::collections::BTreeMap;

use lapin::types::FieldTable;
use mq::{Death, HeaderValue};

use crate::header_value::{from_amqp, to_amqp};
use crate::message::integer;

const DEATHS: &str = "x-death";
pub(crate) const FIRST_QUEUE: &str = "x-first-death-queue";
const FIRST_REASON: &str = "x-first-death-reason";

/// Reads the dead-letter history of a delivery from its headers, latest death first.
pub(crate) fn of_delivery(headers: Option<&FieldTable>) -> Vec<Death> {
    let read = |name: &str| Some((name.to_owned(), from_amqp(headers?.inner().get(name)?)));
    deaths(&[DEATHS, FIRST_QUEUE, FIRST_REASON].into_iter().filter_map(read).collect())
}

/// Reads the dead-letter history from a message's headers, latest death first. RabbitMQ has one
/// entry for all deaths in the same queue for the same reason.
pub(crate) fn deaths(headers: &BTreeMap<String, HeaderValue>) -> Vec<Death> {
    let Some(HeaderValue::Array(entries)) = headers.get(DEATHS) else { return Vec::new() };
    let first = (text(headers, FIRST_QUEUE), text(headers, FIRST_REASON));
    let mut deaths: Vec<_> = entries.iter().filter_map(death).collect();
    let is_first = |death: &&mut Death| (death.queue.clone(), death.reason.clone()) == first;
    if first != (None, None)
        && let Some(death) = deaths.iter_mut().rev().find(is_first)
    {
        death.first = true;
    }
    deaths
}

/// Returns the number of times that a message was dead-lettered, over all queues and reasons.
pub(crate) fn times(deaths: &[Death]) -> u64 {
    deaths.iter().map(|death| death.count.unwrap_or(1)).fold(0, u64::saturating_add)
}

/// Reads one entry of `x-death`; `None` if it is not a table. Members of unexpected types are
/// skipped, since any publisher can write the header.
fn death(entry: &HeaderValue) -> Option<Death> {
    let HeaderValue::Table(entry) = entry else { return None };
    let routing_keys = match entry.get("routing-keys") {
        Some(HeaderValue::Array(keys)) => keys.iter().filter_map(as_text).collect(),
        _ => Vec::new(),
    };
    Some(Death {
        queue: text(entry, "queue"),
        exchange: text(entry, "exchange"),
        routing_keys,
        reason: text(entry, "reason"),
        // RabbitMQ writes 64 bits, and a client that publishes the message again perhaps fewer.
        count: entry.get("count").and_then(|count| integer(&to_amqp(count).ok()?)),
        at: match entry.get("time") {
            Some(HeaderValue::Time(at)) => Some(*at),
            _ => None,
        },
        first: false,
    })
}

fn text(entry: &BTreeMap<String, HeaderValue>, name: &str) -> Option<String> {
    as_text(entry.get(name)?)
}

fn as_text(value: &HeaderValue) -> Option<String> {
    match value {
        HeaderValue::Text(text) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use mq::Time;

    use super::*;

    fn table(entries: &[(&str, HeaderValue)]) -> BTreeMap<String, HeaderValue> {
        entries.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn entry(queue: &str, reason: &str) -> HeaderValue {
        HeaderValue::Table(table(&[
            ("queue", queue.into()),
            ("reason", reason.into()),
            ("exchange", "".into()),
            ("count", HeaderValue::Int64(2)),
            ("time", HeaderValue::Time(Time::from_seconds(1_790_000_000))),
            ("routing-keys", HeaderValue::Array(vec![queue.into()])),
        ]))
    }

    #[test]
    fn the_history_is_read_and_its_beginning_is_marked() {
        let headers = table(&[
            (DEATHS, HeaderValue::Array(vec![entry("retry", "expired"), entry("work", "rejected")])),
            (FIRST_QUEUE, "work".into()),
            (FIRST_REASON, "rejected".into()),
        ]);
        let read = deaths(&headers);
        let work = Death {
            queue: Some("work".to_owned()),
            exchange: Some(String::new()),
            routing_keys: vec!["work".to_owned()],
            reason: Some("rejected".to_owned()),
            count: Some(2),
            at: Some(Time::from_seconds(1_790_000_000)),
            first: true,
        };
        assert_eq!(read.last(), Some(&work));
        let firsts: Vec<_> = read.iter().map(|death| death.first).collect();
        assert_eq!((firsts, times(&read)), (vec![false, true], 4));
    }

    #[test]
    fn a_history_that_anyone_made_up_is_read_as_far_as_it_is_one() {
        let odd =
            HeaderValue::Table(table(&[("queue", HeaderValue::Null), ("count", HeaderValue::Int64(-1))]));
        let headers = table(&[(DEATHS, HeaderValue::Array(vec!["x".into(), odd]))]);
        assert_eq!((deaths(&headers), times(&deaths(&headers))), (vec![Death::default()], 1));
        let short = HeaderValue::Table(table(&[("count", HeaderValue::Int8(3))]));
        assert_eq!(times(&deaths(&table(&[(DEATHS, HeaderValue::Array(vec![short]))]))), 3);
        assert_eq!(deaths(&table(&[(DEATHS, "x".into())])), []);
    }
}
