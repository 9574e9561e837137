//! The states of a batch, of its chunks and of its deactivation, and the counters that must add up.
//!
//! Each state machine is one function of a state and an event. Everything is delivered at least
//! once, so each function defines what a repeated or late event means, and nothing else changes a
//! state.

mod counters;
mod deactivation;
mod replay;
mod status;

pub use counters::{Changes, ChunkResult, ChunkTally, Counters, Unbalanced};
pub use deactivation::{Deactivation, DeactivationGuard, DeactivationReport, SkipReason};
pub use replay::{Replay, ReplayRefusal, ReplayScope, ReplayWork, ReplayedBatch};
pub use status::{BatchEvent, BatchStatus, ChunkCounts, ChunkEvent, ChunkStatus, IllegalTransition};
