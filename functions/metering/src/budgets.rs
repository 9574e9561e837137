//! Spending of the month, for tenants that have a budget.

use std::collections::BTreeMap;

use access::{AccessStore, Month, ReadError, Settled};
use clock::Deadline;
use events::{EventError, Fact, PublishError, Publisher};
use jiff::Timestamp;
use usage::rates::{Amount, Quantities, RateCard};
use usage::{Counts, Line, UsageError, UsageTable};

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
    #[error("the budgets were not settled in time")]
    OutOfTime,
}

/// Number of tenants up to which every look asks for notes of what is spent that need to go.
const FEW: usize = 500;

/// Operations of each tenant, with their counters.
type Tenants = BTreeMap<String, BTreeMap<String, Counts>>;

/// Computes what each tenant with usage has spent in this month, and notes it if the tenant has a
/// budget. Adds the number of percentages of budgets that were reached to `told`, also if it fails.
/// A tenant whose items cannot be read does not stop the others; the first error is returned.
///
/// Without a rate card, nothing has a price. Notes of what was spent before are removed then, as
/// are those of tenants without a budget: once an hour, because each takes a read.
///
/// The event of a percentage is published before the note that it was, so it is published at least
/// once.
pub(crate) async fn settle(
    usage: &UsageTable,
    access: &AccessStore,
    publisher: &Publisher,
    now: Timestamp,
    deadline: Deadline,
    told: &mut u64,
) -> Result<(), BudgetError> {
    let card = access.rates().await.map_err(BudgetError::Access)?;
    let is_hourly = now.as_second().div_euclid(60).rem_euclid(60) == 0;
    if card.is_none() && !is_hourly {
        return Ok(());
    }
    let month = Month::of(now);
    let tenants = tenants(usage, month, now, deadline).await?;
    let removes = is_hourly || tenants.len() <= FEW;
    let mut failed = None;
    for (tenant, operations) in &tenants {
        if deadline.has_passed() {
            return Err(failed.unwrap_or(BudgetError::OutOfTime));
        }
        let spent = card.as_ref().map(|card| (card, amount(card, operations)));
        match settle_one(access, publisher, (tenant.as_str(), spent), (month, now), removes).await {
            Ok(reached) => *told = told.saturating_add(u64::from(reached)),
            Err(error) => {
                failed.get_or_insert(error);
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Reads the lines of a month until now, and adds them up. Lines of one day at a time, because
/// those of a month may be more than an answer has.
async fn tenants(
    usage: &UsageTable,
    month: Month,
    now: Timestamp,
    deadline: Deadline,
) -> Result<Tenants, BudgetError> {
    let today = usage::Hour::of(now).day();
    let mut tenants = Tenants::new();
    let mut next = Some(month.first());
    while let Some(day) = next.filter(|day| *day <= today) {
        if deadline.has_passed() {
            return Err(BudgetError::OutOfTime);
        }
        add(&mut tenants, usage.days(day, day, None).await.map_err(BudgetError::Lines)?);
        next = day.tomorrow().ok();
    }
    Ok(tenants)
}

fn add(tenants: &mut Tenants, lines: Vec<Line>) {
    for Line { tenant, operation, counts, .. } in lines {
        tenants.entry(tenant).or_default().entry(operation).or_default().add(&counts);
    }
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

/// Settles the budget of one tenant; true if it reached a percentage.
async fn settle_one(
    access: &AccessStore,
    publisher: &Publisher,
    (tenant, spent): (&str, Option<(&RateCard, Amount)>),
    (month, now): (Month, Timestamp),
    removes: bool,
) -> Result<bool, BudgetError> {
    let budget = match spent {
        Some(spent) => access.budget(tenant).await.map_err(BudgetError::Access)?.zip(Some(spent)),
        None => None,
    };
    let Some((budget, (card, amount))) = budget else {
        if removes && access.spent(tenant).await.map_err(BudgetError::Access)?.is_some() {
            access.put_spent(tenant, None).await.map_err(BudgetError::Access)?;
        }
        return Ok(false);
    };
    let before = access.spent(tenant).await.map_err(BudgetError::Access)?;
    let Settled { item, reached } = budget.settle(month, amount, before.as_ref());
    if let Some(reached) = &reached {
        let (percent, amount) = (reached.percent, reached.amount.to_string());
        tracing::warn!(
            event_type = "usage.budget_reached",
            tenant,
            percent,
            amount,
            "tenant {tenant} has spent {percent} percent of its budget of the month"
        );
        let fact = event::of_budget(tenant, card.currency(), reached, now).map_err(BudgetError::Event)?;
        publish(publisher, &[fact]).await?;
    }
    if before.as_ref() != Some(&item) {
        access.put_spent(tenant, Some(&item)).await.map_err(BudgetError::Access)?;
    }
    Ok(reached.is_some())
}

async fn publish(publisher: &Publisher, facts: &[Fact]) -> Result<(), BudgetError> {
    if !publisher.has_destinations() {
        return Ok(());
    }
    publisher.publish(facts).await.map_err(|failed| BudgetError::Unpublished(failed.why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_tenant_spent_is_the_price_of_all_its_lines() {
        let line = |tenant: &str, operation: &str, key_name: &str| Line {
            tenant: tenant.to_owned(),
            day: "2026-11-27".parse().unwrap(),
            operation: operation.to_owned(),
            key_name: key_name.to_owned(),
            counts: Counts { requests: 3, messages: 10, bytes: 1, ..Counts::default() },
        };
        let mut tenants = Tenants::new();
        add(&mut tenants, vec![line("a", "produce", "till 1"), line("b", "produce", "")]);
        add(&mut tenants, vec![line("a", "produce", "till 2"), line("a", "consume", "till 1")]);
        let rates = json!([
            {"operation": "*", "unit": "requests", "per": 1, "price": "1"},
            {"operation": "produce", "unit": "messages", "per": 20, "price": "0.5"},
        ]);
        let card = RateCard::from_value(json!({"currency": "USD", "rates": rates})).unwrap();
        let amounts: Vec<String> =
            tenants.values().map(|operations| amount(&card, operations).to_string()).collect();
        assert_eq!(amounts, ["9.500000", "3.250000"]);
    }
}
