//! Changes of the access table as conditional writes to DynamoDB.
//!
//! DynamoDB refuses a write if the item has changed since the command read it. So two
//! administrators do not overwrite each other's changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Change, StoredEntry};
use crate::access::entry::{Attributes, PK};
use crate::exit::Failure;

/// Conditional write of one item of the access table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    /// Partition key of the item that the write changes.
    pub(crate) pk: String,
    /// Kind of the write: put, update or delete.
    pub(crate) action: Action,
    /// Condition expression, which must be true of the present item for the write to take effect.
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
    /// Returns the conditional write that carries out the change.
    ///
    /// # Errors
    /// If the new entry is invalid, or cannot be serialized as an item.
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
    /// Makes the write conditional on the present item being the same as in `held`. Attributes that
    /// `held` lacks must still be absent: those that the entry's kind may have, and those in
    /// `further`.
    fn guard<'a>(&mut self, held: &StoredEntry, further: impl Iterator<Item = &'a String>) {
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

    /// Makes the write an update that sets each attribute whose value differs between `before` and
    /// `after`, and removes those that `after` lacks.
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

#[cfg(test)]
mod tests {
    use access::{ApiKey, TargetsItem};

    use super::*;
    use crate::access::change::tests::{held, orders};
    use crate::access::entry::Entry;
    use crate::access::examples::{ACME, key};

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

    /// Returns whether DynamoDB would carry out the write, given the present attributes of the
    /// item.
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
}
