//! Idempotency records in DynamoDB: one for each operation, tenant and key, so that a retry gets
//! the stored response and is not executed again.
//!
//! The function that takes a request [claims](Store::claim) its record with one conditional write
//! that reads nothing. The function that executes the work [ends](Store::end) the record with a
//! second write, under the owner and the attempt of its claim. A slow first execution cannot
//! overwrite its successor's result, and a key that was used with another body is always refused.
//!
//! ```no_run
//! use idempotency::{
//!     ClaimRequest, Claimed, Fingerprint, IdempotencyKey, KeyForm, OperationType, Outcome, Reply,
//!     Store,
//! };
//!
//! # async fn handle(store: Store, body: serde_json::Value, tenant: &str, key: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let key = IdempotencyKey::parse(key, KeyForm::Uuid)?;
//! let fingerprint = Fingerprint::of(&body)?;
//! let request = ClaimRequest {
//!     operation: OperationType::named("PRODUCE"),
//!     tenant,
//!     key: &key,
//!     fingerprint: &fingerprint,
//!     rights: None,
//!     target: "QM1:ORDERS",
//!     key_name: "till 1",
//!     trace_id: "4f3a…",
//!     retention: std::time::Duration::from_secs(86_400),
//! };
//! match store.claim(&request).await? {
//!     Claimed::Execute(execution) => {
//!         let response = Reply { status: 201, body: "{}".to_owned(), ..Reply::default() };
//!         store.end(&execution, &Outcome::Completed(response)).await?;
//!     }
//!     Claimed::Replay { response, .. } => println!("{}", response.body),
//!     other => println!("refused: {other:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - Work that can be resumed records its progress with [checkpoints](Store::checkpoint). The next
//!   attempt at the request begins after the last one. Work at a place (for example a queue)
//!   [arrives](Store::arrive) there first: after an attempt elsewhere, it begins again.
//! - Work whose effect becomes final at one moment [prepares](Store::prepare): the response is
//!   stored first, so that a crash after the effect cannot lose it. After such a crash, its
//!   [label](Prepared) marks the effect as in doubt.
//! - A reader of the table's stream finds work whose outcome is unknown: [`Doubtful`].
//! - A response that no record can hold is kept in S3, and is stored before the record names it.
//! - A part of a response that is too large for a function to send is [attached](Store::attach): it
//!   is an S3 object of its own, which is available as long as the record lives.
//! - An operator or the request's sender reads what happened to a request: [`Timeline`].
//! - [`protocol`] has the rules without the store. In the tests, a model checker goes through their
//!   states.
//!
//! The times are fixed ([`Execution`]): work starts within 3 s of its claim (plus 5 s, the maximum
//! difference of two clocks) or not at all, and takes at most 24 s. No work outlives its lease (the
//! time in which no other attempt may start), so no lease is ever renewed.

mod attachment;
mod audit;
mod audit_trail;
mod claim;
mod doubt;
mod dynamodb;
mod error;
mod execution;
mod once;
mod operation;
mod prepared;
mod problems;
pub mod protocol;
mod results;
mod reuse;
mod settings;
mod store;
mod timeline;

pub use api::Reply;
pub use api::idempotency_key::{
    ExpiryBounds, ExpiryError, Fingerprint, FingerprintError, IdempotencyKey, KeyError, KeyForm, MalformedKey,
};
pub use attachment::{AttachmentId, MalformedAttachmentId};
pub use audit::{Audit, AuditEntry, AuditEvent, Log};
pub use audit_trail::AuditTrail;
pub use claim::{ClaimRequest, Claimed};
pub use doubt::{Cause, Doubt, Doubtful};
pub use error::StoreError;
pub use execution::{Execution, Outcome, Volume};
pub use once::{Delivery, OnceError};
pub use operation::OperationType;
pub use prepared::Prepared;
pub use problems::{from_store, in_progress, whole_seconds};
pub use protocol::{Place, PlaceHistory, Progress, ProgressLeftBehind, Status, Tally};
pub use reuse::ReuseLimits;
pub use settings::{expiry_bounds, records, reuse_limits};
pub use store::{Store, WriteOutcome};
pub use timeline::{Timeline, Units, UnitsLeftBehind};
