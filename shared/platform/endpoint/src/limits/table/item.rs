//! Writes to a bucket as DynamoDB's conditional updates, and items of the table as buckets.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::limits::bucket::Bucket;
use crate::limits::gcra::{Form, Write};

type Item = HashMap<String, AttributeValue>;

/// Error for an item of the table that is not a valid bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an item of the table of limits is malformed")]
pub(super) struct ItemError;

/// Returns the condition expression of a write that takes units from a bucket. In DynamoDB, a
/// comparison with a missing attribute is false.
pub(super) const fn condition(write: &Write) -> &'static str {
    match (write.form, write.starts_window) {
        (Form::Running { .. }, false) => "tat >= :now AND tat <= :ceiling AND win >= :win AND win <= :farWin",
        (Form::Running { .. }, true) => {
            "tat >= :now AND tat <= :ceiling AND (attribute_not_exists(win) OR win < :win OR win > :farWin)"
        }
        (Form::Full { .. }, false) => {
            "(attribute_not_exists(tat) OR tat < :now OR tat > :latest) AND win >= :win AND win <= :farWin"
        }
        (Form::Full { .. }, true) => {
            "(attribute_not_exists(tat) OR tat < :now OR tat > :latest) AND (attribute_not_exists(win) OR win < :win OR win > :farWin)"
        }
    }
}

/// Returns the update expression of a write that takes units from a bucket.
pub(super) const fn update(write: &Write) -> &'static str {
    match (write.form, write.starts_window) {
        (Form::Running { .. }, false) => "SET tat = tat + :change, expiresAt = :expiresAt ADD envs :env",
        (Form::Running { .. }, true) => {
            "SET tat = tat + :change, expiresAt = :expiresAt, lastEnvs = if_not_exists(envs, :env), lastWin = if_not_exists(win, :win), envs = :env, win = :win"
        }
        (Form::Full { .. }, false) => "SET tat = :tat, expiresAt = :expiresAt ADD envs :env",
        (Form::Full { .. }, true) => {
            "SET tat = :tat, expiresAt = :expiresAt, lastEnvs = if_not_exists(envs, :env), lastWin = if_not_exists(win, :win), envs = :env, win = :win"
        }
    }
}

/// Returns the attribute values that the expressions of a write use. DynamoDB refuses values that
/// no expression uses.
pub(super) fn values(write: &Write) -> Item {
    let mut values = Item::from([
        (":now".to_owned(), number(write.now)),
        (":win".to_owned(), number(write.window)),
        (":farWin".to_owned(), number(write.last_window())),
        (":expiresAt".to_owned(), number(write.expires_at())),
        (":env".to_owned(), AttributeValue::Ns(vec![write.environment.to_string()])),
    ]);
    match write.form {
        Form::Running { change, ceiling } => {
            values.insert(":change".to_owned(), number(change));
            values.insert(":ceiling".to_owned(), number(ceiling));
        }
        Form::Full { tat } => {
            values.insert(":tat".to_owned(), number(tat));
            values.insert(":latest".to_owned(), number(write.latest));
        }
    }
    values
}

/// Parses a bucket from its DynamoDB item.
pub(super) fn bucket(item: &Item) -> Result<Bucket, ItemError> {
    Ok(Bucket {
        tat: integer(item, "tat")?,
        window: integer(item, "win")?,
        seen: environment_ids(item, "envs")?,
        last_window: integer(item, "lastWin")?,
        last_seen: environment_ids(item, "lastEnvs")?,
    })
}

fn integer(item: &Item, name: &str) -> Result<i64, ItemError> {
    let value = item.get(name).and_then(|value| value.as_n().ok());
    value.and_then(|value| value.parse().ok()).ok_or(ItemError)
}

fn environment_ids(item: &Item, name: &str) -> Result<BTreeSet<u8>, ItemError> {
    let ids = item.get(name).and_then(|value| value.as_ns().ok()).ok_or(ItemError)?;
    ids.iter().map(|id| id.parse().map_err(|_| ItemError)).collect()
}

fn number(value: impl Display) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_named_and_every_name_has_a_value() {
        let forms = [Form::Running { change: 1, ceiling: 2 }, Form::Full { tat: 3 }];
        for (form, starts_window) in forms.into_iter().flat_map(|form| [(form, true), (form, false)]) {
            let write = Write { now: 1, latest: 9, form, window: 1, starts_window, environment: 7 };
            let text = format!("{} {}", condition(&write), update(&write));
            let separators = |character: char| !character.is_ascii_alphanumeric() && character != ':';
            let named: BTreeSet<&str> = text.split(separators).filter(|word| word.starts_with(':')).collect();
            let values = values(&write);
            let given: BTreeSet<&str> = values.keys().map(String::as_str).collect();
            assert_eq!(named, given, "{text}");
        }
    }
}
