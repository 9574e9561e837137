use std::time::Duration;

use attempt::{Retry, Retryable as _};
use catalog::{DatabaseError, WriteOutcome};
use ingestion::batch::Changes;

use crate::support::{Item, Load, database_test};

/// Query that takes the advisory locks of all establishments with products, in shared mode. A
/// lock's key has "cnpj" as ASCII in the upper half, and one of 16,384 numbers in the lower.
const SHARE_ALL: &str = "SELECT count(pg_advisory_xact_lock_shared(x'636e706a00000000'::bigint \
         + (get_byte(hash, 0) * 256 + get_byte(hash, 1)) % 16384)) \
     FROM (SELECT DISTINCT sha256(cnpj::text::bytea) AS hash FROM products) AS p";

fn changes(written: WriteOutcome) -> Changes {
    match written {
        WriteOutcome::Done { result, .. } => result.changes(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn chunks_that_change_nothing_go_on_beside_each_other_and_wait_for_those_that_do() {
    database_test(async |test| {
        let database = test.open().with_budget(Duration::from_secs(3));
        Load::delta(0).keys(0..30).run(&database).await;
        let again =
            Load::delta(100).keys(0..10).keys(10..20).keys(20..22).items(&[Item::of(22, 1), Item::of(23, 0)]);
        again.prepare(&database).await;
        let write = async |chunk: usize| database.write_chunk(&again.chunks[chunk]).await;
        let unchanged = |unchanged| Changes { unchanged, ..Changes::default() };
        // The first one cannot know.
        assert_eq!(changes(write(0).await.unwrap()), unchanged(10));

        // Somebody else reads all establishments' products.
        test.execute("BEGIN").await;
        assert_eq!(test.number(SHARE_ALL).await, 2);
        assert_eq!(changes(write(1).await.unwrap()), unchanged(10));
        test.execute("COMMIT").await;

        // Somebody else writes them.
        test.execute("BEGIN").await;
        assert_eq!(test.number(&SHARE_ALL.replace("_shared", "")).await, 2);
        let error = write(2).await.unwrap_err();
        assert!(matches!(error, DatabaseError::TimedOut), "{error:?}");
        test.execute("COMMIT").await;
        assert_eq!(changes(write(2).await.unwrap()), unchanged(2));

        // What changes something waits for those who read.
        test.execute("BEGIN").await;
        assert_eq!(test.number(SHARE_ALL).await, 2);
        let error = write(3).await.unwrap_err();
        assert!(matches!(error, DatabaseError::TimedOut), "{error:?}");
        assert_eq!(test.number("SELECT count(*) FROM products WHERE title <> 'Dipirona 0'").await, 0);
        test.execute("COMMIT").await;
        let changed = Changes { updated: 1, unchanged: 1, ..Changes::default() };
        assert_eq!(changes(write(3).await.unwrap()), changed);
    });
}

#[test]
fn of_two_deliveries_of_a_chunk_that_changes_nothing_one_does_the_work() {
    database_test(async |test| {
        let (one, two) = (test.open(), test.open());
        Load::delta(0).keys(0..10).run(&one).await;
        let again = Load::delta(1).keys(0..5).keys(0..5).keys(0..10);
        again.prepare(&one).await;
        // Each connection has met a chunk that changes nothing, so both share the locks from now
        // on.
        one.write_chunk(&again.chunks[0]).await.unwrap();
        two.write_chunk(&again.chunks[1]).await.unwrap();
        // Both have looked at the chunk's state before either can note that it is done.
        test.execute(&format!(
            "BEGIN; SELECT FROM batch_chunks WHERE batch_id = '{}' AND chunk_index = 2 FOR UPDATE",
            again.id()
        ))
        .await;
        let deliver =
            async |database: &catalog::Database| database.write_chunk(&again.chunks[2]).await.unwrap();
        let release = test.commit_once_others_wait(2);
        let (first, second, ()) = tokio::join!(deliver(&one), deliver(&two), release);
        let done =
            [first, second].iter().filter(|written| matches!(written, WriteOutcome::Done { .. })).count();
        assert_eq!(done, 1, "{first:?} {second:?}");
        assert_eq!(test.number("SELECT max(attempts)::bigint FROM batch_chunks").await, 1);
    });
}

#[test]
fn a_change_is_written_where_none_was_expected() {
    database_test(async |test| {
        let database = test.open();
        Load::delta(0).keys(0..20).run(&database).await;
        let items: Vec<Item> = (10..30).map(|key| Item::of(key, u32::from(key == 15))).collect();
        let again = Load::delta(100).keys(0..10).items(&items);
        again.prepare(&database).await;
        let mut all = Vec::new();
        for chunk in &again.chunks {
            all.push(changes(database.write_chunk(chunk).await.unwrap()));
        }
        let expected = [
            Changes { unchanged: 10, ..Changes::default() },
            Changes { inserted: 10, updated: 1, unchanged: 9, stale: 0 },
        ];
        assert_eq!(all, expected);
        assert_eq!(test.number("SELECT count(*) FROM batch_chunks WHERE attempts > 1").await, 0);
    });
}

/// Query for the keys of the advisory locks of all establishments with products, in the order in
/// which the crate takes them.
const STRIPES: &str = "SELECT x'636e706a00000000'::bigint + (get_byte(hash, 0) * 256 + get_byte(hash, 1)) % 16384 AS stripe \
     FROM (SELECT DISTINCT sha256(cnpj::text::bytea) AS hash FROM products) AS p ORDER BY stripe";

#[test]
fn a_chunk_that_waited_for_others_in_vain_says_so() {
    // Each lock may take long, and so may all of them together.
    for release_the_first in [false, true] {
        database_test(async |test| {
            let database = test.open();
            Load::delta(0).keys(0..2).run(&database).await;
            let next = Load::delta(1).keys(0..4);
            next.prepare(&database).await;
            test.execute(&format!("SELECT pg_advisory_lock(stripe) FROM ({STRIPES}) AS s")).await;
            let release = async {
                if release_the_first {
                    tokio::time::sleep(Duration::from_secs(9)).await;
                    let first = test.number(&format!("{STRIPES} LIMIT 1")).await;
                    test.execute(&format!("SELECT pg_advisory_unlock({first})")).await;
                }
            };
            let (written, ()) = tokio::join!(database.write_chunk(&next.chunks[0]), release);
            let error = written.unwrap_err();
            assert!(matches!(error, DatabaseError::Contended(_)), "{error:?}");
            assert!(error.retry() == Retry::Contended && !error.is_away());
            test.execute("SELECT pg_advisory_unlock_all()").await;
            assert_eq!(changes(database.write_chunk(&next.chunks[0]).await.unwrap()).inserted, 2);
        });
    }
}
