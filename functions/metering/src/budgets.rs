//! Spending of the month, for tenants that have a budget.

use std::collections::BTreeMap;

use access::{AccessStore, Month, ReadError, Settled};
use events::{EventError, Fact, PublishError, Publisher};
use jiff::Timestamp;
use usage::rates::Quantities;
use usage::{Line, UsageError, UsageTable};

use crate::event;

/// Reason why not all budgets were settled.
#[derive(Debug, thiserror::Error)]
pub enum BudgetError {
    #[error("the lines of the month cannot be read")]
    Lines(#[source] UsageError),
    #[error("an item of the access table cannot be read or written")]
    Access(#[source] ReadError),
    #[error("the event of a budget cannot be made")]
    Event(#[source] EventError),
    #[error("the event of a budget was not published")]
    Unpublished(#[source] Option<PublishError>),
}

/// Computes what each tenant with usage has spent in this month, and notes it if the tenant has a
/// budget. Without a rate card, nothing has a price. Returns the number of percentages of budgets
/// that were reached.
///
/// The event of a percentage is published before the note that it was, so it is published at least
/// once.
pub(crate) async fn settle(
    usage: &UsageTable,
    access: &AccessStore,
    publisher: &Publisher,
    now: Timestamp,
) -> Result<u64, BudgetError> {
    let Some(card) = access.rates().await.map_err(BudgetError::Access)? else { return Ok(0) };
    let month = Month::of(now);
    let today = usage::Hour::of(now).day();
    let lines = usage.days(month.first(), today, None).await.map_err(BudgetError::Lines)?;
    let mut tenants: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in &lines {
        tenants.entry(&line.tenant).or_default().push(line);
    }
    let mut told = 0_u64;
    for (tenant, lines) in tenants {
        let budget = access.budget(tenant).await.map_err(BudgetError::Access)?;
        let before = access.spent(tenant).await.map_err(BudgetError::Access)?;
        let Some(budget) = budget else {
            if before.is_some() {
                access.put_spent(tenant, None).await.map_err(BudgetError::Access)?;
            }
            continue;
        };
        let amount = card.amount(lines.into_iter().map(Quantities::from));
        let Settled { item, reached } = budget.settle(month, amount, before.as_ref());
        if let Some(reached) = reached {
            let (percent, amount) = (reached.percent, reached.amount.to_string());
            tracing::warn!(
                event_type = "usage.budget_reached",
                tenant,
                percent,
                amount,
                "tenant {tenant} has spent {percent} percent of its budget of the month"
            );
            let fact =
                event::of_budget(tenant, card.currency(), &reached, now).map_err(BudgetError::Event)?;
            publish(publisher, &[fact]).await?;
            told = told.saturating_add(1);
        }
        if before.as_ref() != Some(&item) {
            access.put_spent(tenant, Some(&item)).await.map_err(BudgetError::Access)?;
        }
    }
    Ok(told)
}

async fn publish(publisher: &Publisher, facts: &[Fact]) -> Result<(), BudgetError> {
    if !publisher.has_destinations() {
        return Ok(());
    }
    publisher.publish(facts).await.map_err(|failed| BudgetError::Unpublished(failed.why))
}
