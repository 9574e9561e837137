use catalog::DatabaseError;

/// Reason why a request was not answered. What was changed until then stays changed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum EstablishmentsError {
    #[error("database error")]
    Database(#[from] DatabaseError),
    #[error("the answer cannot be written")]
    Answer(#[source] serde_json::Error),
}
