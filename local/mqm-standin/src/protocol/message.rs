//! A message as library and queue manager exchange it.

use libmqm_sys as mq;
use serde::{Deserialize, Serialize};

use super::Chars;

/// MsgId, CorrelId and GroupId.
pub type Id = [u8; 24];

/// The length of what was put by an application, in bytes, when nothing else is known.
const UNDEFINED_LENGTH: i32 = mq::MQOL_UNDEFINED;

/// The members of MQMD, version 2, with MQ's values for the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    pub report: i32,
    pub message_type: i32,
    /// Tenths of a second, or MQEI_UNLIMITED.
    pub expiry: i32,
    pub feedback: i32,
    pub encoding: i32,
    pub ccsid: i32,
    pub format: Chars,
    pub priority: i32,
    pub persistence: i32,
    pub message_id: Id,
    pub correlation_id: Id,
    pub backout_count: i32,
    pub reply_to_queue: Chars,
    pub reply_to_manager: Chars,
    pub identity: IdentityContext,
    pub origin: OriginContext,
    pub group_id: Id,
    pub sequence: i32,
    pub offset: i32,
    pub flags: i32,
    pub original_length: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityContext {
    pub user: Chars,
    pub accounting_token: [u8; 32],
    pub data: Chars,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginContext {
    pub application_type: i32,
    pub application: Chars,
    pub put_date: Chars,
    pub put_time: Chars,
    pub data: Chars,
}

impl Default for Descriptor {
    fn default() -> Self {
        Self {
            report: mq::MQRO_NONE,
            message_type: mq::MQMT_DATAGRAM,
            expiry: mq::MQEI_UNLIMITED,
            feedback: mq::MQFB_NONE,
            encoding: mq::MQENC_NATIVE,
            ccsid: mq::MQCCSI_Q_MGR,
            format: Chars::default(),
            priority: mq::MQPRI_PRIORITY_AS_Q_DEF,
            persistence: mq::MQPER_PERSISTENCE_AS_Q_DEF,
            message_id: [0; 24],
            correlation_id: [0; 24],
            backout_count: 0,
            reply_to_queue: Chars::default(),
            reply_to_manager: Chars::default(),
            identity: IdentityContext::default(),
            origin: OriginContext::default(),
            group_id: [0; 24],
            sequence: 1,
            offset: 0,
            flags: mq::MQMF_NONE,
            original_length: UNDEFINED_LENGTH,
        }
    }
}

/// A message property, by its name without the folder `usr`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Property {
    pub name: String,
    pub value: Value,
    pub support: i32,
    pub context: i32,
    pub copy: i32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    Null,
    Boolean(bool),
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    Int8(i8),
    Int16(i16),
    Int32(i32),
    Int64(i64),
    Float32(f32),
    Float64(f64),
    Text(String),
}

impl Property {
    /// A property with the attributes that MQPD_DEFAULT gives.
    pub fn new(name: impl Into<String>, value: Value) -> Self {
        Self {
            name: name.into(),
            value,
            support: mq::MQPD_SUPPORT_OPTIONAL,
            context: mq::MQPD_NO_CONTEXT,
            copy: mq::MQCOPY_DEFAULT,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub descriptor: Descriptor,
    pub properties: Vec<Property>,
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
}

impl Message {
    pub fn is_persistent(&self) -> bool {
        self.descriptor.persistence == mq::MQPER_PERSISTENT
    }
}
