use ingestion::Viewer;
use std::time::Duration;

use attempt::Retryable as _;
use catalog::{Database, DatabaseConfig, DatabaseError};
use nix::sys::signal::Signal;
use test_support::postgres::Cluster;

use crate::support::{Item, Load, TestDatabase, config, database_test};

/// Checks that the futures of [`Database`]'s functions are `Send`, since the Lambda functions run
/// on a runtime with several threads.
#[test]
fn calls_can_be_moved_between_threads() {
    fn sendable(_: &(impl Send + ?Sized)) {}
    let database = Database::new(DatabaseConfig::from_url("postgres://u:p@127.0.0.1/x").unwrap());
    let load = Load::delta(0).keys(0..2);
    sendable(&database.write_chunk(&load.chunks[0]));
    sendable(&database.finalize(load.id()));
    sendable(&database.migrate());
    sendable(&database.batch(&Viewer::whole(load.id()), load.id()));
}

#[test]
fn a_connection_that_was_cut_between_calls_is_made_again() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..4).keys(4..8);
        load.prepare(&database).await;
        database.write_chunk(&load.chunks[0]).await.unwrap();
        let cut = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity \
             WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()";
        assert_eq!(test.number(cut).await, 1);
        database.write_chunk(&load.chunks[1]).await.unwrap();
        assert_eq!(test.number("SELECT count(*) FROM products").await, 8);
    });
}

#[tokio::test]
async fn a_server_that_was_restarted_is_found_again() {
    let cluster = Cluster::start(&[]).await;
    let test = TestDatabase::create(&config(&cluster), None, "").await;
    let database = test.open();
    database.migrate().await.unwrap();
    let load = Load::delta(0).keys(0..4).keys(4..8);
    load.prepare(&database).await;
    database.write_chunk(&load.chunks[0]).await.unwrap();
    cluster.restart().await;
    database.write_chunk(&load.chunks[1]).await.unwrap();
    cluster.stop(Signal::SIGQUIT);
    let error = database.write_chunk(&load.chunks[1]).await.unwrap_err();
    assert!(error.retry().is_transient(), "{error:?}");
}

#[test]
fn a_call_that_runs_out_of_time_leaves_nothing_behind() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..4);
        load.prepare(&database).await;
        // Somebody else holds the table, so the transaction is stuck in its middle.
        test.execute("BEGIN; LOCK TABLE products IN ACCESS EXCLUSIVE MODE").await;
        let hurried = test.open().with_budget(Duration::from_millis(500));
        let error = hurried.write_chunk(&load.chunks[0]).await.unwrap_err();
        assert!(matches!(error, DatabaseError::TimedOut) && error.retry().is_transient(), "{error:?}");
        test.execute("COMMIT").await;
        database.write_chunk(&load.chunks[0]).await.unwrap();
        assert_eq!(test.number("SELECT count(*) FROM products").await, 4);
        hurried.ping().await.unwrap();
    });
}

#[test]
fn a_call_that_is_dropped_takes_its_transaction_with_it() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).items(&[Item::of(1, 1)]);
        load.prepare(&database).await;
        test.execute("BEGIN; LOCK TABLE products IN ACCESS EXCLUSIVE MODE").await;
        let write = database.write_chunk(&load.chunks[0]);
        tokio::time::timeout(Duration::from_millis(300), write).await.unwrap_err();
        test.execute("COMMIT").await;
        assert_eq!(test.number("SELECT count(*) FROM products").await, 0);
        database.write_chunk(&load.chunks[0]).await.unwrap();
        assert_eq!(test.number("SELECT count(*) FROM products").await, 1);
    });
}
