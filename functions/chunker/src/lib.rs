//! Cuts a payload that was stored into chunks, and announces them.

mod notice;

pub use notice::{Delivery, Notice, UnknownEvent, deliveries};
