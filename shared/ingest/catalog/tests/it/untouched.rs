use catalog::WriteOutcome;
use test_support::postgres::Cluster;

use crate::support::{Item, Load, TestDatabase, config, product};

/// Checks that rows which a load does not change are neither moved nor written to the write-ahead
/// log. The test has its own PostgreSQL server, so that no other test writes to the same log.
#[tokio::test]
async fn unchanged_rows_are_neither_moved_nor_logged() {
    let cluster = Cluster::start(&["autovacuum=off"]).await;
    let test = TestDatabase::create(&config(&cluster), None, "").await;
    let database = test.open();
    database.migrate().await.unwrap();
    let whole = |key| {
        let mut product = product(Item::of(key, 1));
        product.attributes.description =
            Some("Comprimidos de uso adulto, caixa com vinte. ".repeat(10).into());
        product
    };
    let wal = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let rows = "SELECT sum(hashtext(xmin::text || ctid::text || updated_at::text)) FROM products";

    let first = Load::full(0).products((0..1000).map(whole));
    first.prepare(&database).await;
    let before = test.number(wal).await;
    database.write_chunk(&first.chunks[0]).await.unwrap();
    let fresh = test.number(wal).await - before;
    assert!(fresh > 500_000, "{fresh} bytes of WAL for 1000 new rows");

    for received_at in [1, 2, 3] {
        let again = Load::full(received_at).products((0..1000).map(whole));
        again.prepare(&database).await;
        let (state, before) = (test.number(rows).await, test.number(wal).await);
        let written = database.write_chunk(&again.chunks[0]).await.unwrap();
        let logged = test.number(wal).await - before;
        let WriteOutcome::Done { result, .. } = written else { panic!("{written:?}") };
        assert_eq!(result.changes().unchanged, 1000);
        assert_eq!(test.number(rows).await, state);
        // The chunk's hashes are 16 bytes an item; the rest is the chunk's row and its batch's.
        assert!(logged < 24_000, "{logged} bytes of WAL for 1000 unchanged rows");
    }
}
