//! One conditional record per operation, tenant and key, so that a retry is answered and not executed.
//!
//! The function that takes a request [claims](Store::claim) its record with one conditional write that reads
//! nothing; whoever executes the work finishes it with a second write, under the owner and the attempt of its claim.
//! A slow first execution cannot overwrite its successor, and a key that was used with another body is always refused.

mod claim;
mod execution;
mod fingerprint;
mod key;
mod record;
mod store;

pub use claim::{ClaimRequest, Claimed};
pub use execution::{Execution, Outcome};
pub use fingerprint::Fingerprint;
pub use key::{ExpiryBounds, ExpiryError, IdempotencyKey, KeyError, MalformedKey};
pub use record::{OperationType, Status};
pub use store::{Finished, Store, StoreError};
