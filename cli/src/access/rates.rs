//! `integrahub rates`: the prices of what tenants use.

use std::collections::BTreeMap;

use access::rates::{Rate, RateCard};
use serde_json::{Value, json};

use super::change::{Change, StoredEntry, make};
use super::entry::Entry;
use super::snapshot::Snapshot;
use super::table::Table;
use crate::args::Rates;
use crate::context::Context;
use crate::exit::{Exit, Failure, chain};
use crate::input;
use crate::output::{Format, Output};

const ONE: &str = "integrahub.rates.v1";

/// Runs `integrahub rates`.
///
/// # Errors
/// If the file is no rate card, there is no card to show or remove, or the table cannot be
/// accessed.
pub(crate) async fn run(args: &Rates, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    // A file that is refused calls nothing.
    let card = match args {
        Rates::Set { file, .. } => Some(card(input::document(file).await?)?),
        Rates::Show | Rates::Remove(_) => None,
    };
    let table = Table::of(context).await?;
    let known = table.read().await?;
    known.check_readable(access::pk::RATES)?;
    match (args, card) {
        (Rates::Set { dry, .. }, Some(card)) => make(&table, known.put(Entry::Rates(card)), *dry, out).await,
        (Rates::Remove(dry), _) => {
            let held = held(&known)?.clone();
            let question = "this removes the rate card: nothing has a price, and no budget counts";
            dry.confirm(question, "yes", out)?;
            make(&table, [Change::Remove(held)], *dry, out).await
        }
        _ => {
            show(&held(&known)?.entry, out);
            Ok(Exit::Done)
        }
    }
}

/// Parses a rate card from a YAML or JSON document.
fn card(document: Value) -> Result<RateCard, Failure> {
    RateCard::from_value(document).map_err(|error| {
        Failure::refused("the file is no rate card; nothing was changed")
            .why(chain(&error))
            .next("write currency and rates as docs/limits.md shows")
    })
}

fn held(known: &Snapshot) -> Result<&StoredEntry, Failure> {
    known.get(access::pk::RATES).ok_or_else(|| {
        Failure::refused("there is no rate card, so nothing has a price")
            .next("set one: integrahub rates set FILE")
    })
}

/// Returns the prices of a rate card by operation and unit, so that two cards can be compared.
pub(crate) fn values_as_text(card: &RateCard) -> BTreeMap<String, String> {
    let price = |Rate { operation, unit, per, price }: &Rate| {
        (format!("{operation} {}", unit.name()), format!("{price} for {per}"))
    };
    let currency = ("currency".to_owned(), card.currency().to_owned());
    card.rates().iter().map(price).chain([currency]).collect()
}

fn show(entry: &Entry, out: &mut Output) {
    let Entry::Rates(card) = entry else { return };
    if out.format() != Format::Text {
        return out.json(ONE, &json!(card));
    }
    let row = |Rate { operation, unit, per, price }: &Rate| {
        vec![
            operation.clone(),
            unit.name().to_owned(),
            per.to_string(),
            price.to_string(),
            card.currency().to_owned(),
        ]
    };
    let rows = card.rates().iter().map(row).collect();
    out.table(&["operation", "unit", "per", "price", "currency"], rows);
}

#[cfg(test)]
mod tests {
    use super::super::entry::tests::card as example;
    use super::super::snapshot::tests::snapshot;
    use super::*;
    use crate::output::memory::output;

    #[test]
    fn a_file_that_is_no_card_is_refused_with_its_fault() {
        let rate = json!({"operation": "produce", "unit": "message", "per": 1, "price": "1"});
        let refused = card(json!({"currency": "USD", "rates": [rate]})).unwrap_err();
        assert!(refused.why.unwrap().starts_with("rate 1: a unit is requests"));
        let price = json!({"operation": "produce", "unit": "messages", "per": 1, "price": 1.5});
        let refused = card(json!({"currency": "USD", "rates": [price]})).unwrap_err();
        assert!(refused.why.unwrap().contains("/rates/0/price"));
    }

    #[test]
    fn a_card_that_says_the_same_changes_nothing() {
        let known = snapshot(&[Entry::Rates(example())]);
        assert_eq!(known.put(Entry::Rates(example())), None);
        assert!(matches!(snapshot(&[]).put(Entry::Rates(example())), Some(Change::Create(_))));
        let other = RateCard::from_value(json!({"currency": "BRL", "rates": []})).unwrap();
        let lines = known.put(Entry::Rates(other)).unwrap().lines();
        assert_eq!(
            lines,
            ["~ rate card", "    ~ currency: USD -> BRL", "    - produce messages: 4.500000 for 1000000"]
        );
        assert!(held(&snapshot(&[])).is_err());
    }

    #[test]
    fn a_card_is_shown_by_price_and_as_a_document() {
        let (mut out, data, _) = output(Format::Text, None);
        show(&Entry::Rates(example()), &mut out);
        assert_eq!(
            data.text().split_whitespace().collect::<Vec<_>>(),
            ["produce", "messages", "1000000", "4.500000", "USD"]
        );
        let (mut out, data, _) = output(Format::Json, None);
        show(&Entry::Rates(example()), &mut out);
        let document: Value = serde_json::from_str(&data.text()).unwrap();
        assert_eq!((&document["schema"], &document["rates"][0]["per"]), (&json!(ONE), &json!(1_000_000)));
    }
}
