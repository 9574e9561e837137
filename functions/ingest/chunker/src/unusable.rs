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

ingestion::words! {
    /// Code of the reason in a batch's `error`.
    UnusableCode {
        /// The payload is not an array of items, breaks off, or has no object in any line.
        MalformedJson = "MALFORMED_JSON",
        /// The payload begins as gzip but is not gzip, or its checksum is not the accepted one.
        ContentCorrupt = "CONTENT_CORRUPT",
        MaxPayloadExceeded = "MAX_PAYLOAD_EXCEEDED",
        /// The payload has products of more establishments than one batch may have.
        TooManyCnpjs = "TOO_MANY_CNPJS",
        /// The payload has more items in error than any catalogue has items.
        TooManyErrors = "TOO_MANY_ERRORS",
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
