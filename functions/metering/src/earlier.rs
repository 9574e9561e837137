//! Sum of the month's usage for the budgets, without the requests of today. If one check of the
//! budgets has no time to read all of it, the next check continues.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use jiff::civil::Date;
use usage::Hour;

use crate::budgets::BudgetError;
use crate::spending::Spending;

/// Cached sum of the month's usage for the budgets: requests of the days before today, and batches
/// of all days. The sum is made again once an hour and in each new environment. The database of the
/// batches is queried only for that, and can pause in between. Requests of today are not in the
/// sum, because each check of the budgets reads them.
#[derive(Debug, Default)]
pub struct EarlierDays(Mutex<Option<MonthSoFar>>);

/// Usage of the month, as far as it has been read: requests of the days before `today` and, if
/// `with_batches`, batches of all days until `today`. `began` is the hour in which the sum was
/// begun.
#[derive(Debug)]
pub(crate) struct MonthSoFar {
    began: Hour,
    /// Last day of the sum's period. The sum has no requests of this day.
    today: Date,
    with_batches: bool,
    /// Days of which the requests or the batches have not been added to the sum yet, in the order
    /// of reading.
    pub(crate) missing: VecDeque<DayToRead>,
    pub(crate) spending: Spending,
}

/// Usage that is read in one step and added to a sum: the requests or the batches of one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DayToRead {
    /// Requests of all tenants on this day.
    Requests(Date),
    /// Batches of all tenants on this day.
    Batches(Date),
}

/// Returns the steps in which the sum of the month's usage is read on `today`: requests of the
/// month's days before today and, if `with_batches`, batches of the month's days until today.
fn parts(today: Date, with_batches: bool) -> VecDeque<DayToRead> {
    let days = || {
        std::iter::successors(Some(today.first_of_month()), |day| day.tomorrow().ok())
            .take_while(move |day| *day <= today)
    };
    let requests = days().filter(|day| *day < today).map(DayToRead::Requests);
    requests.chain(days().filter(|_| with_batches).map(DayToRead::Batches)).collect()
}

impl EarlierDays {
    /// Removes the sum of the month's usage from the cache, and returns it if it fits: its last day
    /// is `today`, it has batches exactly if `with_batches`, and it was begun in `hour` or is
    /// incomplete. Otherwise returns a new sum, for which nothing has been read.
    pub(crate) fn take(&self, hour: Hour, today: Date, with_batches: bool) -> MonthSoFar {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let is_good = |sum: &MonthSoFar| {
            let is_asked = (sum.today, sum.with_batches) == (today, with_batches);
            is_asked && (sum.began == hour || !sum.missing.is_empty())
        };
        known.filter(is_good).unwrap_or_else(|| MonthSoFar {
            began: hour,
            today,
            with_batches,
            missing: parts(today, with_batches),
            spending: Spending::default(),
        })
    }

    /// Keeps a sum in the cache for the next check of the budgets.
    pub(crate) fn put(&self, sum: MonthSoFar) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sum);
    }
}

impl MonthSoFar {
    /// Reads the missing requests and batches, and adds them to the sum. If a read fails, the sum
    /// keeps those that were added before.
    pub(crate) async fn complete(
        &mut self,
        read: impl AsyncFn(DayToRead) -> Result<Spending, BudgetError>,
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
        assert_eq!(parts(first, true), [DayToRead::Batches(first)]);
        let of_second = [DayToRead::Requests(first), DayToRead::Batches(first), DayToRead::Batches(second)];
        assert_eq!(parts(second, true), of_second);
        assert_eq!(parts(date(2026, 11, 30), false).len(), 29);
    }

    #[tokio::test]
    async fn a_look_continues_where_the_one_before_had_no_time_left() {
        let (earlier, read) = (EarlierDays::default(), RefCell::new(Vec::new()));
        let look = async |hour: Hour, most: usize| {
            let mut sum = earlier.take(hour, hour.day(), false);
            let last = read.borrow().len() + most;
            let reading = async |part: DayToRead| {
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
