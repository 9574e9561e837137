//! Rate limits by the second, of a tenant and of its targets. The crate [`access`] determines which
//! limits a request has.
//!
//! Each limit is a bucket that fills at a rate up to a burst (GCRA, the generic cell rate
//! algorithm). The bucket is an item of a DynamoDB table. Each execution environment of a function
//! takes units (for example requests) from it in chunks. A write that does so is a draw. The units
//! that an environment has not used yet are its share. An environment admits requests by its share,
//! so most requests need no call. Every unit is taken before it is used. A chunk is so small that
//! all shares together are at most a tenth of the units that the limit admits in ten seconds.
//!
//! - `gcra` has the arithmetic, and the conditional writes of a draw;
//! - `bucket` has the item, and the estimate of how many environments draw from it;
//! - `share` decides about a request, and which draw to make, without I/O;
//! - `table` makes the draw;
//! - `limiter` combines them for the limits of one request.

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
pub use table::TIMEOUT;
pub use ticket::Ticket;
