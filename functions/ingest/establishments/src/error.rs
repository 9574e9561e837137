use catalog::DatabaseError;

/// Reason why a request was not answered. What was changed until then stays changed.
#[derive(Debug, thiserror::Error)]
#[error("database error")]
pub struct EstablishmentsError(#[from] DatabaseError);
