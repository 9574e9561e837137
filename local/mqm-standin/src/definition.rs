//! What is defined of a queue: its attributes, by MQ's selectors.

use std::collections::BTreeMap;

use libmqm_sys as mq;
use serde::{Deserialize, Serialize};

use crate::protocol::Chars;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    #[default]
    Local,
    Alias,
    Remote,
    Model,
}

impl Kind {
    pub fn queue_type(self) -> i32 {
        match self {
            Self::Local => mq::MQQT_LOCAL,
            Self::Alias => mq::MQQT_ALIAS,
            Self::Remote => mq::MQQT_REMOTE,
            Self::Model => mq::MQQT_MODEL,
        }
    }

    pub fn from_queue_type(value: i32) -> Option<Self> {
        [Self::Local, Self::Alias, Self::Remote, Self::Model]
            .into_iter()
            .find(|kind| kind.queue_type() == value)
    }

    fn bit(self) -> u8 {
        match self {
            Self::Local => LOCAL,
            Self::Alias => ALIAS,
            Self::Remote => REMOTE,
            Self::Model => MODEL,
        }
    }
}

const LOCAL: u8 = 1;
const ALIAS: u8 = 2;
const REMOTE: u8 = 4;
const MODEL: u8 = 8;
const STORES: u8 = LOCAL | MODEL;
const ALL: u8 = LOCAL | ALIAS | REMOTE | MODEL;

struct Number {
    selector: i32,
    keyword: &'static str,
    kinds: u8,
    default: i32,
    range: (i32, i32),
}

const fn number(selector: i32, keyword: &'static str, kinds: u8, default: i32, range: (i32, i32)) -> Number {
    Number { selector, keyword, kinds, default, range }
}

/// The numbers that are defined, with the queue manager's defaults and the range of each.
static NUMBERS: &[Number] = &[
    number(mq::MQIA_INHIBIT_PUT, "PUT_INHIBITED", ALL, mq::MQQA_PUT_ALLOWED, (0, 1)),
    number(mq::MQIA_INHIBIT_GET, "GET_INHIBITED", STORES | ALIAS, mq::MQQA_GET_ALLOWED, (0, 1)),
    number(mq::MQIA_DEF_PRIORITY, "DEFPRTY", ALL, 0, (0, 9)),
    number(mq::MQIA_DEF_PERSISTENCE, "DEFPSIST", ALL, mq::MQPER_NOT_PERSISTENT, (0, 1)),
    number(mq::MQIA_MAX_Q_DEPTH, "MAXDEPTH", STORES, 5_000, (0, 999_999_999)),
    number(mq::MQIA_MAX_MSG_LENGTH, "MAXMSGL", STORES, 4 * 1024 * 1024, (0, 100 * 1024 * 1024)),
    number(mq::MQIA_BACKOUT_THRESHOLD, "BOTHRESH", STORES, 0, (0, 999_999_999)),
    number(mq::MQIA_SHAREABILITY, "SHARE", STORES, mq::MQQA_SHAREABLE, (0, 1)),
    number(
        mq::MQIA_DEF_INPUT_OPEN_OPTION,
        "DEFSOPT",
        STORES,
        mq::MQOO_INPUT_SHARED,
        (mq::MQOO_INPUT_SHARED, mq::MQOO_INPUT_EXCLUSIVE),
    ),
    number(mq::MQIA_HARDEN_GET_BACKOUT, "HARDENBO", STORES, mq::MQQA_BACKOUT_HARDENED, (0, 1)),
    number(mq::MQIA_MSG_DELIVERY_SEQUENCE, "MSGDLVSQ", STORES, mq::MQMDS_PRIORITY, (0, 1)),
    number(mq::MQIA_RETENTION_INTERVAL, "RETINTVL", STORES, 999_999_999, (0, 999_999_999)),
    number(mq::MQIA_USAGE, "USAGE", STORES, mq::MQUS_NORMAL, (0, 1)),
    number(mq::MQIA_SCOPE, "SCOPE", ALL, mq::pcf::MQSCO_Q_MGR, (1, 2)),
    number(mq::MQIA_DEF_BIND, "DEFBIND", ALL, mq::MQBND_BIND_ON_OPEN, (0, 2)),
    number(mq::MQIA_DIST_LISTS, "DISTL", STORES, mq::MQDL_NOT_SUPPORTED, (0, 1)),
    number(mq::MQIA_NPM_CLASS, "NPMCLASS", STORES, mq::MQNPM_CLASS_NORMAL, (0, 10)),
    number(
        mq::MQIA_PROPERTY_CONTROL,
        "PROPCTL",
        STORES | ALIAS,
        mq::MQPROP_COMPATIBILITY,
        (mq::MQPROP_COMPATIBILITY, mq::MQPROP_V6COMPAT),
    ),
    number(mq::MQIA_DEF_PUT_RESPONSE_TYPE, "DEFPRESP", ALL, mq::MQPRT_SYNC_RESPONSE, (1, 2)),
    number(mq::MQIA_DEF_READ_AHEAD, "DEFREADA", STORES | ALIAS, mq::MQREADA_NO, (0, 3)),
    number(mq::MQIA_TRIGGER_CONTROL, "TRIGGER", STORES, mq::MQTC_OFF, (0, 1)),
    number(mq::MQIA_TRIGGER_TYPE, "TRIGTYPE", STORES, mq::MQTT_FIRST, (0, 3)),
    number(mq::MQIA_TRIGGER_DEPTH, "TRIGDPTH", STORES, 1, (1, 999_999_999)),
    number(mq::MQIA_TRIGGER_MSG_PRIORITY, "TRIGMPRI", STORES, 0, (0, 9)),
    number(mq::MQIA_Q_DEPTH_HIGH_LIMIT, "QDEPTHHI", STORES, 80, (0, 100)),
    number(mq::MQIA_Q_DEPTH_LOW_LIMIT, "QDEPTHLO", STORES, 20, (0, 100)),
    number(mq::MQIA_Q_DEPTH_MAX_EVENT, "QDPMAXEV", STORES, mq::pcf::MQEVR_ENABLED, (0, 1)),
    number(mq::MQIA_Q_DEPTH_HIGH_EVENT, "QDPHIEV", STORES, mq::pcf::MQEVR_DISABLED, (0, 1)),
    number(mq::MQIA_Q_DEPTH_LOW_EVENT, "QDPLOEV", STORES, mq::pcf::MQEVR_DISABLED, (0, 1)),
    number(mq::MQIA_Q_SERVICE_INTERVAL, "QSVCINT", STORES, 999_999_999, (0, 999_999_999)),
    number(mq::MQIA_Q_SERVICE_INTERVAL_EVENT, "QSVCIEV", STORES, mq::pcf::MQQSIE_NONE, (0, 2)),
    number(mq::MQIA_BASE_TYPE, "TARGTYPE", ALIAS, mq::MQOT_Q, (mq::MQOT_Q, mq::MQOT_TOPIC)),
    number(
        mq::MQIA_DEFINITION_TYPE,
        "DEFTYPE",
        STORES,
        mq::MQQDT_PREDEFINED,
        (mq::MQQDT_PREDEFINED, mq::MQQDT_TEMPORARY_DYNAMIC),
    ),
];

struct Text {
    selector: i32,
    keyword: &'static str,
    kinds: u8,
    length: usize,
}

const fn text(selector: i32, keyword: &'static str, kinds: u8, length: usize) -> Text {
    Text { selector, keyword, kinds, length }
}

static TEXTS: &[Text] = &[
    text(mq::MQCA_Q_DESC, "DESCR", ALL, mq::MQ_Q_DESC_LENGTH),
    text(mq::MQCA_BACKOUT_REQ_Q_NAME, "BOQNAME", STORES, mq::MQ_Q_NAME_LENGTH),
    text(mq::MQCA_PROCESS_NAME, "PROCESS", STORES, mq::MQ_PROCESS_NAME_LENGTH),
    text(mq::MQCA_INITIATION_Q_NAME, "INITQ", STORES, mq::MQ_Q_NAME_LENGTH),
    text(mq::MQCA_TRIGGER_DATA, "TRIGDATA", STORES, mq::MQ_TRIGGER_DATA_LENGTH),
    text(mq::MQCA_BASE_Q_NAME, "TARGET", ALIAS, mq::MQ_Q_NAME_LENGTH),
    text(mq::MQCA_REMOTE_Q_NAME, "RNAME", REMOTE, mq::MQ_Q_NAME_LENGTH),
    text(mq::MQCA_REMOTE_Q_MGR_NAME, "RQMNAME", REMOTE, mq::MQ_Q_MGR_NAME_LENGTH),
    text(mq::MQCA_XMIT_Q_NAME, "XMITQ", REMOTE, mq::MQ_Q_NAME_LENGTH),
    text(mq::MQCA_CLUSTER_NAME, "CLUSTER", LOCAL | ALIAS | REMOTE, mq::MQ_CLUSTER_NAME_LENGTH),
    text(mq::MQCA_CLUSTER_NAMELIST, "CLUSNL", LOCAL | ALIAS | REMOTE, mq::MQ_NAMELIST_NAME_LENGTH),
    text(mq::MQCA_CUSTOM, "CUSTOM", ALL, mq::MQ_CUSTOM_LENGTH),
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    pub name: Chars,
    pub kind: Kind,
    numbers: BTreeMap<i32, i32>,
    texts: BTreeMap<i32, Chars>,
    /// When the queue was made, in milliseconds since 1970.
    pub created: u64,
}

impl Definition {
    pub fn new(name: Chars, kind: Kind) -> Self {
        Self { name, kind, numbers: BTreeMap::new(), texts: BTreeMap::new(), created: crate::clock::now() }
    }

    /// The selector of a keyword of the configuration.
    pub fn selector(keyword: &str) -> Option<i32> {
        let number = NUMBERS.iter().find(|number| number.keyword == keyword).map(|number| number.selector);
        number.or_else(|| TEXTS.iter().find(|text| text.keyword == keyword).map(|text| text.selector))
    }

    /// Whether any kind of queue has this attribute.
    pub fn is_known(selector: i32) -> bool {
        NUMBERS.iter().any(|number| number.selector == selector)
            || TEXTS.iter().any(|text| text.selector == selector)
    }

    /// All numbers that this kind of queue has.
    pub fn numbers(&self) -> impl Iterator<Item = (i32, i32)> {
        let entries = NUMBERS.iter().filter(|number| number.kinds & self.kind.bit() != 0);
        entries
            .map(|number| (number.selector, *self.numbers.get(&number.selector).unwrap_or(&number.default)))
    }

    /// All texts that this kind of queue has, padded.
    pub fn texts(&self) -> impl Iterator<Item = (i32, Vec<u8>)> {
        let entries = TEXTS.iter().filter(|text| text.kinds & self.kind.bit() != 0);
        entries.map(|text| (text.selector, self.text_of(text.selector).padded(text.length)))
    }

    /// A number, or `None` if this kind of queue lacks it.
    pub fn number(&self, selector: i32) -> Option<i32> {
        let entry = NUMBERS.iter().find(|number| number.selector == selector)?;
        let held = self.numbers.get(&selector).copied();
        (entry.kinds & self.kind.bit() != 0).then(|| held.unwrap_or(entry.default))
    }

    /// A number of a kind of queue that has it.
    pub(crate) fn number_of(&self, selector: i32) -> i32 {
        self.number(selector).unwrap_or_default()
    }

    pub fn text(&self, selector: i32) -> Option<Vec<u8>> {
        let entry = TEXTS.iter().find(|text| text.selector == selector)?;
        (entry.kinds & self.kind.bit() != 0).then(|| self.text_of(selector).padded(entry.length))
    }

    pub(crate) fn text_of(&self, selector: i32) -> Chars {
        self.texts.get(&selector).cloned().unwrap_or_default()
    }

    /// `None` if this kind of queue lacks the attribute or the value is out of its range.
    #[must_use]
    pub fn set_number(&mut self, selector: i32, value: i32) -> Option<()> {
        let entry = NUMBERS.iter().find(|number| number.selector == selector)?;
        let (least, most) = entry.range;
        let fits = entry.kinds & self.kind.bit() != 0 && (least..=most).contains(&value);
        fits.then(|| {
            self.numbers.insert(selector, value);
        })
    }

    #[must_use]
    pub fn set_text(&mut self, selector: i32, value: &Chars) -> Option<()> {
        let entry = TEXTS.iter().find(|text| text.selector == selector)?;
        (entry.kinds & self.kind.bit() != 0).then(|| {
            self.texts.insert(selector, value.cut(entry.length));
        })
    }

    /// The queue that a model makes.
    pub(crate) fn instance(&self, name: Chars) -> Self {
        Self { name, kind: Kind::Local, created: crate::clock::now(), ..self.clone() }
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.number_of(mq::MQIA_DEFINITION_TYPE) == mq::MQQDT_TEMPORARY_DYNAMIC
    }
}

#[cfg(test)]
mod tests {
    use libmqm_sys as mq;

    use super::{Definition, Kind};
    use crate::protocol::Chars;

    #[test]
    fn an_attribute_belongs_to_its_kinds_of_queue() {
        let mut alias = Definition::new(Chars::from("A"), Kind::Alias);
        assert_eq!(alias.number(mq::MQIA_MAX_Q_DEPTH), None);
        assert_eq!(alias.set_text(mq::MQCA_BASE_Q_NAME, &Chars::from("B")), Some(()));
        assert_eq!(alias.text_of(mq::MQCA_BASE_Q_NAME), Chars::from("B"));
    }

    #[test]
    fn a_value_out_of_its_range_is_refused() {
        let mut queue = Definition::new(Chars::from("A"), Kind::Local);
        assert_eq!(queue.set_number(mq::MQIA_DEF_PRIORITY, 10), None);
        assert_eq!(queue.number(mq::MQIA_DEF_PRIORITY), Some(0));
    }
}
