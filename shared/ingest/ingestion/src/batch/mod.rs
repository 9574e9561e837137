//! The states of a batch, of its chunks and of its deactivation, and the counters that must add up.
//!
//! A batch's state machine is one function of a state and an event ([`BatchStatus::after`]), and
//! nothing else changes a batch's state. Notifications are delivered at least once, so the function
//! defines the effect of repeated and late events, too.

mod counters;
mod deactivation;
mod replay;
mod status;

pub use counters::{Changes, ChunkResult, Counters, Unbalanced};
pub use deactivation::{Deactivation, DeactivationGuard, DeactivationReport, SkipReason};
pub use replay::{Replay, ReplayRefusal, ReplayScope, ReplayWork, ReplayedBatch};
pub use status::{BatchEvent, BatchStatus, ChunkCounts, ChunkStatus, IllegalTransition};
