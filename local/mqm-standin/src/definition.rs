//! The definition of a queue: its attributes, by MQ's selectors.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use libmqm_sys as mq;
use serde::Deserialize;

use crate::protocol::{Attribute, Chars};

/// A kind of queue, with the number that MQ has for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[repr(i32)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    #[default]
    Local = mq::MQQT_LOCAL,
    Alias = mq::MQQT_ALIAS,
    Remote = mq::MQQT_REMOTE,
    Model = mq::MQQT_MODEL,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Local, Self::Alias, Self::Remote, Self::Model];

    pub const fn queue_type(self) -> i32 {
        self as i32
    }
}

const STORES: &[Kind] = &[Kind::Local, Kind::Model];
const GETS: &[Kind] = &[Kind::Local, Kind::Model, Kind::Alias];
const ALL: &[Kind] = &Kind::ALL;

/// An attribute that the configuration may set, by its keyword in MQSC.
struct Entry {
    selector: i32,
    keyword: &'static str,
    kinds: &'static [Kind],
    shape: Shape,
}

enum Shape {
    Number { default: i32, range: RangeInclusive<i32> },
    Text { length: usize },
}

const fn number(
    selector: i32,
    keyword: &'static str,
    kinds: &'static [Kind],
    default: i32,
    range: RangeInclusive<i32>,
) -> Entry {
    Entry { selector, keyword, kinds, shape: Shape::Number { default, range } }
}

const fn text(selector: i32, keyword: &'static str, kinds: &'static [Kind], length: usize) -> Entry {
    Entry { selector, keyword, kinds, shape: Shape::Text { length } }
}

/// The attributes with the kinds of queue that have them. Numbers have the queue manager's default
/// and a range.
static ENTRIES: &[Entry] = &[
    number(mq::MQIA_INHIBIT_PUT, "PUT_INHIBITED", ALL, mq::MQQA_PUT_ALLOWED, 0..=1),
    number(mq::MQIA_INHIBIT_GET, "GET_INHIBITED", GETS, mq::MQQA_GET_ALLOWED, 0..=1),
    number(mq::MQIA_DEF_PRIORITY, "DEFPRTY", ALL, 0, 0..=9),
    number(mq::MQIA_DEF_PERSISTENCE, "DEFPSIST", ALL, mq::MQPER_NOT_PERSISTENT, 0..=1),
    number(mq::MQIA_MAX_Q_DEPTH, "MAXDEPTH", STORES, 5_000, 0..=999_999_999),
    number(mq::MQIA_MAX_MSG_LENGTH, "MAXMSGL", STORES, 4 * 1024 * 1024, 0..=100 * 1024 * 1024),
    number(mq::MQIA_BACKOUT_THRESHOLD, "BOTHRESH", STORES, 0, 0..=999_999_999),
    number(mq::MQIA_SHAREABILITY, "SHARE", STORES, mq::MQQA_SHAREABLE, 0..=1),
    number(mq::MQIA_MSG_DELIVERY_SEQUENCE, "MSGDLVSQ", STORES, mq::MQMDS_PRIORITY, 0..=1),
    text(mq::MQCA_BACKOUT_REQ_Q_NAME, "BOQNAME", STORES, mq::MQ_Q_NAME_LENGTH),
    text(mq::MQCA_BASE_Q_NAME, "TARGET", &[Kind::Alias], mq::MQ_Q_NAME_LENGTH),
    text(mq::MQCA_REMOTE_Q_NAME, "RNAME", &[Kind::Remote], mq::MQ_Q_NAME_LENGTH),
    text(mq::MQCA_REMOTE_Q_MGR_NAME, "RQMNAME", &[Kind::Remote], mq::MQ_Q_MGR_NAME_LENGTH),
];

#[derive(Clone, Debug)]
pub struct Definition {
    pub name: Chars,
    pub kind: Kind,
    attributes: BTreeMap<i32, Attribute>,
}

impl Definition {
    pub fn new(name: Chars, kind: Kind) -> Self {
        Self { name, kind, attributes: BTreeMap::new() }
    }

    /// The selector of a keyword of the configuration.
    pub fn selector(keyword: &str) -> Option<i32> {
        ENTRIES.iter().find(|entry| entry.keyword == keyword).map(|entry| entry.selector)
    }

    /// True if any kind of queue has this attribute.
    pub fn is_known(selector: i32) -> bool {
        ENTRIES.iter().any(|entry| entry.selector == selector)
    }

    /// The entry of an attribute that this kind of queue has.
    fn entry(&self, selector: i32) -> Option<&'static Entry> {
        ENTRIES.iter().find(|entry| entry.selector == selector && entry.kinds.contains(&self.kind))
    }

    /// An attribute, or `None` if this kind of queue lacks it.
    pub fn attribute(&self, selector: i32) -> Option<Attribute> {
        let entry = self.entry(selector)?;
        let default = || match entry.shape {
            Shape::Number { default, .. } => Attribute::Number(default),
            Shape::Text { length } => Attribute::Text(vec![b' '; length]),
        };
        Some(self.attributes.get(&selector).cloned().unwrap_or_else(default))
    }

    /// A number of a kind of queue that has it.
    pub(crate) fn number(&self, selector: i32) -> i32 {
        match self.attribute(selector) {
            Some(Attribute::Number(number)) => number,
            _ => 0,
        }
    }

    pub(crate) fn text(&self, selector: i32) -> Chars {
        match self.attribute(selector) {
            Some(Attribute::Text(text)) => Chars::from_field(&text),
            _ => Chars::default(),
        }
    }

    /// Sets an attribute. `None` if this kind of queue lacks it or the value is out of its range.
    #[must_use]
    pub fn set(&mut self, selector: i32, value: &Attribute) -> Option<()> {
        let value = match (value, &self.entry(selector)?.shape) {
            (Attribute::Number(number), Shape::Number { range, .. }) if range.contains(number) => {
                value.clone()
            }
            (Attribute::Text(text), Shape::Text { length }) => {
                Attribute::Text(Chars::from_field(text).padded(*length))
            }
            _ => return None,
        };
        self.attributes.insert(selector, value);
        Some(())
    }

    /// The queue that a model makes.
    pub(crate) fn instance(&self, name: Chars) -> Self {
        Self { name, kind: Kind::Local, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use libmqm_sys as mq;

    use super::{Definition, Kind};
    use crate::protocol::{Attribute, Chars};

    #[test]
    fn an_attribute_belongs_to_its_kinds_of_queue() {
        let mut alias = Definition::new(Chars::from("A"), Kind::Alias);
        assert_eq!(alias.attribute(mq::MQIA_MAX_Q_DEPTH), None);
        assert_eq!(alias.set(mq::MQCA_BASE_Q_NAME, &Attribute::Text(b"B".to_vec())), Some(()));
        assert_eq!(alias.text(mq::MQCA_BASE_Q_NAME), Chars::from("B"));
    }

    #[test]
    fn a_value_out_of_its_range_is_refused() {
        let mut queue = Definition::new(Chars::from("A"), Kind::Local);
        assert_eq!(queue.set(mq::MQIA_DEF_PRIORITY, &Attribute::Number(10)), None);
        assert_eq!(queue.attribute(mq::MQIA_DEF_PRIORITY), Some(Attribute::Number(0)));
    }
}
