//! A batch as it was accepted, before its payload is read: its metadata, and the S3 keys of its
//! payload and its chunks.
//!
//! All of this follows from the claim on the client's idempotency key. So an invocation that takes
//! over from one that died writes the same S3 object and the same DynamoDB item again.

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
