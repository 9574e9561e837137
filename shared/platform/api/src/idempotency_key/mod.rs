//! Identity of a request: the key that its client gave it, and a fingerprint of its body. Without a
//! store, so that envelopes and parsers can use it.

mod fingerprint;
mod key;
mod record;

pub use fingerprint::{Fingerprint, FingerprintError};
pub use key::{ExpiryBounds, ExpiryError, IdempotencyKey, KeyError, KeyForm, MalformedKey};
pub use record::record_key;
