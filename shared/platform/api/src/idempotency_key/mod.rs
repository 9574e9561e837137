//! Identity of a request: the idempotency key that its client gave it, and a fingerprint of its
//! body. This module needs no store, so that the parsers of requests and of events can use it.

mod fingerprint;
mod key;
mod record;

pub use fingerprint::{Fingerprint, FingerprintError};
pub use key::{ExpiryBounds, ExpiryError, IdempotencyKey, KeyError, KeyForm, MalformedKey};
pub use record::record_key;
