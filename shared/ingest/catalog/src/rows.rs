//! Conversions between columns of PostgreSQL and the types of the crate `ingestion`.

use std::time::Duration;

use ingestion::Cnpj;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};
use tokio_postgres::Row;

use crate::error::DatabaseError;

/// Reads a count from a column of a row; an error if it is negative.
pub(crate) fn count(row: &Row, column: &str) -> Result<u64, DatabaseError> {
    Ok(row.try_get::<_, i64>(column)?.try_into()?)
}

/// Reads an enum's value from its word in a column of a row.
pub(crate) fn word<'a, T: Deserialize<'a>>(row: &'a Row, column: &'static str) -> Result<T, DatabaseError> {
    let text: &str = row.try_get(column)?;
    let word: StrDeserializer<'a, ValueError> = text.into_deserializer();
    T::deserialize(word).map_err(|_| DatabaseError::Unreadable(column))
}

pub(crate) fn cnpj(row: &Row, column: &'static str) -> Result<Cnpj, DatabaseError> {
    row.try_get::<_, &str>(column)?.parse().map_err(|_| DatabaseError::Unreadable(column))
}

/// Reads a duration from the column `seconds` of a row. A null is zero, and so is a negative
/// number: the clock of the function that received a batch may be ahead of the database's.
pub(crate) fn seconds(row: &Row) -> Result<Duration, DatabaseError> {
    let seconds: Option<f64> = row.try_get("seconds")?;
    Ok(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default())
}

/// Converts a count to the type of its database column.
pub(crate) fn bigint(number: u64) -> Result<i64, DatabaseError> {
    Ok(number.try_into()?)
}

pub(crate) fn texts(cnpjs: &[Cnpj]) -> Vec<&str> {
    cnpjs.iter().map(Cnpj::as_str).collect()
}
