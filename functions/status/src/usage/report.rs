//! Usage report: usage summed up by tenant, API key and period.

use std::collections::BTreeMap;

use access::rates::{Amount, Quantities, RateCard};
use jiff::Timestamp;
use jiff::civil::Date;
use serde::Serialize;
use usage::ingest::{IngestCounts, IngestDay};
use usage::{Counts, EndedTests, Line};

use super::usage_query::Group;

/// Figures of the usage report that are counted from audit events, which may be lost or repeated.
const APPROXIMATE: [&str; 3] = ["replays", "refused", "requests of operations without a record"];
/// Name of the operation under which the rate card prices the ingest's batches.
pub(super) const INGEST: &str = "ingest";
/// Name of the operation whose requests start load tests.
pub(super) const LOAD_TEST: &str = "load_test";

/// Members of the usage report that apply to all of its entries.
#[derive(Debug)]
pub(super) struct Header<'a> {
    pub(super) from: Date,
    pub(super) to: Date,
    pub(super) group: Group,
    pub(super) complete: bool,
    pub(super) counted_until: Option<Timestamp>,
    pub(super) currency: Option<&'a str>,
}

/// Entries of the usage report, by tenant, period and name of the API key.
#[derive(Debug)]
pub(super) struct Report<'a>(BTreeMap<(&'a str, String, &'a str), Entry<'a>>);

/// Usage of one tenant with one API key in one period. An empty key name stands for usage without
/// one.
#[derive(Debug, Default)]
pub(super) struct Entry<'a> {
    pub(super) operations: BTreeMap<&'a str, Counts>,
    pub(super) ingest: Option<IngestCounts>,
    amount: Option<Amount>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer<'a> {
    from: Date,
    to: Date,
    group: Group,
    complete: bool,
    counted_until: Option<Timestamp>,
    approximate: [&'static str; 3],
    currency: Option<&'a str>,
    usage: Vec<AnswerEntry<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnswerEntry<'a> {
    tenant: &'a str,
    key: &'a str,
    period: &'a str,
    operations: Vec<AnswerOperation<'a>>,
    load_tests: Option<LoadTests>,
    ingest: Option<IngestCounts>,
    amount: Option<Amount>,
}

/// Numbers of load tests that one API key started in one period, and of those that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct LoadTests {
    /// Number of load tests whose start was accepted. A test that is not completed, stopped or
    /// failed is still running.
    pub(super) started: u64,
    pub(super) completed: u64,
    pub(super) stopped: u64,
    pub(super) failed: u64,
}

impl From<&Counts> for LoadTests {
    fn from(counts: &Counts) -> Self {
        let EndedTests { completed, stopped, failed } = counts.tests;
        Self { started: counts.requests.saturating_sub(counts.failed), completed, stopped, failed }
    }
}

#[derive(Serialize)]
struct AnswerOperation<'a> {
    operation: &'a str,
    #[serde(flatten)]
    counts: Counts,
}

impl<'a> AnswerOperation<'a> {
    const fn of((operation, counts): (&&'a str, &Counts)) -> Self {
        Self { operation, counts: *counts }
    }
}

impl<'a> Report<'a> {
    /// Sums up usage by tenant, period and API key, and computes amounts if there is a rate card.
    /// The ingest's usage has an empty key name, because its database does not store the key.
    pub(super) fn of(
        group: Group,
        lines: &'a [Line],
        ingest: &'a [IngestDay],
        card: Option<&RateCard>,
    ) -> Self {
        let mut entries: BTreeMap<_, Entry<'a>> = BTreeMap::new();
        for line in lines {
            let key = (line.tenant.as_str(), group.period(line.day), line.key_name.as_str());
            let operations = &mut entries.entry(key).or_default().operations;
            operations.entry(line.operation.as_str()).or_default().add(&line.counts);
        }
        for day in ingest {
            let key = (day.tenant.as_str(), group.period(day.day), "");
            entries.entry(key).or_default().ingest.get_or_insert_default().add(&day.counts);
        }
        if let Some(card) = card {
            for entry in entries.values_mut() {
                let quantities =
                    entry.rows().map(|(operation, counts, ingest)| quantities(operation, &counts, ingest));
                entry.amount = Some(card.amount(quantities));
            }
        }
        Self(entries)
    }

    /// Returns the entries, ordered by tenant, period and key name. Each comes with these three.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, &str, &'a str, &Entry<'a>)> {
        self.0.iter().map(|((tenant, period, key), entry)| (*tenant, period.as_str(), *key, entry))
    }

    /// Returns the report as its JSON body.
    pub(super) fn answer<'b>(&'b self, header: &Header<'b>) -> Answer<'b> {
        let Header { from, to, group, complete, counted_until, currency } = *header;
        let usage = self.entries().map(|(tenant, period, key, entry)| AnswerEntry {
            tenant,
            key,
            period,
            operations: entry.operations.iter().map(AnswerOperation::of).collect(),
            load_tests: entry.operations.get(LOAD_TEST).map(LoadTests::from),
            ingest: entry.ingest,
            amount: entry.amount,
        });
        let usage = usage.collect();
        Answer { from, to, group, complete, counted_until, approximate: APPROXIMATE, currency, usage }
    }
}

impl<'a> Entry<'a> {
    /// Returns the name and the counts of each operation in the entry. The ingest's counts of
    /// batches, third in the tuple, come with the operation `ingest` only.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&'a str, Counts, Option<IngestCounts>)> {
        let ingest = self.ingest;
        let known = self.operations.iter().map(move |(operation, counts)| {
            let of_ingest = ingest.filter(|_| *operation == INGEST);
            (*operation, *counts, of_ingest)
        });
        let alone = self.ingest.filter(|_| !self.operations.contains_key(INGEST));
        known.chain(alone.map(|ingest| (INGEST, Counts::default(), Some(ingest))))
    }
}

/// Returns the quantities of an operation that the rate card prices. The bytes of a batch are only
/// in `ingest`: the request that sent the batch counts no bytes, so none are counted twice.
pub(super) fn quantities<'a>(
    operation: &'a str,
    counts: &Counts,
    ingest: Option<IngestCounts>,
) -> Quantities<'a> {
    let ingest = ingest.unwrap_or_default();
    Quantities {
        operation,
        requests: counts.requests,
        messages: counts.messages,
        bytes: counts.bytes.saturating_add(ingest.bytes),
        batches: ingest.batches,
        items: ingest.items.all(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::civil::date;
    use serde_json::{Value, json};

    use super::*;
    use usage::ingest::ItemCounts;

    pub(in crate::usage) fn line(day: i8, operation: &str, key_name: &str, messages: u64) -> Line {
        Line {
            tenant: "acme".to_owned(),
            day: date(2026, 11, day),
            operation: operation.to_owned(),
            key_name: key_name.to_owned(),
            counts: Counts { requests: 2, failed: 1, messages, bytes: 10 * messages, ..Counts::default() },
        }
    }

    pub(in crate::usage) fn batch(day: i8) -> IngestDay {
        let items = ItemCounts { inserted: 3, failed: 1, ..ItemCounts::default() };
        let counts = IngestCounts { batches: 1, bytes: 500, items, stored_byte_days: 700 };
        IngestDay { tenant: "acme".to_owned(), day: date(2026, 11, day), counts }
    }

    pub(in crate::usage) fn card() -> RateCard {
        let rates = json!([
            {"operation": "*", "unit": "requests", "per": 1, "price": "0.5"},
            {"operation": "ingest", "unit": "items", "per": 4, "price": "1"},
        ]);
        RateCard::from_value(json!({"currency": "USD", "rates": rates})).unwrap()
    }

    pub(in crate::usage) fn header(group: Group) -> Header<'static> {
        Header {
            from: date(2026, 11, 1),
            to: date(2026, 11, 27),
            group,
            complete: false,
            counted_until: Some("2026-11-27T02:31:00Z".parse().unwrap()),
            currency: Some("USD"),
        }
    }

    fn answer(group: Group, lines: &[Line], ingest: &[IngestDay], card: Option<&RateCard>) -> Value {
        json!(Report::of(group, lines, ingest, card).answer(&header(group)))
    }

    #[test]
    fn lines_are_added_up_by_tenant_key_and_period() {
        let lines = [line(1, "produce", "till", 5), line(2, "produce", "till", 7), line(2, "consume", "", 1)];
        let by_month = answer(Group::Month, &lines, &[batch(1), batch(2)], Some(&card()));
        let counts = |operation: &str, requests: u64, messages: u64| {
            json!({"operation": operation, "requests": requests, "failed": requests / 2, "messages": messages,
                "bytes": 10 * messages, "replays": 0, "refused": 0})
        };
        let items = json!({"inserted": 6, "updated": 0, "unchanged": 0, "stale": 0, "failed": 2});
        assert_eq!(
            by_month,
            json!({
                "from": "2026-11-01", "to": "2026-11-27", "group": "month", "complete": false,
                "countedUntil": "2026-11-27T02:31:00Z", "approximate": APPROXIMATE, "currency": "USD",
                "usage": [
                    {"tenant": "acme", "key": "", "period": "2026-11", "operations": [counts("consume", 2, 1)],
                        "loadTests": null, "amount": "3.000000",
                        "ingest": {"batches": 2, "bytes": 1000, "items": items, "storedByteDays": 1400}},
                    {"tenant": "acme", "key": "till", "period": "2026-11",
                        "operations": [counts("produce", 4, 12)], "loadTests": null, "ingest": null,
                        "amount": "2.000000"},
                ],
            })
        );
        let by_day = answer(Group::Day, &lines, &[batch(1)], None);
        let periods: Vec<_> =
            by_day["usage"].as_array().unwrap().iter().map(|entry| &entry["period"]).collect();
        assert_eq!(periods, ["2026-11-01", "2026-11-01", "2026-11-02", "2026-11-02"]);
        assert!(by_day["usage"].as_array().unwrap().iter().all(|entry| entry["amount"].is_null()));
    }

    #[test]
    fn load_tests_have_the_states_in_which_they_ended() {
        let tests = EndedTests { completed: 1, stopped: 0, failed: 0 };
        let mut ended = line(1, "load_test", "till", 0);
        ended.counts = Counts { requests: 4, failed: 1, tests, ..Counts::default() };
        let of_day = answer(Group::Day, &[ended.clone(), line(1, "produce", "till", 1)], &[], None);
        let states = json!({"started": 3, "completed": 1, "stopped": 0, "failed": 0});
        assert_eq!(of_day["usage"][0]["loadTests"], states);
        assert!(of_day["usage"][0]["operations"][0].get("tests").is_none(), "{of_day}");
        let mut later = line(2, "load_test", "till", 0);
        later.counts = Counts { requests: 1, tests: EndedTests { stopped: 1, ..tests }, ..Counts::default() };
        let of_month = answer(Group::Month, &[ended, later], &[], None);
        let states = json!({"started": 4, "completed": 2, "stopped": 1, "failed": 0});
        assert_eq!(of_month["usage"][0]["loadTests"], states);
    }

    #[test]
    fn batches_are_priced_once_with_the_requests_that_sent_them() {
        let lines = [line(1, "ingest", "", 0)];
        let own = answer(Group::Day, &lines, &[batch(1)], Some(&card()));
        assert_eq!(own["usage"][0]["amount"], "2.000000");
        assert_eq!(own["usage"].as_array().unwrap().len(), 1);
        let alone = answer(Group::Day, &[], &[batch(1)], Some(&card()));
        assert_eq!(
            (&alone["usage"][0]["operations"], &alone["usage"][0]["amount"]),
            (&json!([]), &json!("1.000000"))
        );
    }
}
