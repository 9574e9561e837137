//! Origin of a target's password, request or profile, so that an error names the one to correct.

use serde::{Deserialize, Serialize};

use crate::names::ProfileName;

/// Origin of a target's password: the request, or the profile that names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PasswordOrigin {
    /// The request. `target` is the JSON Pointer (RFC 6901) to the target in the request's body.
    #[expect(missing_docs, reason = "the variant's description names its field")]
    Request { target: String },
    /// The tenant's profile of this name. Only a change of the profile corrects its password.
    Profile(ProfileName),
}

impl Default for PasswordOrigin {
    fn default() -> Self {
        Self::Request { target: "/target".to_owned() }
    }
}
