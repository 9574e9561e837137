//! Usage of all tenants in a month, and the amounts that it costs them, for the budgets.

use std::collections::BTreeMap;
use std::time::Duration;

use access::rates::{Amount, Quantities, RateCard, Unit};
use attempt::Deadline;
use jiff::Timestamp;
use jiff::civil::Date;
use usage::ingest::{IngestDay, IngestUsage};
use usage::{Counts, Hour, Line, UsageTable};

use crate::budgets::BudgetError;
use crate::earlier::{DayToRead, EarlierDays};
use crate::ingest::Ingest;

/// Maximum time for which a failed request to the ingest is repeated. The first request wakes a
/// paused database, which responds after some 15 s. A request waits for the database for 5 s.
const WAKING: Duration = Duration::from_secs(25);
/// Pause before a failed request to the ingest is repeated, so that a request which fails at once
/// is not repeated all the time.
const PAUSE: Duration = Duration::from_secs(2);
/// Name of the operation under which the rate card prices the ingest's batches.
const INGEST: &str = "ingest";
/// Units of the rate card that the ingest's usage is measured in. If the card prices one of them,
/// the ingest's database is asked for the usage.
const OF_INGEST: [Unit; 3] = [Unit::Bytes, Unit::Batches, Unit::Items];

/// Usage in a period, by tenant id and name of the operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spending(BTreeMap<String, BTreeMap<String, Used>>);

/// Usage of one operation by one tenant in a period. Only the ingest has batches and items.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    counts: Counts,
    batches: u64,
    items: u64,
}

impl Used {
    fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.batches = self.batches.saturating_add(other.batches);
        self.items = self.items.saturating_add(other.items);
    }
}

/// Sources of a month's usage: the usage table, the ingest, and the cached sum of earlier days.
#[derive(Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) usage: &'a UsageTable,
    /// Client of the function `batches`, for the ingest's usage; `None` if the deployment has no
    /// ingest.
    pub(crate) ingest: Option<&'a Ingest>,
    pub(crate) earlier: &'a EarlierDays,
}

impl Spending {
    /// Reads the usage of a month up to the day of `until`, for a check of the budgets at `now`.
    /// The ingest's usage is read only if the rate card has a price for it. Returns `None` if the
    /// deadline passed before everything was read; the next check of the budgets continues.
    pub(crate) async fn of_month(
        sources: &Sources<'_>,
        card: Option<&RateCard>,
        (now, until): (Timestamp, Timestamp),
        deadline: Deadline,
    ) -> Result<Option<Self>, BudgetError> {
        let Sources { usage, ingest, earlier } = *sources;
        let last_day = Hour::of(until).day();
        let ingest = ingest.filter(|_| card.is_some_and(prices_ingest));
        let read = async |part: DayToRead| {
            let reading = async {
                match (part, ingest) {
                    (DayToRead::Requests(day), _) => Self::of_day(usage, day).await,
                    (DayToRead::Batches(day), Some(ingest)) => {
                        Self::of_batches(ingest, day, deadline.min(WAKING)).await
                    }
                    (DayToRead::Batches(_), None) => Ok(Self::default()),
                }
            };
            deadline.run(reading).await.unwrap_or(Err(BudgetError::OutOfTime))
        };
        let mut sum = earlier.take(Hour::of(now), last_day, ingest.is_some());
        let missing = sum.missing.len();
        let today = match sum.complete(&read).await {
            Ok(()) => read(DayToRead::Requests(last_day)).await,
            Err(error) => Err(error),
        };
        let spending = match today {
            Ok(today) => {
                let mut spending = sum.spending.clone();
                spending.merge(today);
                Ok(Some(spending))
            }
            // A look that adds nothing would be repeated without an end.
            Err(BudgetError::OutOfTime) if sum.missing.len() < missing => Ok(None),
            Err(error) => Err(error),
        };
        earlier.put(sum);
        spending
    }

    /// Reads and sums up the requests of all tenants on a day from the usage table.
    async fn of_day(usage: &UsageTable, day: Date) -> Result<Self, BudgetError> {
        let mut spending = Self::default();
        // Boxed: the futures of the clients are large.
        Box::pin(usage.each_of_day(day, |lines| spending.add(lines))).await.map_err(BudgetError::Lines)?;
        Ok(spending)
    }

    /// Reads and sums up the batches of all tenants on a day from the ingest. A failed request to
    /// the ingest is repeated until `awake_by`.
    async fn of_batches(ingest: &Ingest, day: Date, awake_by: Deadline) -> Result<Self, BudgetError> {
        Self::of_answers(async |after: Option<String>| {
            // Boxed: the futures of the clients are large.
            let ask = async || Box::pin(ingest.usage_after(day, after.as_deref())).await;
            until_awake(awake_by, PAUSE, ask).await.map_err(BudgetError::Ingest)
        })
        .await
    }

    /// Sums up responses of the ingest until one is complete. `ask` requests a response for the
    /// tenants after the given one, which is the last tenant of the previous response.
    async fn of_answers(
        ask: impl AsyncFn(Option<String>) -> Result<IngestUsage, BudgetError>,
    ) -> Result<Self, BudgetError> {
        let (mut spending, mut after) = (Self::default(), None);
        loop {
            let IngestUsage { days, is_whole } = ask(after).await?;
            after = days.last().map(|day| day.tenant.clone());
            spending.add_ingest(days);
            if is_whole {
                return Ok(spending);
            }
        }
    }

    /// Adds the usage in `other`, for example of other days, to this usage.
    pub(crate) fn merge(&mut self, other: Self) {
        for (tenant, operations) in other.0 {
            let own = self.0.entry(tenant).or_default();
            for (operation, used) in operations {
                own.entry(operation).or_default().add(&used);
            }
        }
    }

    fn add(&mut self, lines: Vec<Line>) {
        for Line { tenant, operation, counts, .. } in lines {
            self.used(tenant, &operation).counts.add(&counts);
        }
    }

    /// Adds the ingest's batches of some days to this usage, with their bytes and items. The
    /// requests that sent the batches count no bytes themselves, so no bytes are counted twice.
    fn add_ingest(&mut self, days: Vec<IngestDay>) {
        for IngestDay { tenant, counts, .. } in days {
            let bytes = Counts { bytes: counts.bytes, ..Counts::default() };
            let used = Used { counts: bytes, batches: counts.batches, items: counts.items.all() };
            self.used(tenant, INGEST).add(&used);
        }
    }

    fn used(&mut self, tenant: String, operation: &str) -> &mut Used {
        self.0.entry(tenant).or_default().entry(operation.to_owned()).or_default()
    }

    /// Returns the amount that each tenant has spent, by the prices of `card`. Amounts are `None`
    /// without a rate card.
    pub(crate) fn amounts(self, card: Option<&RateCard>) -> Vec<(String, Option<Amount>)> {
        let amount = |operations: &BTreeMap<String, Used>| card.map(|card| amount(card, operations));
        self.0.into_iter().map(|(tenant, operations)| (tenant, amount(&operations))).collect()
    }
}

/// Repeats the request `ask` until it succeeds, with a pause after each failure. Returns the last
/// error once `awake_by` is no further away than the pause.
async fn until_awake<T, E>(
    awake_by: Deadline,
    pause: Duration,
    ask: impl AsyncFn() -> Result<T, E>,
) -> Result<T, E> {
    loop {
        let asked = ask().await;
        if asked.is_ok() || awake_by.remaining() <= pause {
            return asked;
        }
        tokio::time::sleep(pause).await;
    }
}

fn prices_ingest(card: &RateCard) -> bool {
    OF_INGEST.into_iter().any(|unit| card.prices(INGEST, unit))
}

fn amount(card: &RateCard, operations: &BTreeMap<String, Used>) -> Amount {
    card.amount(operations.iter().map(|(operation, used)| Quantities {
        operation: operation.as_str(),
        requests: used.counts.requests,
        messages: used.counts.messages,
        bytes: used.counts.bytes,
        batches: used.batches,
        items: used.items,
    }))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;
    use usage::ingest::{IngestCounts, ItemCounts};

    use super::*;

    fn line(tenant: &str, operation: &str, key_name: &str) -> Line {
        Line {
            tenant: tenant.to_owned(),
            day: "2026-11-27".parse().unwrap(),
            operation: operation.to_owned(),
            key_name: key_name.to_owned(),
            counts: Counts { requests: 3, messages: 10, bytes: 1, ..Counts::default() },
        }
    }

    #[test]
    fn what_a_tenant_spent_is_the_price_of_all_its_lines() {
        let mut spending = Spending::default();
        spending.add(vec![line("a", "produce", "till 1"), line("b", "produce", "")]);
        spending.add(vec![line("a", "produce", "till 2"), line("a", "consume", "till 1")]);
        let rates = json!([
            {"operation": "*", "unit": "requests", "per": 1, "price": "1"},
            {"operation": "produce", "unit": "messages", "per": 20, "price": "0.5"},
        ]);
        let card = RateCard::from_value(json!({"currency": "USD", "rates": rates})).unwrap();
        let amounts = spending.clone().amounts(Some(&card));
        let amounts: Vec<_> = amounts.iter().map(|(_, amount)| amount.unwrap().to_string()).collect();
        assert_eq!(amounts, ["9.500000", "3.250000"]);
        assert_eq!(spending.amounts(None), [("a".to_owned(), None), ("b".to_owned(), None)]);
    }

    #[test]
    fn batches_are_spent_too_with_the_requests_that_sent_them() {
        let items = ItemCounts { inserted: 7, failed: 1, ..ItemCounts::default() };
        let counts = IngestCounts { batches: 2, bytes: 100, items, ..IngestCounts::default() };
        let day = IngestDay { tenant: "a".to_owned(), day: "2026-11-27".parse().unwrap(), counts };
        let mut spending = Spending::default();
        spending.add(vec![line("a", "ingest", "till 1")]);
        spending.add_ingest(vec![day.clone(), day]);
        let amount = |rates: serde_json::Value| {
            let card = RateCard::from_value(json!({"currency": "USD", "rates": rates})).unwrap();
            let amount = spending.clone().amounts(Some(&card))[0].1.unwrap().to_string();
            (prices_ingest(&card), amount)
        };
        let each = |operation: &str, unit: &str| {
            let rate = json!({"operation": operation, "unit": unit, "per": 1, "price": "1"});
            json!([rate])
        };
        assert_eq!(amount(each("ingest", "batches")), (true, "4.000000".to_owned()));
        assert_eq!(amount(each("ingest", "items")), (true, "16.000000".to_owned()));
        assert_eq!(amount(each("*", "bytes")), (true, "201.000000".to_owned()));
        assert_eq!(amount(each("*", "requests")), (false, "3.000000".to_owned()));
        assert_eq!(amount(each("produce", "bytes")), (false, "0.000000".to_owned()));
    }

    #[tokio::test]
    async fn an_ingest_whose_database_wakes_up_is_asked_again() {
        let asked_until = async |awake_by| {
            let calls = Cell::new(0_u32);
            let ask = async || {
                calls.set(calls.get() + 1);
                if calls.get() == 3 { Ok("awake") } else { Err(calls.get()) }
            };
            until_awake(awake_by, Duration::ZERO, ask).await
        };
        assert_eq!(asked_until(Deadline::after(Duration::from_hours(1))).await, Ok("awake"));
        assert_eq!(asked_until(Deadline::after(Duration::ZERO)).await, Err(1), "the time has passed");
    }

    #[tokio::test]
    async fn an_answer_that_is_cut_off_is_continued_after_its_last_tenant() {
        let answer = |tenant: &str, is_whole| {
            let counts = IngestCounts { batches: 1, ..IngestCounts::default() };
            let day = "2026-11-27".parse().unwrap();
            Ok(IngestUsage { days: vec![IngestDay { tenant: tenant.to_owned(), day, counts }], is_whole })
        };
        let spending = Spending::of_answers(async |after: Option<String>| match after.as_deref() {
            None => answer("a", false),
            Some("a") => answer("b", true),
            Some(_) => Err(BudgetError::OutOfTime),
        });
        assert_eq!(spending.await.unwrap().0.into_keys().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn days_are_merged_by_tenant_and_operation() {
        let (mut sum, mut other) = (Spending::default(), Spending::default());
        sum.add(vec![line("a", "produce", "")]);
        other.add(vec![line("a", "produce", ""), line("a", "consume", ""), line("b", "produce", "")]);
        sum.merge(other);
        let requests = |tenant: &str, operation: &str| sum.0[tenant][operation].counts.requests;
        assert_eq!([requests("a", "produce"), requests("a", "consume"), requests("b", "produce")], [6, 3, 3]);
    }
}
