//! Definition of a queue: its attributes, most of them by their keywords in MQSC.

use libmqm_sys as mq;
use serde::Deserialize;

use crate::protocol::Chars;

/// Kind of a queue, with IBM MQ's number for it.
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

/// Definition of a queue in the configuration file, completed with default values. Attributes that
/// its kind of queue does not have are ignored.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    pub name: Chars,
    #[serde(default)]
    pub kind: Kind,
    #[serde(default, rename = "PUT_INHIBITED")]
    pub put_inhibited: bool,
    #[serde(default, rename = "GET_INHIBITED")]
    pub get_inhibited: bool,
    /// Priority of messages that are put without one.
    #[serde(default, rename = "DEFPRTY")]
    pub priority: i32,
    /// Persistence of messages that are put without one, as MQPER_*.
    #[serde(default, rename = "DEFPSIST")]
    pub persistence: i32,
    #[serde(default = "depth", rename = "MAXDEPTH")]
    pub max_depth: i32,
    #[serde(default = "message_length", rename = "MAXMSGL")]
    pub max_message_length: i32,
    #[serde(default, rename = "BOTHRESH")]
    pub backout_threshold: i32,
    #[serde(default, rename = "BOQNAME")]
    pub backout_queue: Chars,
    /// Delivery order of the queue, as MQMDS_*: by priority, or first in first out.
    #[serde(default, rename = "MSGDLVSQ")]
    pub delivery_sequence: i32,
    /// Name of the queue that the alias stands for.
    #[serde(default, rename = "TARGET")]
    pub target: Chars,
}

fn depth() -> i32 {
    5_000
}

pub(crate) fn message_length() -> i32 {
    4 * 1024 * 1024
}
