//! Data that the HTTP functions of the gateway and `mq-access` exchange: work orders, and the
//! problems that answer them. Also the paths and keys of message bodies that are stored in S3.

#![forbid(unsafe_code)]

mod bodies;
mod previous_form;
mod problems;
mod work;

pub use bodies::{STORED_BODY, stored_body_url, uploaded_body_key};
pub use problems::{from_broker, from_move, from_produce, from_target};
pub use work::{Change, Read, UNREADABLE, Work, WorkOrder};
