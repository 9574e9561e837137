//! Checks budgets: computes what each tenant has spent in the month, records it for tenants with a
//! budget, and publishes an event for each budget percentage that was reached.

use std::error::Error;
use std::time::Duration;

use access::rates::{Amount, RateCard};
use access::{AccessStore, AccessTableError, Account, Month, Reached, Settled, SpentItem};
use attempt::Deadline;
use events::{EventError, PublishError, Publisher};
use futures_util::future::join_all;
use jiff::Timestamp;
use usage::UsageError;

use crate::event;
use crate::spending::{Sources, Spending};

/// Reason why a check of the budgets did not settle all of them.
#[derive(Debug, thiserror::Error)]
pub enum BudgetError {
    #[error("the lines of the month cannot be read")]
    Lines(#[source] UsageError),
    #[error("the usage of the ingest cannot be read")]
    Ingest(#[source] Box<dyn Error + Send + Sync>),
    #[error("an item of the access table cannot be read or written")]
    Access(#[source] AccessTableError),
    #[error("the event of a budget cannot be made")]
    Event(#[source] EventError),
    #[error("the event of a budget was not published")]
    Unpublished(#[source] Option<PublishError>),
    #[error("the budgets were not settled in time")]
    OutOfTime,
}

/// Multiplier for the minute in which a check of the budgets runs. The product selects the tenant
/// that the check begins with. The multiplier is the golden ratio as a 64-bit fraction, and spreads
/// these tenants evenly over consecutive checks.
const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

/// Time at the beginning of a month in which checks of the budgets still sum up the month before.
/// The last check of the old month did not see all of its usage, and summing up a whole month may
/// take two checks.
const OF_MONTH_BEFORE: Duration = Duration::from_mins(10);

/// Budget percentage that a tenant has reached, and of which no event has been published yet: the
/// tenant's id, the percentage, and the item of the access table to write after the publication.
type Unpublished<'a> = (&'a str, Reached, SpentItem);

/// Checks all budgets once. Sums up what each tenant has spent this month (in a month's first ten
/// minutes: the month before), and records it for tenants with a budget. Then publishes an event
/// for each budget percentage that was reached.
///
/// All amounts are recorded before events are published, so that a slow destination delays no
/// refusal. The table records a percentage after its event was published: events arrive at least
/// once. A tenant whose items cannot be read does not stop the others; the first error is returned.
/// `published` is increased by the number of published events even if the function fails. Without a
/// rate card, amounts are unknown, and recorded amounts are removed. This is done only in the first
/// minute of each hour, to save reads.
pub(crate) async fn settle(
    sources: &Sources<'_>,
    access: &AccessStore,
    publisher: &Publisher,
    now: Timestamp,
    deadline: Deadline,
    published: &mut u64,
) -> Result<(), BudgetError> {
    let card = access.rates().await.map_err(BudgetError::Access)?;
    if card.is_none() && now.as_second().div_euclid(60).rem_euclid(60) != 0 {
        return Ok(());
    }
    let until = counted_until(now);
    let reading = Spending::of_month(sources, card.as_ref(), (now, until), deadline);
    let Some(spending) = Box::pin(reading).await? else {
        tracing::info!(
            event_type = "usage.budgets_continue",
            "the usage of the month was not read in time; the next look at the budgets continues"
        );
        return Ok(());
    };
    let mut amounts = spending.amounts(card.as_ref());
    let beginning = first(now, amounts.len());
    amounts.rotate_left(beginning);
    let currency = card.as_ref().map_or("", RateCard::currency);
    let (unpublished, mut settled) = record_amounts(access, &amounts, Month::of(until), deadline).await;
    for unpublished in unpublished {
        if deadline.has_passed() {
            return settled.and(Err(BudgetError::OutOfTime));
        }
        settled =
            settled.and(publish_reached(access, publisher, currency, unpublished, now, published).await);
    }
    settled
}

/// Returns a time in the last day of the period that a check of the budgets at `now` sums up.
fn counted_until(now: Timestamp) -> Timestamp {
    let before = now.checked_sub(OF_MONTH_BEFORE).unwrap_or(now);
    if Month::of(before) == Month::of(now) { now } else { before }
}

/// Returns the index of the tenant that a check of the budgets at `now` begins with. The index
/// varies, so that checks with too little time do not always leave out the same tenants.
fn first(now: Timestamp, tenants: usize) -> usize {
    let look = now.as_second().div_euclid(60).unsigned_abs();
    let place = look.wrapping_mul(STRIDE).checked_rem(u64::try_from(tenants).unwrap_or(u64::MAX));
    place.and_then(|place| usize::try_from(place).ok()).unwrap_or_default()
}

/// Records the amounts that tenants have spent in the month. Returns the budget percentages to
/// publish, and the first error. An error at one tenant does not stop the others.
async fn record_amounts<'a>(
    access: &AccessStore,
    amounts: &'a [(String, Option<Amount>)],
    month: Month,
    deadline: Deadline,
) -> (Vec<Unpublished<'a>>, Result<(), BudgetError>) {
    let (mut unpublished, mut recorded) = (Vec::new(), Ok(()));
    for some in amounts.chunks(AccessStore::MOST_ACCOUNTS) {
        if deadline.has_passed() {
            return (unpublished, recorded.and(Err(BudgetError::OutOfTime)));
        }
        let tenants: Vec<&str> = some.iter().map(|(tenant, _)| tenant.as_str()).collect();
        let accounts = match access.accounts(&tenants).await {
            Ok(accounts) => accounts,
            Err(error) => {
                recorded = recorded.and(Err(BudgetError::Access(error)));
                continue;
            }
        };
        let mut notes = Vec::with_capacity(some.len());
        for ((tenant, amount), account) in some.iter().zip(accounts) {
            // Boxed: the futures of the clients are large.
            notes.push(Box::pin(note_one(access, tenant, *amount, month, account)));
        }
        for one in join_all(notes).await {
            match one {
                Ok(reached) => unpublished.extend(reached),
                Err(error) => recorded = recorded.and(Err(BudgetError::Access(error))),
            }
        }
    }
    (unpublished, recorded)
}

/// Records the amount that one tenant has spent in the month, or removes the record if the tenant
/// has no budget or the amount is unknown. Returns the budget percentage to publish, if there is
/// one.
async fn note_one<'a>(
    access: &AccessStore,
    tenant: &'a str,
    amount: Option<Amount>,
    month: Month,
    account: Result<Account, AccessTableError>,
) -> Result<Option<Unpublished<'a>>, AccessTableError> {
    let Account { budget, spent } = account?;
    let settled = budget.zip(amount).map(|(budget, amount)| budget.settle(month, amount, spent.as_ref()));
    let item = settled.as_ref().map(|settled| &settled.item);
    if item != spent.as_ref() {
        access.put_spent(tenant, item).await?;
    }
    Ok(settled.and_then(|Settled { item, reached }| Some((tenant, reached?, item))))
}

/// Publishes the event of a budget percentage and adds 1 to `published`. Then records that the
/// percentage was published.
async fn publish_reached(
    access: &AccessStore,
    publisher: &Publisher,
    currency: &str,
    (tenant, reached, item): Unpublished<'_>,
    now: Timestamp,
    published: &mut u64,
) -> Result<(), BudgetError> {
    // A month that is over refuses nothing any more.
    let refuses = reached.refuses && reached.month == Month::of(now);
    let reached = Reached { refuses, ..reached };
    let event = event::of_budget(tenant, currency, &reached, now).map_err(BudgetError::Event)?;
    publisher.publish(&[event]).await.map_err(|failed| BudgetError::Unpublished(failed.why))?;
    let (percent, amount) = (reached.percent, reached.amount.to_string());
    tracing::warn!(
        event_type = "usage.budget_reached",
        tenant,
        percent,
        amount,
        "tenant {tenant} has spent {percent} percent of its budget of the month"
    );
    *published = published.saturating_add(1);
    let item = SpentItem { published_percent: percent, ..item };
    access.put_spent(tenant, Some(&item)).await.map_err(BudgetError::Access)
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::Client;
    use runtime::Sdk;
    use serde_json::json;
    use test_support::dynamodb::FakeTable;
    use test_support::event_bus::FakeEventBus;

    use super::*;

    async fn sdk(endpoint: &str) -> Sdk {
        Sdk::at(endpoint, "us-east-1", "none", "none").await
    }

    /// Starts a fake access table in which each of these tenants has a monthly budget of 100, and
    /// creates its client.
    async fn budgets(tenants: &[&str]) -> (FakeTable, AccessStore) {
        let table = FakeTable::start(100).await;
        for tenant in tenants {
            let pk = format!("BUDGET#{tenant}");
            table.put(json!({"pk": {"S": pk}, "amount": {"S": "100"}, "refuse": {"BOOL": true}}));
        }
        let client = Client::new(sdk(&table.endpoint()).await.standard());
        (table, AccessStore::new(client, "access".to_owned()))
    }

    fn now() -> Timestamp {
        "2026-11-27T02:30:00Z".parse().unwrap()
    }

    /// Creates a publisher whose only destination is the event bus.
    async fn publisher(bus: &FakeEventBus) -> Publisher {
        let settings = events::Settings { bus: Some("bus".to_owned()), ..events::Settings::default() };
        Publisher::of(&sdk(&bus.endpoint()).await, settings)
    }

    async fn record_amounts<'a>(
        access: &AccessStore,
        amounts: &'a [(String, Option<Amount>)],
    ) -> (Vec<Unpublished<'a>>, Result<(), BudgetError>) {
        super::record_amounts(access, amounts, Month::of(now()), Deadline::after(Duration::from_hours(1)))
            .await
    }

    #[test]
    fn the_first_looks_of_a_month_are_at_the_end_of_the_month_before() {
        for (now, day) in [
            ("2026-11-30T23:55:00Z", "2026-11-30"),
            ("2026-12-01T00:00:20Z", "2026-11-30"),
            ("2026-12-01T00:05:20Z", "2026-11-30"),
            ("2026-12-01T00:10:00Z", "2026-12-01"),
            ("2027-01-01T00:00:00Z", "2026-12-31"),
        ] {
            let until = counted_until(now.parse().unwrap());
            assert_eq!(until.strftime("%Y-%m-%d").to_string(), day, "{now}");
        }
    }

    #[test]
    fn looks_begin_at_tenants_all_over() {
        assert_eq!(first(now(), 0), 0);
        let begins = (0..200).map(|look| first(now() + Duration::from_secs(300 * look), 10));
        assert_eq!(begins.collect::<std::collections::BTreeSet<_>>().len(), 10);
    }

    #[tokio::test]
    async fn an_event_that_waits_delays_no_refusal_and_is_published_by_a_later_look() {
        let ((table, access), bus) = (budgets(&["acme"]).await, FakeEventBus::start().await);
        let publisher = publisher(&bus).await;
        let amounts = [("acme".to_owned(), Some("100".parse().unwrap()))];
        let look = async || {
            let (unpublished, recorded) = record_amounts(&access, &amounts).await;
            recorded.unwrap();
            let (mut published, mut all) = (0, Ok(()));
            for unpublished in unpublished {
                all = all.and(
                    publish_reached(&access, &publisher, "USD", unpublished, now(), &mut published).await,
                );
            }
            (published, all.is_ok())
        };
        bus.go_away(true);
        assert_eq!(look().await, (0, false));
        let spent = table.item("SPENT#acme").unwrap();
        assert_eq!((&spent["exceeded"], &spent["told"]), (&json!({"BOOL": true}), &json!({"N": "0"})));
        assert_eq!(table.calls(), ["BatchGetItem", "PutItem"]);
        bus.go_away(false);
        assert_eq!(look().await, (1, true));
        assert_eq!(table.calls(), ["BatchGetItem", "PutItem"], "only that it is told");
        assert_eq!(look().await, (0, true));
        assert_eq!((table.calls(), bus.on_the_bus().len()), (vec!["BatchGetItem".to_owned()], 1));
    }

    #[tokio::test]
    async fn an_event_of_a_month_that_is_over_says_that_nothing_is_refused() {
        let ((_table, access), bus) = (budgets(&["acme"]).await, FakeEventBus::start().await);
        let publisher = publisher(&bus).await;
        let amounts = [("acme".to_owned(), Some("100".parse().unwrap()))];
        let (unpublished, recorded) = record_amounts(&access, &amounts).await;
        recorded.unwrap();
        let later = "2026-12-01T00:00:20Z".parse().unwrap();
        for (now, refuses) in [(now(), true), (later, false)] {
            let mut published = 0;
            publish_reached(&access, &publisher, "USD", unpublished[0].clone(), now, &mut published)
                .await
                .unwrap();
            let event = bus.on_the_bus().pop().unwrap();
            assert_eq!(
                (&event["data"]["month"], &event["data"]["refuses"]),
                (&json!("2026-11"), &json!(refuses))
            );
        }
    }

    #[tokio::test]
    async fn many_budgets_take_few_reads_and_a_malformed_one_stops_no_other() {
        let names: Vec<String> = (0..60).map(|number| format!("tenant-{number:02}")).collect();
        let (table, access) = budgets(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        table.put(json!({"pk": {"S": "BUDGET#tenant-07"}, "amount": {"S": "a lot"}}));
        let one: Amount = "1".parse().unwrap();
        let amounts: Vec<_> = names.into_iter().map(|name| (name, Some(one))).collect();
        let (unpublished, recorded) = record_amounts(&access, &amounts).await;
        assert!(matches!(recorded, Err(BudgetError::Access(AccessTableError::Malformed))), "{recorded:?}");
        assert!(unpublished.is_empty(), "{unpublished:?}");
        let calls = table.calls();
        let count = |name: &str| calls.iter().filter(|call| *call == name).count();
        assert_eq!((count("BatchGetItem"), count("PutItem"), calls.len()), (2, 59, 61));
        assert!(table.item("SPENT#tenant-59").is_some());
    }

    #[tokio::test]
    async fn what_is_spent_goes_with_the_budget_or_the_rate_card() {
        let (table, access) = budgets(&["b"]).await;
        let amounts = ["a", "b", "c"].map(|name| (name.to_owned(), None));
        for name in ["a", "b"] {
            let pk = format!("SPENT#{name}");
            table.put(json!({"pk": {"S": pk}, "month": {"S": "2026-11"}, "amount": {"S": "1"},
                             "exceeded": {"BOOL": true}, "refuse": {"BOOL": true}}));
        }
        record_amounts(&access, &amounts).await.1.unwrap();
        assert_eq!((table.item("SPENT#a"), table.item("SPENT#b")), (None, None));
        assert_eq!(table.calls(), ["BatchGetItem", "DeleteItem", "DeleteItem"]);
    }
}
