//! Changes of the access table: what they are in words, and as conditional writes.
//!
//! A write is refused if the item is another one than the change began with, so two administrators
//! do not overwrite each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use super::entry::{Attributes, Entry, PK};
use super::table::Table;
use crate::args::DryRun;
use crate::exit::{Exit, Failure};
use crate::output::{Format, Output};

/// Schema of changes.
const SCHEMA: &str = "integrahub.changes.v1";

/// Entry of the access table, with the item as the table had it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Held {
    /// Entry of the access table.
    pub(crate) entry: Entry,
    /// Attributes of the entry's item in the table.
    pub(crate) attributes: Attributes,
}

/// A change to one entry of the access table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// The entry is created.
    Create(Entry),
    /// The content of an entry is replaced.
    Update(Box<Held>, Entry),
    /// The entry is removed.
    Remove(Held),
}

/// Conditional write of one item of the access table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    /// Partition key of the item that the write changes.
    pub(crate) pk: String,
    /// Kind of the write: put, update or delete.
    pub(crate) action: Action,
    /// Condition under which the item is written.
    pub(crate) condition: String,
    /// Attribute names that the write's expressions refer to (`#name`).
    pub(crate) names: HashMap<String, String>,
    /// Attribute values that the write's expressions refer to (`:value`).
    pub(crate) values: HashMap<String, AttributeValue>,
}

/// Kind of a conditional write: put, update or delete.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// The write replaces the whole item.
    Put(Attributes),
    /// The write changes the item by this update expression.
    Update(String),
    /// The write deletes the item.
    Delete,
}

impl Change {
    /// Returns the change from `held` to `entry`, or `None` if their facts are equal.
    pub(crate) fn of(held: &Held, entry: Entry) -> Option<Self> {
        (held.entry.facts() != entry.facts()).then(|| Self::Update(Box::new(held.clone()), entry))
    }

    /// Returns the entry as it is after the change, or as it was before its removal.
    pub(crate) const fn entry(&self) -> &Entry {
        match self {
            Self::Create(entry) | Self::Update(_, entry) => entry,
            Self::Remove(held) => &held.entry,
        }
    }

    /// Returns the entry in words. A key that there is already has its id with it.
    pub(crate) fn title(&self) -> String {
        let entry = self.entry();
        match (self, entry) {
            (Self::Update(..) | Self::Remove(_), Entry::Key(hash, _)) => {
                format!("{} ({})", entry.title(), hash.id())
            }
            _ => entry.title(),
        }
    }

    /// Returns the sign of the change: `+`, `~` or `-`.
    pub(crate) const fn sign(&self) -> char {
        match self {
            Self::Create(_) => '+',
            Self::Update(..) => '~',
            Self::Remove(_) => '-',
        }
    }

    /// Returns the verb of the change, as in "created".
    const fn verb(&self) -> &'static str {
        match self {
            Self::Create(_) => "created",
            Self::Update(..) => "changed",
            Self::Remove(_) => "removed",
        }
    }

    /// Returns the change in words: a line for the entry, and a line for each fact.
    pub(crate) fn lines(&self) -> Vec<String> {
        let (before, after) = match self {
            Self::Create(entry) => (BTreeMap::new(), entry.facts()),
            Self::Update(held, entry) => (held.entry.facts(), entry.facts()),
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

    /// Returns the conditional write that carries out the change.
    ///
    /// # Errors
    /// If the entry cannot be written down.
    pub(crate) fn write(&self) -> Result<Write, Failure> {
        let mut write = Write {
            pk: self.entry().pk(),
            action: Action::Delete,
            condition: String::new(),
            names: HashMap::new(),
            values: HashMap::new(),
        };
        match self {
            Self::Create(entry) => {
                write.condition = format!("attribute_not_exists({PK})");
                write.action = Action::Put(entry.attributes()?);
            }
            Self::Update(held, entry) => {
                let after = entry.attributes()?;
                write.guard(held, after.keys());
                write.set(&held.attributes, &after);
            }
            Self::Remove(held) => write.guard(held, std::iter::empty()),
        }
        Ok(write)
    }
}

impl Write {
    /// Makes the write conditional on the item being unchanged.
    fn guard<'a>(&mut self, held: &Held, further: impl Iterator<Item = &'a String>) {
        let known = held.entry.kind().members().iter().map(|&member| member.to_owned());
        let all: BTreeSet<String> =
            known.chain(held.attributes.keys().cloned()).chain(further.cloned()).collect();
        let members = all.into_iter().filter(|member| member != PK);
        let mut conditions = vec![format!("attribute_exists({PK})")];
        for (number, member) in members.enumerate() {
            let name = format!("#g{number}");
            match held.attributes.get(&member) {
                Some(value) => {
                    conditions.push(format!("{name} = :g{number}"));
                    self.values.insert(format!(":g{number}"), value.clone());
                }
                None => conditions.push(format!("attribute_not_exists({name})")),
            }
            self.names.insert(name, member);
        }
        self.condition = conditions.join(" AND ");
    }

    /// Sets the members that are another, and removes those that are gone.
    fn set(&mut self, before: &Attributes, after: &Attributes) {
        let is_free = |member: &&String| *member != PK;
        let set: BTreeMap<&String, &AttributeValue> = after
            .iter()
            .filter(|(member, value)| is_free(member) && before.get(*member) != Some(*value))
            .collect();
        let gone: BTreeSet<&String> =
            before.keys().filter(|member| is_free(member) && !after.contains_key(*member)).collect();
        let (mut assignments, mut removals) = (Vec::new(), Vec::new());
        for (number, (member, value)) in set.into_iter().enumerate() {
            assignments.push(format!("#s{number} = :s{number}"));
            self.names.insert(format!("#s{number}"), member.clone());
            self.values.insert(format!(":s{number}"), value.clone());
        }
        for (number, member) in gone.into_iter().enumerate() {
            removals.push(format!("#r{number}"));
            self.names.insert(format!("#r{number}"), member.clone());
        }
        let clause = |word: &str, parts: &[String]| {
            (!parts.is_empty()).then(|| format!("{word} {}", parts.join(", ")))
        };
        let clauses = [clause("SET", &assignments), clause("REMOVE", &removals)];
        self.action = Action::Update(clauses.into_iter().flatten().collect::<Vec<_>>().join(" "));
    }
}

/// Writes the changes, or prints them in a dry run.
///
/// # Errors
/// If a change fails. The changes before it are made.
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

/// Writes changes, and prints each.
///
/// # Errors
/// If a change fails. The changes before it are made.
pub(crate) async fn apply(table: &Table, changes: &[Change], out: &mut Output) -> Result<(), Failure> {
    for change in changes {
        table.make(change).await?;
        out.note(&format!("{} the {}", change.verb(), change.title()));
    }
    Ok(())
}

/// Prints the changes in the output's format; `dry_run` says that they were not made.
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

    fn held(entry: Entry) -> Held {
        Held { attributes: entry.attributes().unwrap(), entry }
    }

    fn orders(scopes: &[&str]) -> Entry {
        Entry::Key(ApiKey::from("k").hash(), key("orders", scopes))
    }

    #[test]
    fn a_new_entry_takes_the_place_of_none() {
        let entry = orders(&["mq:read"]);
        let write = Change::Create(entry.clone()).write().unwrap();
        assert_eq!(write.condition, "attribute_not_exists(pk)");
        assert_eq!(write.action, Action::Put(entry.attributes().unwrap()));
        assert_eq!((write.names.len(), write.values.len()), (0, 0));
    }

    #[test]
    fn an_update_depends_on_every_member_as_it_was() {
        let mut item = key("orders", &["mq:read"]);
        item.disabled = false;
        let after = Entry::Key(ApiKey::from("k").hash(), item);
        let write = Change::of(&held(orders(&["mq:read"])), after).unwrap().write().unwrap();
        let guarded: BTreeSet<&String> =
            write.names.iter().filter(|(name, _)| name.starts_with("#g")).map(|(_, member)| member).collect();
        let members: BTreeSet<String> =
            orders(&[]).kind().members().iter().map(|&member| member.to_owned()).collect();
        assert_eq!(guarded, members.iter().collect());
        assert!(write.condition.contains("attribute_not_exists(#g"), "absent members too");
        // `disabled` is not written if it is false.
        assert_eq!(write.action, Action::Update("REMOVE #r0".to_owned()));
        assert_eq!(write.names["#r0"], "disabled");
        for name in write.names.keys() {
            let Action::Update(expression) = &write.action else { panic!() };
            assert!(write.condition.contains(name) || expression.contains(name), "{name} is not used");
        }
    }

    #[test]
    fn a_removal_depends_on_the_item_as_it_was() {
        let before = held(orders(&["mq:read"]));
        let write = Change::of(&before, orders(&["mq:write"])).unwrap().write().unwrap();
        assert_eq!(write.action, Action::Update("SET #s0 = :s0".to_owned()));
        let removal = Change::Remove(before).write().unwrap();
        assert_eq!(removal.action, Action::Delete);
        assert!(removal.condition.starts_with("attribute_exists(pk) AND #g0"));
    }

    /// Says whether DynamoDB would make the write to this item.
    fn holds(write: &Write, item: &Attributes) -> bool {
        write.condition.split(" AND ").all(|condition| match condition.split_once(" = ") {
            Some((name, value)) => item.get(&write.names[name]) == Some(&write.values[value]),
            None => {
                let (function, name) = condition.trim_end_matches(')').split_once('(').unwrap();
                let member = write.names.get(name).map_or(name, String::as_str);
                item.contains_key(member) == (function == "attribute_exists")
            }
        })
    }

    #[test]
    fn of_two_administrators_who_read_the_same_one_is_refused() {
        let list = |hosts: &str| {
            let entries = hosts.chars().map(|host| format!("rabbitmq://{host}:1/*")).collect();
            Entry::Targets(ACME.to_owned(), TargetsItem { entries })
        };
        let read = held(list("a"));
        let [one, other] = ["ab", "ac"].map(|hosts| Change::of(&read, list(hosts)).unwrap().write().unwrap());
        assert!(holds(&one, &read.attributes) && holds(&other, &read.attributes));
        let written = list("ab").attributes().unwrap();
        assert!(!holds(&one, &written) && !holds(&other, &written));
        let removal = Change::Remove(read.clone()).write().unwrap();
        assert!(holds(&removal, &read.attributes) && !holds(&removal, &written));
        let creation = Change::Create(list("b")).write().unwrap();
        assert!(holds(&creation, &Attributes::new()) && !holds(&creation, &written));
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
