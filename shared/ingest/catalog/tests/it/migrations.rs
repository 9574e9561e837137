use attempt::Retryable as _;
use catalog::{Database, DatabaseError};
use test_support::postgres::Cluster;

use crate::support::{TestDatabase, config, database_test};

/// Returns the names of all migration files in order of their numbers, and the number of the last
/// one.
fn written() -> (Vec<String>, i32) {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap();
    let names = folder.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
    let number = |name: &str| name[1..].split_once("__").unwrap().0.parse::<i32>().unwrap();
    let mut names: Vec<String> = names.collect();
    names.sort_by_key(|name| number(name));
    let newest = number(names.last().unwrap());
    (names, newest)
}

/// Checks that migrations are numbered without a gap. Refinery refuses a migration whose number is
/// below the last one that a database has, so a gap must not be filled later.
#[test]
fn migrations_are_numbered_without_a_gap() {
    let (names, newest) = written();
    let numbers: Vec<String> = names.iter().map(|name| name.split_once("__").unwrap().0.to_owned()).collect();
    let expected: Vec<String> = (1..=newest).map(|number| format!("V{number}")).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn migrations_run_once_even_four_at_a_time() {
    database_test(async |test| {
        // The test's own run was the first of all; this is a database that nobody has migrated.
        test.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
        let [a, b, c, d] = [test.open(), test.open(), test.open(), test.open()];
        let runs = tokio::join!(a.migrate(), b.migrate(), c.migrate(), d.migrate());
        let runs = [runs.0.unwrap(), runs.1.unwrap(), runs.2.unwrap(), runs.3.unwrap()];
        let applied: Vec<_> = runs.iter().filter(|run| !run.applied.is_empty()).collect();
        assert_eq!(applied.len(), 1, "{runs:?}");
        let (names, newest) = written();
        assert_eq!(applied[0].applied, names);
        assert!(runs.iter().all(|run| run.version == newest), "{runs:?}");
        let again = test.open().migrate().await.unwrap();
        assert_eq!((again.applied, again.version), (Vec::new(), newest));
    });
}

#[test]
fn hashes_that_chunks_kept_before_are_shortened_and_stay_in_their_order() {
    database_test(async |test| {
        // As the first migration made it, with the chunks of one batch in each state that there
        // was.
        test.execute(
            "ALTER TABLE batch_chunks DROP COLUMN row_hashes, ADD COLUMN row_hashes bigint[]; \
             ALTER TABLE batch_chunks DROP CONSTRAINT batch_chunks_batch_id_fkey; \
             INSERT INTO batch_chunks (chunk_id, batch_id, generation, chunk_index, chunk_uri, first_cnpj, items, row_hashes) \
             SELECT gen_random_uuid(), '00000000-0000-0000-0000-000000000001', 1, i, 's3://b/k', '11222333000181', 2, h \
             FROM (VALUES (0, ARRAY[x'0102030405060708'::bigint, -1]), (1, ARRAY[]::bigint[]), (2, NULL)) AS c (i, h)",
        )
        .await;
        test.execute(include_str!("../../migrations/V5__narrow_rows.sql")).await;
        let hashes =
            "SELECT coalesce(encode(row_hashes, 'hex'), 'none') FROM batch_chunks ORDER BY chunk_index";
        let hashes: Vec<String> = test.rows(hashes).await.iter().map(|row| row.get(0)).collect();
        assert_eq!(hashes, ["0102030405ffffffffff", "", "none"]);
    });
}

#[test]
fn a_migration_that_was_changed_afterwards_is_refused() {
    database_test(async |test| {
        test.execute("UPDATE refinery_schema_history SET checksum = '1' WHERE version = 1").await;
        let error = test.open().migrate().await.unwrap_err();
        assert!(matches!(error, DatabaseError::Migration(_)), "{error:?}");
    });
}

#[test]
fn a_migration_that_fails_leaves_nothing_and_can_be_repeated() {
    database_test(async |test| {
        test.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE batch_chunks ()").await;
        test.open().migrate().await.unwrap_err();
        assert_eq!(test.number("SELECT count(*) FROM pg_tables WHERE tablename = 'batches'").await, 0);
        test.execute("DROP TABLE batch_chunks").await;
        assert_eq!(test.open().migrate().await.unwrap().version, written().1);
    });
}

#[tokio::test]
async fn a_server_that_is_away_is_unavailable() {
    let cluster = Cluster::start(&[]).await;
    let database = TestDatabase::create(&config(&cluster), None, "").await;
    cluster.stop(nix::sys::signal::Signal::SIGQUIT);
    let error = Database::new(database.config()).migrate().await.unwrap_err();
    assert!(error.retry().is_transient(), "{error:?}");
}
