//! Search for the rows that the database refuses, so that the others can be written without them.
//!
//! Items are validated against the columns before, so the search handles only what the validation
//! missed. It is slow, and its transaction is rolled back.

use std::collections::HashSet;

use ingestion::chunk::{Chunk, Row};

use super::columns::{CREATE_SUSPECTS, SUSPECT_PRODUCTS};
use super::copy::{Presence, copy};
use crate::connection::{Connection, Session};
use crate::error::DatabaseError;

/// Returns the indexes of a chunk's rows that the database refuses, found by splitting each refused
/// set of rows in halves.
pub(super) async fn find(
    connection: &mut Connection,
    chunk: &Chunk,
) -> Result<HashSet<usize>, DatabaseError> {
    let mut session = connection.begin().await?;
    let mut refused = HashSet::new();
    let all: Vec<(usize, &Row)> = chunk.rows().iter().enumerate().collect();
    session.transaction.batch_execute(&CREATE_SUSPECTS).await?;
    let mut suspects = vec![all.as_slice()];
    while let Some(rows) = suspects.pop() {
        if accepts(&mut session, rows).await? {
            continue;
        }
        match rows {
            [(place, _)] => {
                refused.insert(*place);
            }
            _ => {
                let (left, right) = rows.split_at(rows.len() / 2);
                suspects.extend([left, right]);
            }
        }
    }
    Ok(refused)
}

async fn accepts(session: &mut Session<'_>, rows: &[(usize, &Row)]) -> Result<bool, DatabaseError> {
    session.transaction.batch_execute("SAVEPOINT suspects").await?;
    let copied =
        copy(session, &SUSPECT_PRODUCTS, rows, |suspects, (_, row)| suspects.push(row, Presence::Active));
    match copied.await {
        Ok(()) => {
            session.transaction.batch_execute("RELEASE SAVEPOINT suspects").await?;
            Ok(true)
        }
        Err(error) if error.blames_the_data() => {
            session.transaction.batch_execute("ROLLBACK TO SAVEPOINT suspects").await?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
