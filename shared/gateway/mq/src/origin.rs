//! Origins of a target's parts, so that a fault is reported to the one who can correct it.

use serde::{Deserialize, Serialize};

use crate::names::ProfileName;

/// Origin of a target's password: the request or the profile that named it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PasswordOrigin {
    /// The request, whose target's members are at this JSON Pointer (RFC 6901) of its body.
    #[expect(missing_docs, reason = "the variant's description names its field")]
    Request { target: String },
    /// The tenant's profile of this name. No request can correct it.
    Profile(ProfileName),
}

impl Default for PasswordOrigin {
    fn default() -> Self {
        Self::Request { target: "/target".to_owned() }
    }
}
