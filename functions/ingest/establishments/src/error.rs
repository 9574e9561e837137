use catalog::DatabaseError;

/// Reason why an administrator's request failed. Changes made before the failure stay.
#[derive(Debug, thiserror::Error)]
#[error("database error")]
pub struct EstablishmentsError(#[from] DatabaseError);
