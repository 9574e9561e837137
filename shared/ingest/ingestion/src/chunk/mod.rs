//! Cutting a batch's products into chunks: the places of the cuts, the names of the chunks, and the
//! content of their files.
//!
//! A run over a payload may die and start over, or run twice at once. So everything here follows
//! from the payload and from the [`Plan`] and [`Generation`] that the batch's first run pinned: the
//! same cuts, the same ids, and the same bytes.

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
