//! Objects that pipelines drop into S3 in place of a request: the contents of their keys, the
//! identity of their versions, and the result that is written beside them. No I/O.

mod key;
mod result;
mod source;

pub use key::{DropKey, DropKeyError, PREFIX, UnknownKey, errors_key, is_left_alone, result_key, tenant_of};
pub use result::{ErrorCounts, expired, final_result, received, refused};
pub use source::{
    StateFromTags, StateToTag, idempotency_key, is_version_of, may_be_of, refusal_id, tagged_state, tags,
};
