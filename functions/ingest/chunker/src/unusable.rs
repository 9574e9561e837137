use ingestion::split::PayloadError;

/// Reason why a payload as a whole is unusable: its batch fails, and no product changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct PayloadFault {
    pub code: UnusableCode,
    pub detail: String,
    /// Place of the mistake in the decoded content, in bytes from its beginning.
    pub byte_offset: Option<u64>,
}

/// Code of the reason in a batch's `error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnusableCode {
    /// The payload is not an array of items, breaks off, or has no object in any line.
    MalformedJson,
    /// The payload begins as gzip but is not gzip, or its checksum is not the accepted one.
    ContentCorrupt,
    MaxPayloadExceeded,
    /// The payload has products of more establishments than one batch may have.
    TooManyCnpjs,
    /// The payload has more items in error than any catalogue has items.
    TooManyErrors,
}

impl UnusableCode {
    /// Code as the API shows it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MalformedJson => "MALFORMED_JSON",
            Self::ContentCorrupt => "CONTENT_CORRUPT",
            Self::MaxPayloadExceeded => "MAX_PAYLOAD_EXCEEDED",
            Self::TooManyCnpjs => "TOO_MANY_CNPJS",
            Self::TooManyErrors => "TOO_MANY_ERRORS",
        }
    }
}

impl From<PayloadError> for PayloadFault {
    fn from(error: PayloadError) -> Self {
        Self {
            code: UnusableCode::MalformedJson,
            detail: error.fault.to_string(),
            byte_offset: Some(error.offset),
        }
    }
}
