//! The words in which the HTTP side of the gateway and `mq-access` speak: work orders, the problems
//! that answer them, and the paths and keys of bodies that lie outside of a message's answer.

#![forbid(unsafe_code)]

mod bodies;
mod former;
mod problems;
mod work;

pub use bodies::{STORED_BODY, stored_body_url, uploaded_body_key};
pub use problems::{from_broker, from_move, from_produce, from_target};
pub use work::{Change, Read, UNREADABLE, Work, WorkOrder};
