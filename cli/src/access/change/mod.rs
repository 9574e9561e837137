//! Changes to entries of the access table: how they are described, printed and made.

mod write;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

pub(crate) use self::write::{Action, Write};
use super::entry::{Attributes, Entry};
use super::table::Table;
use crate::args::DryRun;
use crate::exit::{Exit, Failure};
use crate::output::{Format, Output};

/// Name of the JSON schema in which changes of the access table are printed.
const SCHEMA: &str = "integrahub.changes.v1";

/// Entry as it was read from the access table, with all attributes of its item.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredEntry {
    /// Parsed form of the DynamoDB item in `attributes`.
    pub(crate) entry: Entry,
    /// All attributes of the DynamoDB item as they were read, the partition key included.
    pub(crate) attributes: Attributes,
}

/// A change to one entry of the access table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// An entry that the table lacks is created.
    Create(Entry),
    /// An existing entry, as it was read, gets the content of the new entry.
    Update(Box<StoredEntry>, Entry),
    /// An existing entry, as it was read, is removed.
    Remove(StoredEntry),
}

impl Change {
    /// Returns the change that replaces the content of `held` by `entry`; `None` if the two have
    /// the same values, as [`Entry::values_as_text`] lists them.
    pub(crate) fn of(held: &StoredEntry, entry: Entry) -> Option<Self> {
        (held.entry.values_as_text() != entry.values_as_text())
            .then(|| Self::Update(Box::new(held.clone()), entry))
    }

    /// Returns the entry as it is after the change. For a removal, it is the removed entry.
    pub(crate) const fn entry(&self) -> &Entry {
        match self {
            Self::Create(entry) | Self::Update(_, entry) => entry,
            Self::Remove(held) => &held.entry,
        }
    }

    /// Returns the title of the changed entry for people. If an API key is changed or removed, the
    /// title includes the id of the key.
    pub(crate) fn title(&self) -> String {
        let entry = self.entry();
        match (self, entry) {
            (Self::Update(..) | Self::Remove(_), Entry::Key(hash, _)) => {
                format!("{} ({})", entry.title(), hash.id())
            }
            _ => entry.title(),
        }
    }

    /// Returns the sign that stands for the change in a list: `+`, `~` or `-`.
    pub(crate) const fn sign(&self) -> char {
        match self {
            Self::Create(_) => '+',
            Self::Update(..) => '~',
            Self::Remove(_) => '-',
        }
    }

    /// Returns the past participle of the change: created, changed or removed.
    const fn verb(&self) -> &'static str {
        match self {
            Self::Create(_) => "created",
            Self::Update(..) => "changed",
            Self::Remove(_) => "removed",
        }
    }

    /// Returns the change as lines of text: one line for the entry, and one line for each value
    /// that changes.
    pub(crate) fn lines(&self) -> Vec<String> {
        let (before, after) = match self {
            Self::Create(entry) => (BTreeMap::new(), entry.values_as_text()),
            Self::Update(held, entry) => (held.entry.values_as_text(), entry.values_as_text()),
            Self::Remove(_) => (BTreeMap::new(), BTreeMap::new()),
        };
        let mut lines = vec![format!("{} {}", self.sign(), self.title())];
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            let fact =
                |value: &String| if value.is_empty() { name.clone() } else { format!("{name}: {value}") };
            match (before.get(name), after.get(name)) {
                (Some(old), Some(new)) if old != new => lines.push(format!("    ~ {name}: {old} -> {new}")),
                (None, Some(new)) => lines.push(format!("    + {}", fact(new))),
                (Some(old), None) => lines.push(format!("    - {}", fact(old))),
                _ => {}
            }
        }
        lines
    }

    pub(crate) fn document(&self) -> Value {
        let (change, before) = match self {
            Self::Create(_) => ("create", None),
            Self::Update(held, _) => ("update", Some(held.entry.document())),
            Self::Remove(held) => ("remove", Some(held.entry.document())),
        };
        let mut after = (!matches!(self, Self::Remove(_))).then(|| self.entry().document());
        // A new key has an id only when it is made.
        if let (Self::Create(Entry::Key(..)), Some(Value::Object(key))) = (self, &mut after) {
            key.remove("id");
        }
        json!({"change": change, "kind": self.entry().kind().as_str(), "before": before, "after": after})
    }
}

/// Writes changes to the access table, or in a dry run only prints them.
///
/// # Errors
/// If a change fails. The changes before it have taken effect.
pub(crate) async fn make(
    table: &Table,
    changes: impl IntoIterator<Item = Change>,
    dry: DryRun,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let changes = &Vec::from_iter(changes);
    if changes.is_empty() && out.format() == Format::Text {
        out.note("nothing to change");
    }
    if dry.dry_run {
        show(changes, true, out);
        return Ok(Exit::Done);
    }
    apply(table, changes, out).await?;
    if out.format() != Format::Text {
        show(changes, false, out);
    }
    Ok(Exit::Done)
}

/// Writes changes to the access table one after another, and prints a note about each.
///
/// # Errors
/// If a change fails. The changes before it have taken effect.
pub(crate) async fn apply(table: &Table, changes: &[Change], out: &mut Output) -> Result<(), Failure> {
    for change in changes {
        table.make(change).await?;
        out.note(&format!("{} the {}", change.verb(), change.title()));
    }
    Ok(())
}

/// Prints the changes in the output's format; `dry_run` is true if they were not made.
pub(crate) fn show(changes: &[Change], dry_run: bool, out: &mut Output) {
    match out.format() {
        Format::Text => {
            for line in changes.iter().flat_map(Change::lines) {
                out.line(&line);
            }
        }
        Format::Json => {
            let changes: Vec<Value> = changes.iter().map(Change::document).collect();
            out.json(SCHEMA, &json!({"dryRun": dry_run, "changes": changes}));
        }
        Format::Ndjson => {
            for change in changes {
                out.json(SCHEMA, &change.document());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use access::{ApiKey, TargetsItem};

    use super::super::entry::tests::{ACME, key, profile};
    use super::*;
    use crate::output::memory::output;

    pub(super) fn held(entry: Entry) -> StoredEntry {
        StoredEntry { attributes: entry.attributes().unwrap(), entry }
    }

    pub(super) fn orders(scopes: &[&str]) -> Entry {
        Entry::Key(ApiKey::from("k").hash(), key("orders", scopes))
    }

    #[test]
    fn what_is_the_same_is_no_change() {
        assert_eq!(Change::of(&held(orders(&["mq:read"])), orders(&["mq:read"])), None);
    }

    #[test]
    fn a_change_says_what_is_another() {
        let before = Entry::Profile(ACME.to_owned(), "orders".to_owned(), profile());
        let mut text = profile();
        text["target"]["connName"] = "mq2.example.com:5671".into();
        text["queues"] = json!([]);
        text["exchanges"] = json!(["orders"]);
        let after = Entry::Profile(ACME.to_owned(), "orders".to_owned(), text);
        let change = Change::of(&held(before), after).unwrap();
        let lines = [
            format!("~ profile `orders` of {ACME}"),
            "    + exchanges: orders".to_owned(),
            "    - queues: ORDERS.*".to_owned(),
            "    ~ target.connName: mq.example.com:5671 -> mq2.example.com:5671".to_owned(),
        ];
        assert_eq!(change.lines(), lines);
        let list = |entries: &[&str]| {
            let entries = entries.iter().map(|&entry| entry.to_owned()).collect();
            Entry::Targets(ACME.to_owned(), TargetsItem { entries })
        };
        let change = Change::of(&held(list(&["rabbitmq://a:1/*"])), list(&["rabbitmq://b:1/*"])).unwrap();
        assert_eq!(change.lines()[1..], ["    - rabbitmq://a:1/*", "    + rabbitmq://b:1/*"]);
    }

    #[test]
    fn changes_are_shown_as_documents_too() {
        let changes = [Change::Create(orders(&["mq:read"])), Change::Remove(held(orders(&[])))];
        let (mut out, data, _) = output(Format::Json, None);
        show(&changes, true, &mut out);
        let document: Value = serde_json::from_str(&data.text()).unwrap();
        assert_eq!(document["schema"], SCHEMA);
        assert_eq!(document["changes"][0]["after"]["scopes"], json!(["mq:read"]));
        assert_eq!(
            (&document["changes"][1]["change"], &document["changes"][1]["after"]),
            (&json!("remove"), &Value::Null)
        );
    }
}
