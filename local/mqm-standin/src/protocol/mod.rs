//! What the library and the queue manager say to each other over a unix socket: a request, then its
//! reply, each a length of four bytes and that many bytes of postcard.

mod chars;
mod frame;
mod message;
mod name;

pub use chars::Chars;
pub use frame::{FrameError, read, write};
pub use message::{Descriptor, Id, IdentityContext, Message, OriginContext, Property, Value};
pub use name::ConnectionName;

use libmqm_sys as mq;
use serde::{Deserialize, Serialize};

/// A reason code of MQ's that ends a call with MQCC_FAILED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("MQRC {0}")]
pub struct Reason(pub i32);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    Connect(Connect),
    Disconnect,
    Open(Open),
    Close { handle: i32, options: i32 },
    Put(Box<Put>),
    Get(Get),
    Inquire { handle: i32, selectors: Vec<i32> },
    Set { handle: i32, attributes: Vec<(i32, Attribute)> },
    Commit,
    Back,
}

impl Request {
    /// The verb's name, by which a fault finds it.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Connect(_) => "MQCONN",
            Self::Disconnect => "MQDISC",
            Self::Open(_) => "MQOPEN",
            Self::Close { .. } => "MQCLOSE",
            Self::Put(put) => match put.target {
                Target::Handle(_) => "MQPUT",
                Target::Object(_) => "MQPUT1",
            },
            Self::Get(_) => "MQGET",
            Self::Inquire { .. } => "MQINQ",
            Self::Set { .. } => "MQSET",
            Self::Commit => "MQCMIT",
            Self::Back => "MQBACK",
        }
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Connect {
    /// Blank for the default; a leading `*` accepts any queue manager that answers.
    pub queue_manager: Chars,
    pub channel: Chars,
    pub user: Option<String>,
    pub password: Option<String>,
    pub application: Chars,
    pub options: i32,
}

impl std::fmt::Debug for Connect {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Connect")
            .field("queue_manager", &self.queue_manager)
            .field("channel", &self.channel)
            .field("user", &self.user)
            .field("application", &self.application)
            .finish_non_exhaustive()
    }
}

/// MQOD and the options of MQOPEN.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Open {
    pub object_type: i32,
    pub name: Chars,
    pub queue_manager: Chars,
    pub dynamic_name: Chars,
    pub alternate_user: Chars,
    pub selection: Option<String>,
    pub options: i32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Put {
    pub target: Target,
    /// MQPMO_*.
    pub options: i32,
    /// The queue whose context is passed on.
    pub context: i32,
    pub message: Message,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Target {
    Handle(i32),
    Object(Open),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Get {
    pub handle: i32,
    /// MQGMO_*.
    pub options: i32,
    /// Milliseconds, or MQWI_UNLIMITED.
    pub wait: i32,
    pub match_by: Match,
    /// For conversion.
    pub ccsid: i32,
    pub encoding: i32,
    pub buffer_length: u32,
    /// The caller takes the properties in a message handle.
    pub takes_properties: bool,
}

/// The members of MQMD and MQGMO that choose a message; `None` matches any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    pub message_id: Option<Id>,
    pub correlation_id: Option<Id>,
    pub group_id: Option<Id>,
    pub sequence: Option<i32>,
    pub offset: Option<i32>,
    pub token: Option<[u8; 16]>,
}

/// An attribute of a queue or queue manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attribute {
    Number(i32),
    /// Padded to the attribute's length.
    Text(#[serde(with = "serde_bytes")] Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    pub completion: i32,
    pub reason: i32,
    pub answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    None,
    Connected(Connected),
    Opened(Opened),
    Put(Box<Receipt>),
    Got(Box<Got>),
    /// In the order of the selectors; `None` if the object's type lacks the attribute.
    Inquired(Vec<Option<Attribute>>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connected {
    pub queue_manager: Chars,
    pub connection_id: Id,
    pub ccsid: i32,
    pub max_message_length: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    pub handle: i32,
    /// What MQOD.ObjectName becomes: the name of a dynamic queue that was created.
    pub name: Chars,
    pub resolved_queue: Chars,
    pub resolved_manager: Chars,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    pub descriptor: Descriptor,
    pub resolved_queue: Chars,
    pub resolved_manager: Chars,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Got {
    /// The body is cut to the buffer's length.
    pub message: Message,
    pub full_length: u32,
    pub token: [u8; 16],
    pub resolved_queue: Chars,
}

impl Reply {
    pub fn ok(answer: Answer) -> Self {
        Self { completion: mq::MQCC_OK, reason: mq::MQRC_NONE, answer }
    }

    pub fn warning(reason: i32, answer: Answer) -> Self {
        Self { completion: mq::MQCC_WARNING, reason, answer }
    }

    pub fn failed(reason: i32) -> Self {
        Self { completion: mq::MQCC_FAILED, reason, answer: Answer::None }
    }
}

impl From<Result<Answer, Reason>> for Reply {
    fn from(result: Result<Answer, Reason>) -> Self {
        match result {
            Ok(answer) => Self::ok(answer),
            Err(Reason(reason)) => Self::failed(reason),
        }
    }
}
