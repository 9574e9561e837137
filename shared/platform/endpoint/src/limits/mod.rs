//! Limits by the second, of a tenant and of its targets: buckets in DynamoDB, of which each
//! environment holds a share. [`access`] says which limits a request has.
//!
//! A limit is a bucket that fills at a rate up to a burst (GCRA, the generic cell rate algorithm).
//! The bucket is an item of a DynamoDB table. An environment of a function draws units from it in
//! chunks, and decides about requests from what it has drawn, its share: the common case makes no
//! call. Every unit is drawn before it is used, and a chunk is so small that all shares together
//! are at most a tenth of what the limit admits in ten seconds.
//!
//! - `gcra` has the arithmetic, and the conditional writes of a draw;
//! - `bucket` has the item, and the estimate of how many environments draw from it;
//! - `share` decides about a request, and which draw to make, without I/O;
//! - `table` makes the draw;
//! - `limiter` puts them together for the limits of one request.

mod bucket;
mod gcra;
mod headers;
mod limiter;
mod policy;
mod refusal;
mod settings;
mod share;
#[cfg(test)]
mod simulation;
mod standing;
mod table;
mod ticket;

pub use limiter::Limiter;
pub use policy::{Cost, Policies, Unit};
pub use refusal::Refusal;
pub use settings::LimiterSettings;
pub use standing::Standing;
pub use table::PATIENCE;
pub use ticket::Ticket;
