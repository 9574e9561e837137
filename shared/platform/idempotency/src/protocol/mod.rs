//! Idempotency protocol without its store: the attributes of a record, the possible writes, and the
//! decision about a claim that finds an existing record.
//!
//! The protocol does no I/O and reads no clock, so that production and the model checker (`model`)
//! use the same code. [`Transition::apply`] is the specification of the store's conditional writes;
//! the store's tests compare the two.

mod decision;
mod place;
mod progress;
mod record;
mod transition;

pub use decision::{Decision, decide};
pub use place::{Arrival, Place, PlaceHistory, ProgressLeftBehind};
pub use progress::{Progress, Tally};
pub use record::{Body, Record, Status, StoredResponse};
pub(crate) use transition::lease_end;
pub use transition::{Token, Transition};
