//! Cutting a batch's products into chunks: the places of the cuts, the names of the chunks, and the
//! content of their files.
//!
//! The chunker may die while it cuts a payload and start over, or cut a payload twice at once. So
//! the result depends only on the payload, and on the [`Plan`] and [`Generation`] that were stored
//! for the batch beforehand: the same cuts, the same ids, and the same bytes.

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
