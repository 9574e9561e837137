//! Sum of the month's days before today. If one look at the budgets has no time for all of it, the
//! next one continues.

use std::sync::{Mutex, PoisonError};

use jiff::civil::Date;
use usage::Hour;

use crate::budgets::BudgetError;
use crate::spending::Spending;

/// Sum of the month's days before today, and of the month's batches. It is made once an hour, and
/// by each new environment. The lines of today are read for each look at the budgets. The database
/// is not asked more often, because that keeps it from a pause.
#[derive(Debug, Default)]
pub struct EarlierDays(Mutex<Option<Sum>>);

/// A sum as far as it is made.
#[derive(Debug)]
pub(crate) struct Sum {
    began: Hour,
    with_batches: bool,
    /// Number of parts that are added.
    added: usize,
    spending: Spending,
}

/// Part of a sum, which is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Requests of a day.
    Requests(Date),
    /// Batches of a day.
    Batches(Date),
}

/// Returns the parts of a sum that is made on the day `today`.
pub(crate) fn parts(first: Date, today: Date, with_batches: bool) -> Vec<Part> {
    let requests = days_before(first, today).map(Part::Requests);
    let batches = days_before(first, today).chain([today]).map(Part::Batches);
    requests.chain(batches.filter(|_| with_batches)).collect()
}

/// Returns the days from `first` up to `end`, without `end`.
fn days_before(first: Date, end: Date) -> impl Iterator<Item = Date> {
    std::iter::successors(Some(first), |day| day.tomorrow().ok()).take_while(move |day| *day < end)
}

impl EarlierDays {
    /// Takes the sum of the hour, or an unfinished one of the day, or else a new one.
    pub(crate) fn take(&self, hour: Hour, with_batches: bool, parts: usize) -> Sum {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let is_good = |sum: &Sum| {
            let is_unfinished = sum.began.day() == hour.day() && sum.added < parts;
            sum.with_batches == with_batches && (sum.began == hour || is_unfinished)
        };
        let new = || Sum { began: hour, with_batches, added: 0, spending: Spending::default() };
        known.filter(is_good).unwrap_or_else(new)
    }

    /// Keeps a sum for the next look.
    pub(crate) fn put(&self, sum: Sum) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sum);
    }
}

impl Sum {
    /// Reads and adds the parts that are missing. Those before a failure stay added. Returns the
    /// number of those that were added.
    pub(crate) async fn complete(
        &mut self,
        parts: &[Part],
        read: impl AsyncFn(Part) -> Result<Spending, BudgetError>,
    ) -> (usize, Result<(), BudgetError>) {
        let before = self.added;
        let mut read_all = Ok(());
        for part in parts.iter().skip(before) {
            match read(*part).await {
                Ok(spending) => self.spending.merge(spending),
                Err(error) => {
                    read_all = Err(error);
                    break;
                }
            }
            self.added = self.added.saturating_add(1);
        }
        (self.added.saturating_sub(before), read_all)
    }

    pub(crate) const fn spending(&self) -> &Spending {
        &self.spending
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use jiff::civil::date;

    use super::*;

    fn hour(text: &str) -> Hour {
        format!("2026-11-{text}").parse().unwrap()
    }

    #[test]
    fn the_parts_are_the_requests_before_today_and_the_batches_until_today() {
        let (first, second) = (date(2026, 11, 1), date(2026, 11, 2));
        assert_eq!(parts(first, first, false), []);
        assert_eq!(parts(first, first, true), [Part::Batches(first)]);
        let of_second = [Part::Requests(first), Part::Batches(first), Part::Batches(second)];
        assert_eq!(parts(first, second, true), of_second);
        assert_eq!(parts(first, date(2026, 11, 30), false).len(), 29);
    }

    #[tokio::test]
    async fn a_look_continues_where_the_one_before_had_no_time_left() {
        let (earlier, all) = (EarlierDays::default(), parts(date(2026, 11, 1), date(2026, 11, 4), false));
        let read = RefCell::new(Vec::new());
        let look = async |hour: Hour, most: usize| {
            let mut sum = earlier.take(hour, false, all.len());
            let last = read.borrow().len() + most;
            let reading = async |part: Part| {
                if read.borrow().len() == last {
                    return Err(BudgetError::OutOfTime);
                }
                read.borrow_mut().push(part);
                Ok(Spending::default())
            };
            let (added, outcome) = sum.complete(&all, reading).await;
            earlier.put(sum);
            (added, outcome.is_ok())
        };
        assert_eq!(look(hour("04T02"), 2).await, (2, false));
        assert_eq!(look(hour("04T03"), 2).await, (1, true), "in the next hour, too");
        assert_eq!(*read.borrow(), all);
        assert_eq!(look(hour("04T04"), 3).await, (3, true), "what came late is read once an hour");
        assert_eq!(look(hour("04T04"), 3).await, (0, true));
    }

    #[test]
    fn a_sum_is_for_its_day_and_for_what_has_a_price() {
        let earlier = EarlierDays::default();
        let keep = || {
            let sum = Sum { added: 2, ..earlier.take(hour("04T23"), false, 3) };
            earlier.put(sum);
        };
        keep();
        assert_eq!(earlier.take(hour("04T23"), true, 3).added, 0);
        keep();
        assert_eq!(earlier.take(hour("05T00"), false, 4).added, 0);
    }
}
