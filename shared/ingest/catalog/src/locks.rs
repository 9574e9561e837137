//! Locks by which each establishment has one writer at a time.

use ingestion::Cnpj;
use sha2::{Digest as _, Sha256};

/// Number of advisory locks onto which all establishments are mapped. Establishments with the same
/// lock only wait for each other. With this number, a transaction with a thousand establishments
/// holds one lock in sixteen, and tenants with one establishment rarely wait for it.
const STRIPES: u16 = 16_384;
/// Upper half of the keys of the advisory locks: the letters "cnpj".
const SPACE: i64 = i64::from_be_bytes(*b"cnpj\0\0\0\0");
/// Maximum number of establishment locks that a transaction takes without first taking a gate, a
/// further lock that limits how many transactions hold many locks.
pub(crate) const MOST_WITHOUT_GATE: usize = 32;
/// Maximum number of establishment locks that a transaction takes after it has taken one of the
/// [`GATES`].
const MOST_BEHIND_GATE: usize = 128;
/// Number of gates: as many transactions may hold more than [`MOST_WITHOUT_GATE`] locks at the same
/// time, up to [`MOST_BEHIND_GATE`] each. A transaction with even more locks takes one last gate,
/// [`LOWEST`], which only one transaction at a time can hold.
///
/// The server's lock table has room for 64 locks for each allowed connection. Of 100 connections,
/// 93 with 32 locks, 6 with 128 and one with 2,000 (the maximum of a chunk) leave a tenth of it
/// free.
const GATES: i64 = 6;
/// Lowest key of a gate (a lock that limits how many transactions hold many locks): that of the
/// last gate. Gates have lower keys than all other locks, so they are taken first.
const LOWEST: i64 = SPACE - 1 - GATES;

/// Mode in which a transaction locks establishments until it ends. Each transaction takes these
/// locks first, in the order of their keys, so there is no deadlock. A transaction that shares a
/// lock never takes it exclusively afterwards, because two such transactions would wait for each
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Exclusive lock, for a transaction that writes products of the establishments.
    Exclusive,
    /// Shared lock, for a transaction that only prevents writes to the locked establishments.
    Shared,
}

impl LockMode {
    /// Returns the statement that takes the locks with the keys of [`numbers`], one by one. A gate
    /// (a lock that limits how many transactions hold many locks) is always taken exclusively.
    pub(crate) const fn statement(self) -> &'static str {
        match self {
            Self::Exclusive => "SELECT pg_advisory_xact_lock(lock) FROM unnest($1::bigint[]) AS l (lock)",
            Self::Shared => {
                "SELECT CASE WHEN lock < x'636e706a00000000'::bigint THEN pg_advisory_xact_lock(lock) \
                 ELSE pg_advisory_xact_lock_shared(lock) END FROM unnest($1::bigint[]) AS l (lock)"
            }
        }
    }
}

/// Returns the keys of the advisory locks of these establishments, in ascending order. If there are
/// more than [`MOST_WITHOUT_GATE`], the key of a gate comes first: a lock that limits how many
/// transactions hold many locks.
pub(crate) fn numbers(cnpjs: &[Cnpj]) -> Vec<i64> {
    let mut numbers: Vec<i64> = cnpjs.iter().map(stripe).collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() > MOST_BEHIND_GATE {
        numbers.insert(0, LOWEST);
    } else if numbers.len() > MOST_WITHOUT_GATE {
        let chosen = numbers.first().map_or(0, |first| first % GATES);
        numbers.insert(0, LOWEST + 1 + chosen);
    }
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
    fn a_transaction_of_many_establishments_passes_a_gate_first_and_holds_few_of_all_locks() {
        assert!(of(32).iter().all(|number| *number >= SPACE));
        for many in [33, 100, 128] {
            let numbers = of(many);
            assert!(numbers[0] > LOWEST && numbers[1] >= SPACE, "{many}");
        }
        for many in [150, 1000, 2000] {
            let numbers = of(many);
            assert!(numbers[0] == LOWEST && numbers[1] >= SPACE, "{many}");
            assert!(numbers.len() <= usize::from(STRIPES) / 8, "{many}");
        }
    }

    #[test]
    fn catalogues_of_some_establishments_pass_different_gates() {
        let gate = |first: u64| {
            let cnpjs = (first..first + 100).map(|number| Cnpj::from_base(&format!("{number:012}")).unwrap());
            numbers(&cnpjs.collect::<Vec<_>>())[0]
        };
        let gates: std::collections::BTreeSet<i64> = (1..50).map(|catalogue| gate(catalogue * 100)).collect();
        assert_eq!(i64::try_from(gates.len()).unwrap(), GATES);
        assert!(gates.iter().all(|gate| (LOWEST + 1..SPACE).contains(gate)));
    }
}
