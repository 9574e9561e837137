//! What a produce needs at every broker: an even pace, and the latencies of its messages.

mod latencies;
mod pacer;

pub use latencies::{Latencies, milliseconds};
pub use pacer::Pacer;
