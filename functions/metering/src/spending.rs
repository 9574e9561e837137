//! Usage of a month, added up for the budgets.

use std::collections::BTreeMap;
use std::time::Duration;

use access::Month;
use clock::{Deadline, Remembered};
use ingest_figures::{Ingest, IngestDay};
use jiff::Timestamp;
use jiff::civil::Date;
use usage::rates::{Amount, Quantities, RateCard, Unit};
use usage::{Counts, Hour, Line, UsageTable};

use crate::budgets::BudgetError;

/// Time for which a sum is used. What came late to one of its days is in the next sum.
const EARLIER_HOLD: Duration = Duration::from_hours(1);
/// Time for which the ingest is asked again. A database that was paused takes some 15 s to respond,
/// and begins to wake up when it is asked; the ingest waits for 5 s.
const WAKING: Duration = Duration::from_secs(25);
/// Pause before it is asked again: it may also refuse at once.
const PAUSE: Duration = Duration::from_secs(2);
/// Operation as which the ingest's batches are priced.
const INGEST: &str = "ingest";
/// Units that the database counts.
const OF_INGEST: [Unit; 3] = [Unit::Bytes, Unit::Batches, Unit::Items];

/// Usage of each tenant, by operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spending(BTreeMap<String, BTreeMap<String, Used>>);

/// Quantities of one operation.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    counts: Counts,
    batches: u64,
    items: u64,
}

/// Sources of a month's usage, and the sum of its earlier days.
#[derive(Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) usage: &'a UsageTable,
    /// The ingest, if the deployment has one.
    pub(crate) ingest: Option<&'a Ingest>,
    pub(crate) earlier: &'a EarlierDays,
}

/// Sum of the month's days before today, and of the month's batches. It is made once an hour, and
/// by each new environment. The lines of today are read for each look at the budgets. The database
/// is not asked more often, because that keeps it from a pause.
#[derive(Debug)]
pub struct EarlierDays(Remembered<Hour, Spending>);

impl Default for EarlierDays {
    fn default() -> Self {
        Self(Remembered::new(EARLIER_HOLD, 1))
    }
}

impl EarlierDays {
    fn put(&self, hour: Hour, sum: Spending) {
        // There is room for one. An older one has passed its time.
        self.0.forget(&hour.before());
        self.0.put(hour, sum);
    }
}

impl Spending {
    /// Reads the usage of a month until now, that of the ingest only if the card has a price for
    /// it. One day at a time, because a month may have more lines than an answer.
    pub(crate) async fn of_month(
        sources: &Sources<'_>,
        card: Option<&RateCard>,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Self, BudgetError> {
        let (hour, month) = (Hour::of(now), Month::of(now));
        let Sources { usage, ingest, earlier } = *sources;
        let mut sum = match earlier.0.get(&hour) {
            Some(known) => known,
            None => {
                let mut made = Self::default();
                for day in days_before(month.first(), hour.day()) {
                    made.read(usage, day, deadline).await?;
                }
                if let Some(ingest) = ingest.filter(|_| card.is_some_and(prices_ingest)) {
                    let awake_by = deadline.min(WAKING);
                    for day in days_before(month.first(), hour.day()).chain([hour.day()]) {
                        made.read_ingest(ingest, day, (awake_by, deadline)).await?;
                    }
                }
                earlier.put(hour, made.clone());
                made
            }
        };
        sum.read(usage, hour.day(), deadline).await?;
        Ok(sum)
    }

    /// Adds the lines of a day.
    async fn read(&mut self, usage: &UsageTable, day: Date, deadline: Deadline) -> Result<(), BudgetError> {
        if deadline.has_passed() {
            return Err(BudgetError::OutOfTime);
        }
        self.add(usage.days(day, day, None).await.map_err(BudgetError::Lines)?);
        Ok(())
    }

    /// Adds the batches of a day. Until `awake_by`, the ingest is asked again if it fails.
    async fn read_ingest(
        &mut self,
        ingest: &Ingest,
        day: Date,
        (awake_by, deadline): (Deadline, Deadline),
    ) -> Result<(), BudgetError> {
        if deadline.has_passed() {
            return Err(BudgetError::OutOfTime);
        }
        // Boxed: the futures of the clients are large.
        let asking = async || Box::pin(ingest.usage((day, day), None)).await;
        let usage = until_awake(awake_by, PAUSE, asking).await.map_err(BudgetError::Ingest)?;
        if !usage.is_whole {
            return Err(BudgetError::Ingest("a day has more tenants than an answer".into()));
        }
        self.add_ingest(usage.days);
        Ok(())
    }

    fn add(&mut self, lines: Vec<Line>) {
        for Line { tenant, operation, counts, .. } in lines {
            self.used(tenant, &operation).counts.add(&counts);
        }
    }

    /// Adds batches. The record of their request carries no bytes, so theirs are counted once.
    fn add_ingest(&mut self, days: Vec<IngestDay>) {
        for IngestDay { tenant, counts, .. } in days {
            let used = self.used(tenant, INGEST);
            used.counts.add(&Counts { bytes: counts.bytes, ..Counts::default() });
            used.batches = used.batches.saturating_add(counts.batches);
            used.items = used.items.saturating_add(counts.items.all());
        }
    }

    fn used(&mut self, tenant: String, operation: &str) -> &mut Used {
        self.0.entry(tenant).or_default().entry(operation.to_owned()).or_default()
    }

    /// Returns what each tenant spent; `None` without a rate card.
    pub(crate) fn amounts(self, card: Option<&RateCard>) -> Vec<(String, Option<Amount>)> {
        let amount = |operations: &BTreeMap<String, Used>| card.map(|card| amount(card, operations));
        self.0.into_iter().map(|(tenant, operations)| (tenant, amount(&operations))).collect()
    }
}

/// Asks again after each failure, as long as a pause still ends before `awake_by`.
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

/// Returns the days from `first` up to `end`, without `end`.
fn days_before(first: Date, end: Date) -> impl Iterator<Item = Date> {
    std::iter::successors(Some(first), |day| day.tomorrow().ok()).take_while(move |day| *day < end)
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

    use ingest_figures::{IngestCounts, ItemCounts};
    use serde_json::json;

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

    #[test]
    fn the_days_before_today_are_those_of_the_month_without_today() {
        let day = |day: &str| day.parse::<Date>().unwrap();
        let before = |today: &str| days_before(day("2026-11-01"), day(today)).count();
        assert_eq!([before("2026-11-01"), before("2026-11-02"), before("2026-11-30")], [0, 1, 29]);
    }

    #[test]
    fn a_sum_of_earlier_days_is_for_its_hour() {
        let earlier = EarlierDays::default();
        let (one, next): (Hour, Hour) = ("2026-11-27T02".parse().unwrap(), "2026-11-27T03".parse().unwrap());
        let mut sum = Spending::default();
        sum.add(vec![line("a", "produce", "")]);
        earlier.put(one, sum);
        assert_eq!(earlier.0.get(&one).unwrap().0.len(), 1);
        assert!(earlier.0.get(&next).is_none(), "what came late is read in the next hour");
        earlier.put(next, Spending::default());
        assert!(earlier.0.get(&next).unwrap().0.is_empty());
        assert!(earlier.0.get(&one).is_none());
    }
}
