//! Sum of the month's days before today. If one look at the budgets has no time for all of it, the
//! next one continues.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use jiff::civil::Date;
use usage::Hour;

use crate::budgets::BudgetError;
use crate::spending::Spending;

/// Cached sum of the month's usage: requests of the days before today, and batches of all days. The
/// sum is made again once an hour and in each new environment. Today's requests are read at each
/// check of the budgets instead. The database of the batches is queried no more often than this, so
/// that it can pause in between.
#[derive(Debug, Default)]
pub struct EarlierDays(Mutex<Option<Sum>>);

/// Usage of the month, as far as it has been read: requests of the days before `today` and, if
/// `with_batches`, batches of all days until `today`.
#[derive(Debug)]
pub(crate) struct Sum {
    began: Hour,
    /// Last day of the sum's period. Requests of this day are not part of the sum.
    today: Date,
    with_batches: bool,
    /// Days of requests and batches that have not been read yet.
    pub(crate) missing: VecDeque<Part>,
    pub(crate) spending: Spending,
}

/// Part of a sum: the requests or the batches of one day, read in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Requests of one day.
    Requests(Date),
    /// Batches of one day.
    Batches(Date),
}

/// Returns the parts of a sum made on `today`: requests of the month's days before today and, if
/// `with_batches`, batches of all days until today.
fn parts(today: Date, with_batches: bool) -> VecDeque<Part> {
    let days = || {
        std::iter::successors(Some(today.first_of_month()), |day| day.tomorrow().ok())
            .take_while(move |day| *day <= today)
    };
    let requests = days().filter(|day| *day < today).map(Part::Requests);
    requests.chain(days().filter(|_| with_batches).map(Part::Batches)).collect()
}

impl EarlierDays {
    /// Removes the sum from the cache and returns it, if it has the same last day `today` and the
    /// same parts, and was begun in `hour` or is incomplete. Otherwise returns a new sum, of which
    /// every part is missing.
    pub(crate) fn take(&self, hour: Hour, today: Date, with_batches: bool) -> Sum {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let is_good = |sum: &Sum| {
            let is_asked = (sum.today, sum.with_batches) == (today, with_batches);
            is_asked && (sum.began == hour || !sum.missing.is_empty())
        };
        known.filter(is_good).unwrap_or_else(|| Sum {
            began: hour,
            today,
            with_batches,
            missing: parts(today, with_batches),
            spending: Spending::default(),
        })
    }

    /// Keeps a sum in the cache for the next check of the budgets.
    pub(crate) fn put(&self, sum: Sum) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sum);
    }
}

impl Sum {
    /// Reads the missing parts and adds them to the sum. If one fails, those before it stay added.
    pub(crate) async fn complete(
        &mut self,
        read: impl AsyncFn(Part) -> Result<Spending, BudgetError>,
    ) -> Result<(), BudgetError> {
        while let Some(part) = self.missing.front() {
            let spending = read(*part).await?;
            self.spending.merge(spending);
            self.missing.pop_front();
        }
        Ok(())
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
        assert!(parts(first, false).is_empty());
        assert_eq!(parts(first, true), [Part::Batches(first)]);
        let of_second = [Part::Requests(first), Part::Batches(first), Part::Batches(second)];
        assert_eq!(parts(second, true), of_second);
        assert_eq!(parts(date(2026, 11, 30), false).len(), 29);
    }

    #[tokio::test]
    async fn a_look_continues_where_the_one_before_had_no_time_left() {
        let (earlier, read) = (EarlierDays::default(), RefCell::new(Vec::new()));
        let look = async |hour: Hour, most: usize| {
            let mut sum = earlier.take(hour, hour.day(), false);
            let last = read.borrow().len() + most;
            let reading = async |part: Part| {
                if read.borrow().len() == last {
                    return Err(BudgetError::OutOfTime);
                }
                read.borrow_mut().push(part);
                Ok(Spending::default())
            };
            let outcome = sum.complete(reading).await;
            earlier.put(sum);
            (outcome.is_ok(), read.borrow().len())
        };
        assert_eq!(look(hour("04T02"), 2).await, (false, 2));
        assert_eq!(look(hour("04T03"), 2).await, (true, 3), "in the next hour, too");
        assert_eq!(parts(date(2026, 11, 4), false), *read.borrow());
        assert_eq!(look(hour("04T04"), 3).await, (true, 6), "what came late is read once an hour");
        assert_eq!(look(hour("04T04"), 3).await, (true, 6));
    }

    #[test]
    fn a_sum_is_for_its_day_and_for_what_has_a_price() {
        let earlier = EarlierDays::default();
        let begun_of = |hour: Hour, today: Date, with_batches: bool| {
            let mut sum = earlier.take(hour, today, with_batches);
            let is_new = sum.missing == parts(today, with_batches);
            sum.missing.pop_front();
            earlier.put(sum);
            is_new
        };
        let begun = |hour: Hour, with_batches: bool| begun_of(hour, hour.day(), with_batches);
        assert!(begun(hour("04T22"), false));
        assert!(!begun(hour("04T23"), false));
        assert!(begun(hour("04T23"), true), "batches have a price now");
        assert!(begun(hour("05T00"), true), "the day has changed");
        assert!(begun_of(hour("05T00"), date(2026, 11, 4), true), "a look at a day that is over");
    }
}
