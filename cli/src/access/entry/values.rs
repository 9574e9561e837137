//! Values of an access-table entry as text, by which two versions of the entry are compared.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Entry;
use crate::access::{limit, rates};
use crate::member::plain;

impl Entry {
    /// Returns the values of the entry as text, by their names, so that two versions can be
    /// compared. Each allowed target of an allow-list is a name with an empty value.
    pub(crate) fn values_as_text(&self) -> BTreeMap<String, String> {
        match self {
            Self::Targets(_, targets) => {
                return targets.entries.iter().map(|entry| (entry.clone(), String::new())).collect();
            }
            Self::Limits(_, limits) => return limit::values_as_text(limits),
            Self::Rates(card) => return rates::values_as_text(card),
            _ => {}
        }
        let document = match self {
            Self::Profile(.., profile) => profile.clone(),
            other => other.document(),
        };
        let mut values = BTreeMap::new();
        flatten("", &document, &mut values);
        for known in ["id", "tenant", "createdAt"] {
            values.remove(known);
        }
        values
    }
}

/// Collects the values of a JSON document as text in `values`, by their paths such as
/// `target.connName`. `place` is the path of `value`.
fn flatten(place: &str, value: &Value, values: &mut BTreeMap<String, String>) {
    let text = match value {
        Value::Object(members) => {
            for (name, value) in members {
                let below = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                flatten(&below, value, values);
            }
            return;
        }
        Value::Null => return,
        Value::Array(items) if items.is_empty() => return,
        // An item with a comma must not look like two.
        Value::Array(items) if items.iter().any(|item| plain(item).contains(',')) => value.to_string(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => plain(other),
    };
    values.insert(place.to_owned(), text);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::access::entry::tests::{ACME, each};

    #[test]
    fn an_item_with_a_comma_is_another_fact_than_two_items() {
        let [one, two] = [json!(["A, B"]), json!(["A", "B"])].map(|queues| {
            let profile = json!({"target": {"broker": "rabbitmq"}, "queues": queues});
            Entry::Profile(ACME.to_owned(), "orders".to_owned(), profile).values_as_text()
        });
        assert_eq!((one["queues"].as_str(), two["queues"].as_str()), (r#"["A, B"]"#, "A, B"));
    }

    #[test]
    fn facts_name_each_value_by_its_place() {
        let [tenant, key, profile, grant, targets, limits, budget, card] =
            each().map(|entry| entry.values_as_text());
        assert_eq!(tenant["enabled"], "false");
        assert_eq!((key["scopes"].as_str(), key["cnpjs"].as_str()), ("mq:read", "all"));
        assert!(!key.contains_key("createdAt"), "nobody changes it");
        assert_eq!(profile["target.connName"], "mq.example.com:5671");
        assert_eq!(grant["cnpjs"], "11222333000181");
        assert_eq!(targets["rabbitmq://mq.example.com:5671/ORDERS.*"], "");
        assert_eq!(limits["requests"], "100/200");
        assert_eq!((budget["amount"].as_str(), budget["warnAt"].as_str()), ("100.000000", "80, 100"));
        assert_eq!(card["produce messages"], "4.500000 for 1000000");
        assert_eq!(limits["target `orders` messages"], "500/1000");
        assert_eq!(limits["queue manager `QM1` bytes"], "0.5/1");
    }
}
