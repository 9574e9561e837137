//! A message as library and queue manager exchange it.

use libmqm_sys as mq;
use serde::{Deserialize, Serialize};

use super::{Chars, Property};

/// Identifier of 24 bytes: a MsgId, CorrelId or GroupId.
pub type Id = [u8; 24];

/// Fields of a message descriptor (MQMD, version 2), with IBM MQ's numeric values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    pub report: i32,
    pub message_type: i32,
    /// Lifetime of the message in tenths of a second, or MQEI_UNLIMITED.
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
    pub context: Context,
    pub group_id: Id,
    pub sequence: i32,
    pub offset: i32,
    pub flags: i32,
    pub original_length: i32,
}

/// Context of a message: who put it, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub user: Chars,
    pub accounting_token: [u8; 32],
    pub identity_data: Chars,
    pub application_type: i32,
    pub application: Chars,
    pub put_date: Chars,
    pub put_time: Chars,
    pub origin_data: Chars,
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
            context: Context::default(),
            group_id: [0; 24],
            sequence: 1,
            offset: 0,
            flags: mq::MQMF_NONE,
            original_length: mq::MQOL_UNDEFINED,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

    /// Returns the length of the body as IBM MQ's type MQLONG.
    pub fn length(&self) -> i32 {
        i32::try_from(self.body.len()).unwrap_or(i32::MAX)
    }
}
