//! Usage of a month, added up for the budgets.

use std::collections::BTreeMap;
use std::time::Duration;

use access::Month;
use clock::{Deadline, Remembered};
use jiff::Timestamp;
use jiff::civil::Date;
use usage::rates::{Amount, Quantities, RateCard};
use usage::{Counts, Hour, Line, UsageTable};

use crate::budgets::BudgetError;

/// Time for which the sum of the days before today is used. What came late to one of them is in
/// the next sum.
const EARLIER_HOLD: Duration = Duration::from_hours(1);

/// Usage of each tenant, by operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spending(BTreeMap<String, BTreeMap<String, Counts>>);

/// Sum of the days of the month before today, by the hour in which it was made. It is made once an
/// hour, and by each new environment. The lines of today are read for each look at the budgets.
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
    /// Reads the usage of a month until now. Lines of one day at a time, because those of a month
    /// may be more than an answer has.
    pub(crate) async fn of_month(
        usage: &UsageTable,
        earlier: &EarlierDays,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Self, BudgetError> {
        let (hour, month) = (Hour::of(now), Month::of(now));
        let mut sum = match earlier.0.get(&hour) {
            Some(known) => known,
            None => {
                let mut made = Self::default();
                for day in days_before(month.first(), hour.day()) {
                    made.read(usage, day, deadline).await?;
                }
                earlier.put(hour, made.clone());
                made
            }
        };
        sum.read(usage, hour.day(), deadline).await?;
        Ok(sum)
    }

    /// Adds a day.
    async fn read(&mut self, usage: &UsageTable, day: Date, deadline: Deadline) -> Result<(), BudgetError> {
        if deadline.has_passed() {
            return Err(BudgetError::OutOfTime);
        }
        self.add(usage.days(day, day, None).await.map_err(BudgetError::Lines)?);
        Ok(())
    }

    fn add(&mut self, lines: Vec<Line>) {
        for Line { tenant, operation, counts, .. } in lines {
            self.0.entry(tenant).or_default().entry(operation).or_default().add(&counts);
        }
    }

    /// Returns what each tenant spent; `None` without a rate card.
    pub(crate) fn amounts(self, card: Option<&RateCard>) -> Vec<(String, Option<Amount>)> {
        let amount = |operations: &BTreeMap<String, Counts>| card.map(|card| amount(card, operations));
        self.0.into_iter().map(|(tenant, operations)| (tenant, amount(&operations))).collect()
    }
}

/// Returns the days from `first` up to `end`, without `end`.
fn days_before(first: Date, end: Date) -> impl Iterator<Item = Date> {
    std::iter::successors(Some(first), |day| day.tomorrow().ok()).take_while(move |day| *day < end)
}

fn amount(card: &RateCard, operations: &BTreeMap<String, Counts>) -> Amount {
    card.amount(operations.iter().map(|(operation, counts)| Quantities {
        operation: operation.as_str(),
        requests: counts.requests,
        messages: counts.messages,
        bytes: counts.bytes,
        ..Quantities::default()
    }))
}

#[cfg(test)]
mod tests {
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
