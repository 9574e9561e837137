use attempt::Retryable as _;
use catalog::{DatabaseError, WriteOutcome};
use ingestion::batch::{BatchStatus, Changes};

use crate::support::{Item, Load, database_test, product};

async fn changes(database: &catalog::Database, load: &Load, index: usize) -> Changes {
    match database.write_chunk(&load.chunks[index]).await.unwrap() {
        WriteOutcome::Done { result, .. } => result.changes(),
        other => panic!("{other:?}"),
    }
}

const fn counts(inserted: u64, updated: u64, unchanged: u64, stale: u64) -> Changes {
    Changes { inserted, updated, unchanged, stale }
}

const fn dated(key: u32, content: u32, updated_at: i64) -> Item {
    Item { key, content, updated_at: Some(updated_at) }
}

#[test]
fn a_row_that_somebody_else_keeps_from_being_written_is_looked_up_again() {
    database_test(async |test| {
        let database = test.open();
        Load::delta(100).items(&[Item::of(1, 1), Item::of(3, 1)]).run(&database).await;
        // Of an operator's statement beside the chunk this is all that can be seen: a row is not at
        // its place any more.
        test.execute(
            "CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
             CREATE TRIGGER leave BEFORE UPDATE ON products FOR EACH ROW WHEN (OLD.productid = 'p0003') EXECUTE FUNCTION leave()",
        )
        .await;
        let load = Load::delta(200).items(&[Item::of(1, 2), Item::of(3, 2)]);
        load.prepare(&database).await;
        let error = database.write_chunk(&load.chunks[0]).await.unwrap_err();
        assert!(matches!(error, DatabaseError::Moved) && error.retry().is_transient(), "{error:?}");
        assert_eq!(test.number("SELECT count(*) FROM products WHERE title = 'Dipirona 1'").await, 2);
        test.execute("DROP TRIGGER leave ON products").await;
        assert_eq!(changes(&database, &load, 0).await, counts(0, 2, 0, 0));
    });
}

#[test]
fn each_row_is_counted_once_by_what_became_of_it() {
    database_test(async |test| {
        let database = test.open();
        let first = Load::delta(100).items(&[dated(1, 1, 10), dated(2, 1, 10), dated(3, 1, 10)]);
        first.prepare(&database).await;
        assert_eq!(changes(&database, &first, 0).await, counts(3, 0, 0, 0));
        // One the same, one newer, one older, one new, and of two with one key the last.
        let second = Load::delta(200).items(&[
            dated(1, 1, 10),
            dated(2, 2, 20),
            dated(3, 2, 5),
            dated(4, 1, 10),
            dated(4, 2, 10),
        ]);
        second.prepare(&database).await;
        assert_eq!(changes(&database, &second, 0).await, counts(1, 1, 1, 2));
        let titles = test.rows("SELECT title FROM products ORDER BY productid").await;
        let titles: Vec<&str> = titles.iter().map(|row| row.get(0)).collect();
        assert_eq!(titles, ["Dipirona 1", "Dipirona 2", "Dipirona 1", "Dipirona 2"]);
    });
}

#[test]
fn a_chunk_that_is_delivered_again_is_acknowledged_without_work() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::full(100).keys(0..10).keys(10..20);
        assert_eq!(load.run(&database).await, BatchStatus::Completed);
        let state = "SELECT sum(hashtext(p::text || p.xmin::text || b::text)) FROM products p, batches b";
        let before = test.number(state).await;
        for chunk in &load.chunks {
            let again = database.write_chunk(chunk).await.unwrap();
            let done = WriteOutcome::AlreadyDone { batch: BatchStatus::Completed, became_final: false };
            assert_eq!(again, done);
        }
        assert_eq!(test.number(state).await, before);
    });
}

#[test]
fn a_chunk_of_an_earlier_generation_is_acknowledged_without_work() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(100).keys(0..3);
        load.prepare(&database).await;
        test.execute("UPDATE batches SET generation = 2; UPDATE batch_chunks SET generation = 2").await;
        assert_eq!(database.write_chunk(&load.chunks[0]).await.unwrap(), WriteOutcome::Superseded);
        test.execute("DELETE FROM batch_chunks").await;
        assert_eq!(database.write_chunk(&load.chunks[0]).await.unwrap(), WriteOutcome::Superseded);
        assert_eq!(test.number("SELECT count(*) FROM products").await, 0);
    });
}

#[test]
fn a_chunk_that_nobody_sealed_is_refused() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(100).keys(0..3);
        let error = database.write_chunk(&load.chunks[0]).await.unwrap_err();
        assert!(matches!(error, DatabaseError::UnknownBatch(id) if id == load.id()), "{error:?}");
        database.begin_chunking(&load.batch, ingestion::chunk::Plan::default()).await.unwrap();
        let error = database.write_chunk(&load.chunks[0]).await.unwrap_err();
        assert!(
            matches!(error, DatabaseError::UnknownChunk { index: 0, .. }) && !error.retry().is_transient()
        );
    });
}

#[test]
fn an_earlier_version_that_comes_late_does_not_roll_back_what_was_confirmed() {
    database_test(async |test| {
        let database = test.open();
        // The first and the third say the same, so the third leaves no trace in the row.
        for load in [Load::delta(100), Load::delta(300)] {
            load.items(&[Item::of(1, 1)]).run(&database).await;
        }
        let late = Load::delta(200).items(&[Item::of(1, 2)]);
        late.prepare(&database).await;
        assert_eq!(changes(&database, &late, 0).await, counts(0, 0, 0, 1));
        let title = &test.rows("SELECT title FROM products").await[0];
        assert_eq!(title.get::<_, &str>(0), "Dipirona 1");
    });
}

#[test]
fn of_versions_that_the_source_dates_alike_the_one_received_last_wins_though_another_comes_late() {
    database_test(async |test| {
        let database = test.open();
        for load in [Load::delta(100), Load::delta(300)] {
            load.items(&[dated(1, 1, 50)]).run(&database).await;
        }
        let late = Load::delta(200).items(&[dated(1, 2, 50)]);
        late.prepare(&database).await;
        assert_eq!(changes(&database, &late, 0).await, counts(0, 0, 0, 1));
        let last = Load::delta(400).items(&[dated(1, 2, 50)]);
        last.prepare(&database).await;
        assert_eq!(changes(&database, &last, 0).await, counts(0, 1, 0, 0));
    });
}

#[test]
fn a_source_that_dates_its_change_before_the_last_confirmation_loses_to_it() {
    database_test(async |test| {
        let database = test.open();
        for load in [Load::delta(100), Load::delta(300)] {
            load.items(&[Item::of(1, 1)]).run(&database).await;
        }
        // Received last, but from before the confirmation.
        let last = Load::delta(400).items(&[dated(1, 2, 200)]);
        last.prepare(&database).await;
        assert_eq!(changes(&database, &last, 0).await, counts(0, 0, 0, 1));
        let newer = Load::delta(500).items(&[dated(1, 3, 350)]);
        newer.prepare(&database).await;
        assert_eq!(changes(&database, &newer, 0).await, counts(0, 1, 0, 0));
    });
}

#[test]
fn a_clock_that_was_ahead_is_believed_once_its_time_has_come() {
    database_test(async |test| {
        let database = test.open();
        // From the future as of its receipt, so that only the receipt counts; confirmed when that
        // future has begun.
        Load::delta(100).items(&[dated(1, 1, 150)]).run(&database).await;
        let load = Load::delta(200).items(&[dated(1, 1, 150)]).items(&[dated(1, 2, 120)]);
        load.prepare(&database).await;
        assert_eq!(changes(&database, &load, 0).await, counts(0, 0, 1, 0));
        assert_eq!(changes(&database, &load, 1).await, counts(0, 0, 0, 1));
    });
}

#[test]
fn of_duplicates_in_several_chunks_the_last_wins_in_any_order() {
    database_test(async |test| {
        let database = test.open();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            test.execute("TRUNCATE products, batches CASCADE").await;
            // The first batch's row says what the last item says, which then writes nothing.
            Load::delta(100).items(&[Item::of(1, 3)]).run(&database).await;
            let load =
                Load::delta(200).items(&[Item::of(1, 1)]).items(&[Item::of(1, 2)]).items(&[Item::of(1, 3)]);
            load.prepare(&database).await;
            for index in order {
                database.write_chunk(&load.chunks[index]).await.unwrap();
            }
            let title = &test.rows("SELECT title FROM products").await[0];
            assert_eq!(title.get::<_, &str>(0), "Dipirona 3", "{order:?}");
        }
    });
}

#[test]
fn overlapping_chunks_at_once_meet_no_deadlock_and_end_the_same() {
    database_test(async |test| {
        let mut ends = Vec::new();
        for reversed in [false, true] {
            test.execute("TRUNCATE products, batches CASCADE").await;
            let setup = test.open();
            // Eight batches of the same 400 products, each with another content.
            let loads: Vec<Load> = (0..8_u32)
                .map(|number| {
                    let item = |key| Item::of(key, number * 7 % 8);
                    let half = |keys: std::ops::Range<u32>| keys.map(item).map(product).collect::<Vec<_>>();
                    Load::delta(i64::from(number)).products(half(0..300)).products(half(100..400))
                })
                .collect();
            for load in &loads {
                load.prepare(&setup).await;
            }
            let mut tasks = tokio::task::JoinSet::new();
            let order: Vec<Load> = if reversed { loads.into_iter().rev().collect() } else { loads };
            for load in order {
                let database = test.open();
                tasks.spawn(async move {
                    for chunk in &load.chunks {
                        database.write_chunk(chunk).await.unwrap();
                    }
                });
            }
            tasks.join_all().await;
            assert_eq!(test.number("SELECT count(*) FROM batches WHERE status = 'COMPLETED'").await, 8);
            ends.push(test.number("SELECT sum(hashtext(productid || title)) FROM products").await);
            assert_eq!(test.number("SELECT count(*) FROM products WHERE title = 'Dipirona 1'").await, 400);
        }
        assert_eq!(ends[0], ends[1]);
    });
}

#[test]
fn a_late_version_is_stale_by_the_row_alone_where_no_chunk_has_hashes() {
    database_test(async |test| {
        let database = test.open();
        for (earlier, later) in [(Item::of(1, 1), Item::of(1, 2)), (dated(2, 1, 5), dated(2, 2, 8))] {
            Load::delta(20).items(&[later]).run(&database).await;
            test.execute("UPDATE batch_chunks SET key_hashes = NULL, row_hashes = NULL").await;
            let late = Load::delta(10).items(&[earlier]);
            late.prepare(&database).await;
            assert_eq!(changes(&database, &late, 0).await, counts(0, 0, 0, 1));
        }
        assert_eq!(test.number("SELECT count(*) FROM products WHERE title = 'Dipirona 2'").await, 2);
    });
}
