//! Monthly budget of a tenant, and the amount that the tenant has spent in a month.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ItemError, read};
use crate::rates::Amount;

/// Percentage at which a budget is used up.
const WHOLE: u32 = 100;
/// Maximum percentage of the amount at which a budget can warn.
const HIGHEST: u32 = 1_000;
/// Maximum number of percentages at which a budget can warn.
const MOST_WARNINGS: usize = 10;

/// Monthly budget of a tenant, in the currency of the rate card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BudgetItem {
    /// Amount that the tenant may spend in a month.
    pub amount: Amount,
    /// True if requests are refused once the budget is spent.
    #[serde(default)]
    pub refuse: bool,
    /// Percentages of the amount (from 1 to 1,000, at most 10 of them) at which an event is
    /// published, in addition to 100.
    #[serde(default = "warnings")]
    pub warn_at: BTreeSet<u32>,
}

/// Amount that a tenant with a budget has spent in a month. Only the function `metering` writes the
/// item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpentItem {
    /// Month in which the amount was spent.
    pub month: Month,
    /// Amount that the tenant spent in the month.
    pub amount: Amount,
    /// True if the amount is at least the budget.
    pub exceeded: bool,
    /// True if the budget says that requests are refused once it is spent.
    pub refuse: bool,
    /// Highest percentage of the budget for which an event was published in the month; 0 if none
    /// was.
    #[serde(default, rename = "told")]
    pub published_percent: u32,
}

/// Calendar month in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Month {
    /// First day of the calendar month.
    first: Date,
}

/// Error for a text that is not a month such as `2026-11`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a month is written as 2026-11")]
pub struct MonthError;

/// Result of comparing the amount that a tenant has spent in a month with its budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Item to write to the access table. Its `published_percent` is unchanged, because it may be
    /// raised only after the event is published.
    pub item: SpentItem,
    /// Percentage that was reached, and whose event is not published yet; `None` if there is none.
    pub reached: Option<Reached>,
}

/// Percentage of a tenant's budget that was reached. An event about it has to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Highest percentage of the budget, 100 or one of its `warn_at`, that the amount has reached.
    pub percent: u32,
    /// Amount that the tenant spent in the month.
    pub amount: Amount,
    /// Amount of the monthly budget.
    pub budget: Amount,
    /// Month in which the amount was spent.
    pub month: Month,
    /// True if the tenant's requests are refused from now on, until the month ends.
    pub refuses: bool,
}

impl BudgetItem {
    /// Parses a budget's item, given without its partition key.
    ///
    /// # Errors
    /// If the item is malformed, is of a newer version, or has a budget that
    /// [`BudgetItem::check()`] refuses.
    pub fn read(item: Value) -> Result<Self, ItemError> {
        let budget: Self = read(item)?;
        budget.check()?;
        Ok(budget)
    }

    /// Checks that the amount is above zero, and that `warn_at` has at most 10 percentages, each
    /// from 1 to 1,000.
    ///
    /// # Errors
    /// [`ItemError::Budget`] or [`ItemError::Warnings`].
    pub fn check(&self) -> Result<(), ItemError> {
        if self.amount == Amount::ZERO {
            return Err(ItemError::Budget);
        }
        let are_allowed = self.warn_at.iter().all(|percent| (1..=HIGHEST).contains(percent));
        if are_allowed && self.warn_at.len() <= MOST_WARNINGS { Ok(()) } else { Err(ItemError::Warnings) }
    }

    /// Compares `amount`, which the tenant has spent in `month`, with the budget. `before` is the
    /// item stored by the last comparison; an item of another month is ignored. The event of a
    /// percentage is published once a month, even if a recount or a new rate card lowers the amount
    /// in between.
    #[must_use]
    pub fn settle(&self, month: Month, amount: Amount, before: Option<&SpentItem>) -> Settled {
        let exceeded = amount.is_percent_of(WHOLE, self.amount);
        let before = before.filter(|before| before.month == month);
        let published_percent = before.map_or(0, |before| before.published_percent);
        let percents = self.warn_at.iter().copied().chain([WHOLE]);
        let highest = percents.filter(|percent| amount.is_percent_of(*percent, self.amount)).max();
        let reached = highest.filter(|percent| *percent > published_percent).map(|percent| Reached {
            percent,
            amount,
            budget: self.amount,
            month,
            refuses: exceeded && self.refuse,
        });
        Settled {
            item: SpentItem { month, amount, exceeded, refuse: self.refuse, published_percent },
            reached,
        }
    }
}

impl SpentItem {
    /// Parses the item of a spent amount, given without its partition key.
    ///
    /// # Errors
    /// If the item is malformed or of a newer version.
    pub fn read(item: Value) -> Result<Self, ItemError> {
        read(item)
    }

    /// Returns the seconds from `now` until the month ends, if requests are refused until then;
    /// `None` if requests are not refused.
    #[must_use]
    pub fn refuses_for(&self, now: Timestamp) -> Option<u32> {
        if !(self.exceeded && self.refuse && self.month == Month::of(now)) {
            return None;
        }
        let left = self.month.end()?.as_second().saturating_sub(now.as_second());
        Some(u32::try_from(left).unwrap_or(1).max(1))
    }
}

impl Month {
    /// Returns the month in UTC in which a time lies.
    #[must_use]
    pub fn of(time: Timestamp) -> Self {
        Self { first: time.to_zoned(TimeZone::UTC).date().first_of_month() }
    }

    /// Returns the time at which the month ends; `None` if it is out of the range of timestamps.
    fn end(self) -> Option<Timestamp> {
        let last = self.first.last_of_month();
        let end = last.tomorrow().ok()?.to_zoned(TimeZone::UTC).ok()?;
        Some(end.timestamp())
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.first.year(), self.first.month())
    }
}

impl FromStr for Month {
    type Err = MonthError;

    fn from_str(text: &str) -> Result<Self, MonthError> {
        let month: Self =
            format!("{text}-01").parse().map(|first| Self { first }).map_err(|_: jiff::Error| MonthError)?;
        if month.to_string() == text { Ok(month) } else { Err(MonthError) }
    }
}

impl TryFrom<String> for Month {
    type Error = MonthError;

    fn try_from(text: String) -> Result<Self, MonthError> {
        text.parse()
    }
}

impl From<Month> for String {
    fn from(month: Month) -> Self {
        month.to_string()
    }
}

fn warnings() -> BTreeSet<u32> {
    BTreeSet::from([80, WHOLE])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn budget(refuse: bool) -> BudgetItem {
        BudgetItem::read(json!({"amount": "100.00", "refuse": refuse})).unwrap()
    }

    fn month(text: &str) -> Month {
        text.parse().unwrap()
    }

    fn settle(amount: &str, before: Option<&SpentItem>) -> Settled {
        budget(true).settle(month("2026-11"), amount.parse().unwrap(), before)
    }

    fn percent(settled: &Settled) -> Option<u32> {
        settled.reached.map(|reached| reached.percent)
    }

    #[test]
    fn a_budget_warns_at_eighty_percent_and_at_the_whole_unless_it_says_otherwise() {
        let known = budget(false);
        assert_eq!((known.refuse, Vec::from_iter(known.warn_at.clone())), (false, vec![80, 100]));
        assert_eq!(BudgetItem::read(serde_json::to_value(&known).unwrap()), Ok(known));
        for (item, error) in [
            (json!({"amount": "0"}), ItemError::Budget),
            (json!({"amount": "1", "warnAt": [0]}), ItemError::Warnings),
            (json!({"amount": "1", "warnAt": [1_001]}), ItemError::Warnings),
            (json!({"amount": "1", "warnAt": Vec::from_iter(1..=11)}), ItemError::Warnings),
        ] {
            assert_eq!(BudgetItem::read(item.clone()), Err(error), "{item}");
        }
        for item in [json!({}), json!({"amount": 1}), json!({"amount": "1", "refuses": true})] {
            assert!(matches!(BudgetItem::read(item.clone()), Err(ItemError::Form(_))), "{item}");
        }
    }

    #[test]
    fn each_percentage_is_told_once_a_month() {
        let first = settle("79.999999", None);
        assert_eq!((percent(&first), first.item.published_percent, first.item.exceeded), (None, 0, false));
        let second = settle("80", Some(&first.item));
        assert_eq!(
            (percent(&second), second.item.published_percent, second.item.exceeded),
            (Some(80), 0, false)
        );
        assert_eq!(percent(&settle("85", Some(&second.item))), Some(80), "until it is told");
        let told = SpentItem { published_percent: 80, ..second.item };
        assert_eq!(percent(&settle("85", Some(&told))), None);
        let lower = settle("70", Some(&told));
        assert_eq!(percent(&settle("81", Some(&lower.item))), None, "told already");
        let whole = settle("100", Some(&told));
        assert_eq!((percent(&whole), whole.item.exceeded), (Some(100), true));
        assert!(whole.reached.unwrap().refuses);
        let next = budget(true).settle(month("2026-12"), "80".parse().unwrap(), Some(&whole.item));
        assert_eq!((percent(&next), next.item.exceeded), (Some(80), false), "a new month");
    }

    #[test]
    fn of_several_percentages_at_once_the_highest_is_told() {
        assert_eq!(percent(&settle("250", None)), Some(100));
        let item = json!({"amount": "100", "warnAt": [50, 200]});
        let reached = BudgetItem::read(item).unwrap();
        let of = |amount: &str| percent(&reached.settle(month("2026-11"), amount.parse().unwrap(), None));
        assert_eq!(["49", "50", "150", "200"].map(of), [None, Some(50), Some(100), Some(200)]);
    }

    #[test]
    fn a_higher_budget_lets_requests_in_again() {
        let spent = settle("100", None).item;
        let raised = BudgetItem { amount: "200".parse().unwrap(), ..budget(true) };
        assert!(!raised.settle(month("2026-11"), spent.amount, Some(&spent)).item.exceeded);
    }

    #[test]
    fn requests_are_refused_until_the_month_ends() {
        let spent = settle("100", None).item;
        let at = |time: &str| spent.refuses_for(time.parse().unwrap());
        assert_eq!(at("2026-11-30T23:59:00Z"), Some(60));
        assert_eq!(at("2026-11-01T00:00:00Z"), Some(30 * 86_400));
        assert_eq!(at("2026-12-01T00:00:00Z"), None);
        assert_eq!(at("2026-10-31T23:59:59Z"), None);
        let now = "2026-11-30T23:59:00Z".parse().unwrap();
        assert_eq!(SpentItem { refuse: false, ..spent.clone() }.refuses_for(now), None);
        assert_eq!(SpentItem { exceeded: false, ..spent }.refuses_for(now), None);
    }

    #[test]
    fn a_month_is_read_as_it_is_written() {
        assert_eq!(month("2026-11").to_string(), "2026-11");
        assert_eq!(Month::of("2026-11-30T23:59:59.9Z".parse().unwrap()), month("2026-11"));
        for text in ["2026-13", "2026-1", "2026", "2026-11-01", "November"] {
            assert_eq!(text.parse::<Month>(), Err(MonthError), "{text}");
        }
        let item = json!({"month": "2026-11", "amount": "1", "exceeded": false, "refuse": true});
        let spent = SpentItem::read(item).unwrap();
        assert_eq!(SpentItem::read(serde_json::to_value(&spent).unwrap()), Ok(spent));
    }
}
