//! One writer at a time for each establishment.

use ingestion::Cnpj;
use sha2::{Digest as _, Sha256};

use crate::connection::Session;
use crate::error::DatabaseError;

/// Establishments share this many locks, so that a batch of any number of them cannot fill the server's lock table. Two that share one only wait
/// for each other.
const STRIPES: u16 = 1024;
/// The upper half of the locks' numbers: "cnpj".
const SPACE: i64 = i64::from_be_bytes(*b"cnpj\0\0\0\0");

/// How establishments are locked until the transaction ends. Everybody takes the locks in the order of their numbers, and before any other, so nobody waits in a
/// circle. Nobody who shares a lock goes on to take it alone: two of them would wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// For whoever writes their products.
    Alone,
    /// For whoever only has to know that nobody writes them meanwhile.
    Shared,
}

impl Hold {
    /// Takes each lock of [`numbers`].
    pub(crate) const fn statement(self) -> &'static str {
        match self {
            Self::Alone => "SELECT pg_advisory_xact_lock(lock) FROM unnest($1::bigint[]) AS l (lock)",
            Self::Shared => "SELECT pg_advisory_xact_lock_shared(lock) FROM unnest($1::bigint[]) AS l (lock)",
        }
    }
}

/// Locks these establishments alone.
pub(crate) async fn lock(session: &mut Session<'_>, cnpjs: &[Cnpj]) -> Result<(), DatabaseError> {
    session.query(Hold::Alone.statement(), &[&numbers(cnpjs)]).await?;
    Ok(())
}

/// The locks of these establishments.
pub(crate) fn numbers(cnpjs: &[Cnpj]) -> Vec<i64> {
    let mut numbers: Vec<i64> = cnpjs.iter().map(stripe).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn stripe(cnpj: &Cnpj) -> i64 {
    let [high, low, ..]: [u8; 32] = Sha256::digest(cnpj.as_bytes()).into();
    SPACE + i64::from(u16::from_be_bytes([high, low]) % STRIPES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_few_sorted_and_each_taken_once() {
        let cnpjs: Vec<Cnpj> =
            (1..5000).map(|number| Cnpj::from_base(&format!("{number:012}")).unwrap()).collect();
        let numbers = numbers(&cnpjs);
        assert!(numbers.is_sorted_by(|left, right| left < right));
        assert!((1000..=usize::from(STRIPES)).contains(&numbers.len()));
    }
}
