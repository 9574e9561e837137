//! Protocol between the client library and the queue manager over a Unix socket: a request, then
//! its reply. Each is a length of four bytes and that many bytes of postcard.

mod chars;
mod frame;
mod message;
mod name;
mod property;

pub use chars::Chars;
pub(crate) use frame::read_up_to;
pub use frame::{read, write};
pub use message::{Context, Descriptor, Id, Message};
pub use name::ConnectionName;
pub use property::{Property, Value};

use std::fmt;

use libmqm_sys as mq;
use serde::{Deserialize, Serialize};

/// Reason code of IBM MQ with which a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason(pub i32);

/// Result of a request: the answer with the reason code of a warning or MQRC_NONE, or the reason
/// code of a failure.
pub type Reply = Result<(Answer, i32), Reason>;

/// Returns a successful reply without a warning.
pub fn done(answer: Answer) -> Reply {
    Ok((answer, mq::MQRC_NONE))
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    Connect(Connect),
    Disconnect,
    Open(Open),
    Close { handle: i32, options: i32 },
    Put(Box<Put>),
    Get(Get),
    Inquire { handle: i32, selectors: Vec<i32> },
    Commit,
    Back,
}

impl Request {
    /// Returns the name of the MQI function, such as `MQPUT`, by which faults refer to it.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Connect(_) => "MQCONN",
            Self::Disconnect => "MQDISC",
            Self::Open(_) => "MQOPEN",
            Self::Close { .. } => "MQCLOSE",
            Self::Put(_) => "MQPUT",
            Self::Get(_) => "MQGET",
            Self::Inquire { .. } => "MQINQ",
            Self::Commit => "MQCMIT",
            Self::Back => "MQBACK",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connect {
    /// Name of the queue manager. Blank stands for the default, and a leading `*` accepts any queue
    /// manager that answers.
    pub queue_manager: Chars,
    pub channel: Chars,
    pub credentials: Option<(String, Password)>,
    pub application: Chars,
    pub options: i32,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password")
    }
}

/// Arguments of MQOPEN: the object that MQOD names, and the options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Open {
    pub object_type: i32,
    pub name: Chars,
    pub queue_manager: Chars,
    pub dynamic_name: Chars,
    pub selection: Option<String>,
    pub options: i32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Put {
    pub handle: i32,
    /// Options of the put, as MQPMO_*.
    pub options: i32,
    /// Handle of the queue from which the context is passed on.
    pub context: i32,
    pub message: Message,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Get {
    pub handle: i32,
    /// Options of the get, as MQGMO_*.
    pub options: i32,
    /// Longest wait of the get in milliseconds, or MQWI_UNLIMITED.
    pub wait: i32,
    pub match_by: Match,
    /// CCSID of the character set to convert the text to.
    pub ccsid: i32,
    pub buffer_length: u32,
    /// True if the caller has a message handle that receives the properties.
    pub takes_properties: bool,
}

/// Ids that select a message; `None` matches any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    pub message_id: Option<Id>,
    pub correlation_id: Option<Id>,
}

/// Value of an attribute of a queue or queue manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attribute {
    Number(i32),
    /// Text of the attribute, padded with blanks to its full length.
    Text(#[serde(with = "serde_bytes")] Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    None,
    Connected {
        queue_manager: Chars,
        connection_id: Id,
    },
    Opened {
        handle: i32,
        /// Name of the opened object. For a model queue it is the name of the dynamic queue that
        /// was created.
        name: Chars,
    },
    /// Descriptor of the put message, as the queue manager completed it.
    Put(Box<Descriptor>),
    Got(Box<Got>),
    /// Values of the inquired attributes, in the order of the selectors.
    Inquired(Vec<Attribute>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Got {
    /// Message that was got, with its body truncated to the caller's buffer.
    pub message: Message,
    pub full_length: u32,
}
