//! A batch as it was accepted: its metadata, the keys of its payload and its chunks, and the facts
//! about it before its payload is read.
//!
//! All of it follows from the claim on the client's key. So an attempt that takes over a broken one
//! writes the same object and the same item again.

mod accepted;
mod key;
mod media;
mod metadata;
mod notice;
pub(crate) mod source;

pub use accepted::AcceptedBatch;
pub use key::{
    batch_id, batch_of_payload, chunk_key, chunk_prefix, errors_key, errors_prefix, generation_of_chunk,
    payload_key, payload_key_of, payload_prefix,
};
pub use media::{LoadType, MediaType};
pub use metadata::{InvalidMetadata, PayloadMetadata};
pub use notice::PayloadNotice;
pub use source::{InvalidSourceKey, Source, SourceKey, encoded_key};

#[cfg(test)]
mod tests;
