//! Locks by which each establishment has one writer at a time.

use ingestion::Cnpj;
use sha2::{Digest as _, Sha256};

/// Number of locks that all establishments share. Two establishments that share one only wait for
/// each other. With this number, a transaction with a thousand establishments holds one lock in
/// sixteen, and other tenants rarely wait for it.
const STRIPES: u16 = 16_384;
/// Upper half of the locks' numbers: "cnpj".
const SPACE: i64 = i64::from_be_bytes(*b"cnpj\0\0\0\0");
/// Lock of the one transaction that may hold more than [`MOST_WITHOUT_GATE`] locks. Its number is
/// below all others, so it is taken first.
const GATE: i64 = SPACE - 1;
/// Maximum number of locks that a transaction takes without the gate. The server has room for 64
/// locks of each connection that it allows, in a table that all share: 32 for each of 100
/// connections, and a thousand for the one behind the gate, leave a third of it free.
pub(crate) const MOST_WITHOUT_GATE: usize = 32;

/// Mode in which establishments are locked until the transaction ends. Each transaction takes the
/// locks in the order of their numbers, and before any other, so there is no deadlock. A
/// transaction that shares a lock never takes it exclusively afterwards: two of them would wait for
/// each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Exclusive lock, for a transaction that writes products of the establishments.
    Alone,
    /// Shared lock, for a transaction that only prevents writes to them.
    Shared,
}

impl Hold {
    /// Statement that takes each lock of [`numbers`]. The gate is never shared.
    pub(crate) const fn statement(self) -> &'static str {
        match self {
            Self::Alone => "SELECT pg_advisory_xact_lock(lock) FROM unnest($1::bigint[]) AS l (lock)",
            Self::Shared => {
                "SELECT CASE WHEN lock < x'636e706a00000000'::bigint THEN pg_advisory_xact_lock(lock) \
                 ELSE pg_advisory_xact_lock_shared(lock) END FROM unnest($1::bigint[]) AS l (lock)"
            }
        }
    }
}

/// Lock numbers of these establishments, preceded by the gate if there are many.
pub(crate) fn numbers(cnpjs: &[Cnpj]) -> Vec<i64> {
    let mut numbers: Vec<i64> = cnpjs.iter().map(stripe).collect();
    if numbers.len() > MOST_WITHOUT_GATE {
        numbers.push(GATE);
    }
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

    fn of(establishments: u64) -> Vec<i64> {
        let cnpjs: Vec<Cnpj> =
            (1..=establishments).map(|number| Cnpj::from_base(&format!("{number:012}")).unwrap()).collect();
        numbers(&cnpjs)
    }

    #[test]
    fn locks_are_sorted_and_each_is_taken_once() {
        assert!(of(5000).is_sorted_by(|left, right| left < right));
        assert!(of(5000).len() < 5000);
    }

    #[test]
    fn a_transaction_of_many_establishments_passes_the_gate_first_and_holds_few_of_all_locks() {
        assert!(of(32).iter().all(|number| *number >= SPACE));
        for many in [33, 1000, 2000] {
            let numbers = of(many);
            assert_eq!(numbers.first(), Some(&GATE), "{many}");
            assert!(numbers.len() <= usize::from(STRIPES) / 8, "{many}");
        }
    }
}
