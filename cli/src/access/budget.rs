//! `integrahub budget`: how much a tenant may spend in a month.

use std::collections::BTreeSet;

use access::BudgetItem;
use serde_json::json;

use super::change::{Change, StoredEntry, make};
use super::entry::Entry;
use super::snapshot::Snapshot;
use super::table::Table;
use crate::args::{Budget, BudgetSet, Edit, TenantOption};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;

const ONE: &str = "integrahub.budget.v1";
/// Percentage of the amount at which a budget warns if `budget set` names none.
const WARNING: u32 = 80;
/// Percentage of the amount at which every budget warns.
const WHOLE: u32 = 100;

/// Runs `integrahub budget`.
///
/// # Errors
/// If the budget is invalid or does not exist, or the table cannot be accessed.
pub(crate) async fn run(args: &Budget, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    // What cannot be used is refused before anything is called.
    let item = match args {
        Budget::Set(args) => Some(item(args)?),
        Budget::Show(_) | Budget::Remove(_) => None,
    };
    let table = Table::of(context).await?;
    let known = table.read().await?;
    let (Budget::Set(BudgetSet { tenant, .. })
    | Budget::Show(TenantOption { tenant })
    | Budget::Remove(Edit { of: TenantOption { tenant }, .. })) = args;
    let tenant = known.tenant(tenant)?;
    known.check_readable(&access::pk::budget(&tenant))?;
    match (args, item) {
        (Budget::Set(args), Some(item)) => {
            if known.get(access::pk::RATES).is_none() {
                out.note("warning: there is no rate card, so nothing is spent: integrahub rates set FILE");
            }
            make(&table, known.put(Entry::Budget(tenant, item)), args.dry, out).await
        }
        (Budget::Remove(Edit { dry, .. }), _) => {
            let held = held(&known, &tenant)?.clone();
            make(&table, [Change::Remove(held)], *dry, out).await
        }
        _ => {
            show(&known, &tenant, out)?;
            Ok(Exit::Done)
        }
    }
}

fn item(args: &BudgetSet) -> Result<BudgetItem, Failure> {
    let named: BTreeSet<u32> = args.warn_at.iter().copied().collect();
    let warn_at = if named.is_empty() { BTreeSet::from([WARNING, WHOLE]) } else { named };
    let item = BudgetItem { amount: args.amount, refuse: args.refuse, warn_at };
    check(&item)?;
    Ok(item)
}

/// Refuses a budget that fails the validation of the access table's items.
pub(crate) fn check(item: &BudgetItem) -> Result<(), Failure> {
    item.check().map_err(|error| Failure::refused("the budget cannot be used").why(error.to_string()))
}

fn held<'a>(known: &'a Snapshot, tenant: &str) -> Result<&'a StoredEntry, Failure> {
    known.get(&access::pk::budget(tenant)).ok_or_else(|| {
        Failure::refused(format!("the tenant {tenant} has no budget"))
            .next("give it one: integrahub budget set --help")
    })
}

/// Prints a tenant's budget, and the amount spent that the function `metering` recorded last.
fn show(known: &Snapshot, tenant: &str, out: &mut Output) -> Result<(), Failure> {
    let StoredEntry { entry, .. } = held(known, tenant)?;
    let spent = known.spent(tenant);
    let mut document = entry.document();
    if let Some(document) = document.as_object_mut() {
        let spent = spent
            .map(|spent| json!({"month": spent.month, "amount": spent.amount, "exceeded": spent.exceeded}));
        document.insert("spent".to_owned(), json!(spent));
    }
    let currency = match known.get(access::pk::RATES).map(|held| &held.entry) {
        Some(Entry::Rates(card)) => format!(" {}", card.currency()),
        _ => String::new(),
    };
    let Entry::Budget(_, item) = entry else { return Ok(()) };
    let percents = item.warn_at.iter().map(|percent| format!("{percent} %")).collect::<Vec<_>>();
    let spent = spent.map_or_else(
        || "not known yet".to_owned(),
        |spent| format!("{}{currency} in {}", spent.amount, spent.month),
    );
    let beyond = if item.refuse { "requests are refused" } else { "a warning alone" };
    out.thing(
        ONE,
        &document,
        &[
            ("tenant", tenant.to_owned()),
            ("budget", format!("{}{currency} a month", item.amount)),
            ("spent", spent),
            ("warns at", percents.join(", ")),
            ("beyond it", beyond.to_owned()),
        ],
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::Value;

    use super::super::entry::tests::{ACME, budget, card};
    use super::super::snapshot::tests::snapshot;
    use super::*;
    use crate::args::{Cli, Command};
    use crate::output::Format;
    use crate::output::memory::output;

    fn set(options: &str) -> Result<BudgetItem, Failure> {
        let start = ["integrahub", "budget", "set", "--tenant", "acme"];
        match Cli::try_parse_from(start.into_iter().chain(options.split(' '))).unwrap().command {
            Command::Budget(Budget::Set(args)) => item(&args),
            other => panic!("{other:?}"),
        }
    }

    fn known() -> Snapshot {
        snapshot(&[Entry::Budget(ACME.to_owned(), budget()), Entry::Rates(card())])
    }

    #[test]
    fn a_budget_is_what_the_options_say() {
        let plain = set("--amount 100.00").unwrap();
        assert_eq!((plain.refuse, Vec::from_iter(plain.warn_at)), (false, vec![80, 100]));
        let own = set("--amount 5 --refuse --warn-at 90 --warn-at 50").unwrap();
        assert_eq!((own.refuse, Vec::from_iter(own.warn_at)), (true, vec![50, 90]));
        for options in ["--amount 0", "--amount 5 --warn-at 0", "--amount 5 --warn-at 1001"] {
            assert!(set(options).is_err(), "{options}");
        }
        let wrong = ["integrahub", "budget", "set", "--tenant", "acme", "--amount", "1,50"];
        assert!(Cli::try_parse_from(wrong).is_err());
    }

    #[test]
    fn a_budget_is_shown_with_what_is_spent() {
        use aws_sdk_dynamodb::types::AttributeValue;
        let mut known = known();
        let text = |value: &str| AttributeValue::S(value.to_owned());
        let spent = [
            ("pk", text(&access::pk::spent(ACME))),
            ("month", text("2026-11")),
            ("amount", text("81.25")),
            ("exceeded", AttributeValue::Bool(false)),
            ("refuse", AttributeValue::Bool(true)),
            ("told", AttributeValue::N("80".to_owned())),
        ];
        known.add(spent.map(|(name, value)| (name.to_owned(), value)).into());
        let (mut out, data, _) = output(Format::Text, None);
        show(&known, ACME, &mut out).unwrap();
        assert!(data.text().contains("81.250000 USD in 2026-11"), "{}", data.text());
        let (mut out, data, _) = output(Format::Json, None);
        show(&known, ACME, &mut out).unwrap();
        let document: Value = serde_json::from_str(&data.text()).unwrap();
        assert_eq!(
            (&document["amount"], &document["spent"]["month"]),
            (&json!("100.000000"), &json!("2026-11"))
        );
    }
}
