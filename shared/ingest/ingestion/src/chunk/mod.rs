//! Cutting a batch's products into chunks: where the cuts are, what a chunk is called, and what its
//! file holds.
//!
//! A run over a payload may die and start over, or run twice at once. So everything here follows
//! from the payload and from what the batch's first run pinned, its [`Plan`] and [`Generation`]:
//! the same cuts, the same ids, and the same bytes.

mod event;
mod format;
pub mod frame;
mod plan;
mod planner;

pub use event::ChunkReady;
pub use format::{ChunkFileError, decode, encode};
pub use plan::{ChunkId, ChunkItems, Generation, InvalidPlan, Plan, PlannerVersion};
pub use planner::{Chunk, Planner, Row};

#[cfg(test)]
mod tests;
