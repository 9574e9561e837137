use ingestion::split::PayloadError;

/// Reason why a whole payload is unusable. Its batch fails, and no product changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct PayloadFault {
    pub code: UnusableCode,
    pub detail: String,
    /// Byte offset of the mistake in the decoded content; `None` if the mistake is not at a single
    /// position, such as a wrong checksum.
    pub byte_offset: Option<u64>,
}

ingestion::words! {
    /// Code of the reason why a payload is unusable, shown in the batch's `error`.
    UnusableCode {
        /// Payload that is not an array of items, ends too early, or has no object in any line.
        MalformedJson = "MALFORMED_JSON",
        /// Payload whose gzip is damaged, or whose checksum differs from the accepted one.
        ContentCorrupt = "CONTENT_CORRUPT",
        MaxPayloadExceeded = "MAX_PAYLOAD_EXCEEDED",
        /// Payload with products of more establishments than one batch may have.
        TooManyCnpjs = "TOO_MANY_CNPJS",
        /// Payload with more items in error than [`Bounds::errors`](crate::Bounds::errors) allows.
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
