//! What the end of a full load with many establishments costs, and what it leaves if it is cut off.

use std::time::Duration;

use catalog::{Database, WriteOutcome};
use ingestion::batch::{BatchStatus, ReplayScope};
use ingestion::product::{Attributes, MemberSet, Product, ProductKey};
use ingestion::{Cnpj, Viewer};
use serde_json::{Value, json};

use crate::replay::{again, begin, confirm};
use crate::support::{Load, TestDatabase, cnpj, collated_test, database_test};

async fn shown(test: &TestDatabase, load: &Load) -> Value {
    let metadata = &load.batch.metadata;
    let view =
        test.open().batch(&Viewer::whole(metadata.tenant_id), metadata.batch_id).await.unwrap().unwrap();
    serde_json::to_value(view).unwrap()
}

fn product(establishment: u32, id: &str) -> Product<'static> {
    let key = ProductKey { cnpj: cnpj(establishment), shop_id: 1, product_id: id.to_owned() };
    Product { key, attributes: Attributes::default(), members: MemberSet::default() }
}

/// Adds one product of each of so many establishments, a thousand a chunk.
fn one_each(mut load: Load, establishments: u32, id: &str) -> Load {
    let all: Vec<u32> = (0..establishments).collect();
    for some in all.chunks(1000) {
        load = load.products(some.iter().map(|establishment| product(*establishment, id)));
    }
    load
}

/// Notes each statement that updates products or decides about establishments, with the locks that
/// its transaction holds, and whether a gate is one of them.
const STEPS: &str = "CREATE TABLE steps (step xid8, what text, locks bigint, gate boolean); \
     CREATE FUNCTION note_step() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO steps \
         SELECT pg_current_xact_id(), TG_TABLE_NAME, count(*), \
             COALESCE(bool_or(classid = x''636e7069''::bigint::oid), false) FROM pg_locks \
         WHERE pid = pg_backend_pid() AND locktype = ''advisory''; RETURN NULL; END'; \
     CREATE TRIGGER note_step AFTER UPDATE ON products FOR EACH STATEMENT EXECUTE FUNCTION note_step(); \
     CREATE TRIGGER note_step AFTER UPDATE ON batch_cnpjs FOR EACH STATEMENT EXECUTE FUNCTION note_step()";

/// Writes all chunks of a load but the last, so that the next call ends it.
async fn all_but_the_end(database: &Database, load: &Load) {
    load.prepare(database).await;
    let (_, others) = load.chunks.split_last().unwrap();
    for chunk in others {
        database.write_chunk(chunk).await.unwrap();
    }
}

#[test]
fn the_end_of_a_full_load_goes_on_in_slices_whose_number_is_linear_in_its_establishments() {
    let mut steps = Vec::new();
    for establishments in [512, 2048] {
        database_test(async |test| {
            let database = test.open();
            one_each(Load::full(1), establishments, "old").run(&database).await;
            let load = one_each(Load::full(2), establishments, "new");
            all_but_the_end(&database, &load).await;
            test.execute(STEPS).await;
            let written = database.write_chunk(load.chunks.last().unwrap()).await.unwrap();
            assert!(
                matches!(written, WriteOutcome::Done { batch: BatchStatus::Completed, .. }),
                "{written:?}"
            );
            assert_eq!(shown(test, &load).await["changes"]["deactivated"], establishments);
            assert_eq!(test.products().await.1.len(), usize::try_from(establishments).unwrap());
            let slices = test.number("SELECT count(DISTINCT step) FROM steps").await;
            // One statement deactivates, and one decides.
            assert_eq!(test.number("SELECT count(*) FROM steps").await, 2 * slices);
            let most = test.number("SELECT max(locks) FROM steps").await;
            assert!(most <= 32, "{most} locks at once");
            assert_eq!(test.number("SELECT count(*) FROM steps WHERE gate").await, 0);
            steps.push(slices);
        });
    }
    assert_eq!(steps, [16, 64]);
}

#[test]
fn an_end_that_is_cut_off_between_two_slices_is_taken_up_where_it_stopped() {
    database_test(async |test| {
        let database = test.open();
        one_each(Load::full(1), 600, "old").run(&database).await;
        let load = one_each(Load::full(2), 600, "new");
        test.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN \
                 IF (SELECT count(*) FROM batch_cnpjs WHERE deactivation = ''done'') > 900 \
                 THEN RAISE ''no''; END IF; RETURN NULL; END'; \
             CREATE TRIGGER no_end AFTER UPDATE ON batch_cnpjs FOR EACH STATEMENT EXECUTE FUNCTION fail()",
        )
        .await;
        load.prepare(&database).await;
        database.write_chunk(&load.chunks[0]).await.unwrap_err();
        let view = shown(test, &load).await;
        assert_eq!(
            (&view["status"], &view["deactivation"]["state"]),
            (&json!("PROCESSING"), &json!("pending"))
        );
        assert_eq!(test.products().await.1.len(), 288);
        // What is decided holds: an earlier batch that comes late brings it back no more, and what
        // is not decided yet it does.
        let late = Load::delta(1).products([product(0, "old"), product(599, "old")]);
        late.run(&database).await;
        assert_eq!(test.products().await.1.len(), 288);
        test.execute("DROP FUNCTION fail CASCADE").await;
        let end = database.finalize(load.id()).await.unwrap();
        assert_eq!((end.status, end.became_final), (BatchStatus::Completed, true));
        assert_eq!(test.products().await.1.len(), 600);
        assert_eq!(shown(test, &load).await["changes"]["deactivated"], 600);
    });
}

#[test]
fn the_guard_looks_at_every_establishment_before_the_first_is_decided() {
    database_test(async |test| {
        let database = test.open();
        let last = 399;
        let many = (0..150).map(|number| product(last, &format!("p{number:03}")));
        one_each(Load::full(1), 400, "old").products(many).run(&database).await;
        let load = one_each(Load::full(2), 400, "new");
        load.run(&database).await;
        let held = json!({"state": "held", "would_deactivate": 550, "reason": null});
        assert_eq!(shown(test, &load).await["deactivation"], held);
        assert_eq!(test.products().await.1.len(), 0);
        assert_eq!(test.number("SELECT count(*) FROM batch_cnpjs WHERE deactivation = 'done'").await, 400);
    });
}

#[test]
fn the_guard_is_asked_again_about_products_that_came_after_it_looked() {
    database_test(async |test| {
        let database = test.open();
        let last = 39;
        let many = |ids: std::ops::Range<u32>| ids.map(move |id| product(last, &format!("p{id:03}")));
        one_each(Load::full(1), 40, "old").products(many(0..150)).run(&database).await;
        let load = one_each(Load::full(3), 40, "new").products(many(0..150).skip(10));
        test.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END'; \
             CREATE TRIGGER no_decision BEFORE UPDATE ON batch_cnpjs EXECUTE FUNCTION fail()",
        )
        .await;
        all_but_the_end(&database, &load).await;
        database.write_chunk(load.chunks.last().unwrap()).await.unwrap_err();
        assert_eq!(
            test.number("SELECT deactivated_so_far FROM batches ORDER BY received_at DESC LIMIT 1").await,
            0
        );
        // The guard let it pass. Now a batch comes that was received before the load.
        Load::delta(2).products(many(200..500)).run(&database).await;
        test.execute("DROP FUNCTION fail CASCADE").await;
        let end = database.finalize(load.id()).await.unwrap();
        assert_eq!((end.status, end.became_final), (BatchStatus::Completed, true));
        let view = shown(test, &load).await;
        let held = json!({"state": "held", "would_deactivate": 318, "reason": null});
        assert_eq!((&view["deactivation"], &view["changes"]["deactivated"]), (&held, &json!(32)));
        confirm(&database, &load, ReplayScope::Failed, true).await;
        assert_eq!(database.finalize(load.id()).await.unwrap().status, BatchStatus::Completed);
        let view = shown(test, &load).await;
        assert_eq!(view["deactivation"]["state"], "done");
        assert_eq!(test.products().await.1.len(), 40 + 10 + 300);
    });
}

/// Writes a full load whose last chunk is written and whose end is missing. It lacks two products.
async fn without_its_end(test: &TestDatabase, database: &Database) -> Load {
    Load::full(1).keys([2, 4, 6]).run(database).await;
    let load = Load::full(2).keys([2]);
    load.prepare(database).await;
    test.execute(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END'; \
         CREATE TRIGGER no_end BEFORE UPDATE ON batch_cnpjs EXECUTE FUNCTION fail()",
    )
    .await;
    database.write_chunk(&load.chunks[0]).await.unwrap_err();
    test.execute("DROP FUNCTION fail CASCADE").await;
    load
}

#[test]
fn a_call_that_began_before_a_replay_decides_nothing_in_it() {
    database_test(async |test| {
        let database = test.open();
        let load = without_its_end(test, &database).await;
        // While it waits, a replay begins and its chunks are written.
        test.execute(&format!("BEGIN; UPDATE batches SET generation = 2 WHERE batch_id = '{}'", load.id()))
            .await;
        let (late, ()) = tokio::join!(database.finalize(load.id()), test.commit_once_others_wait(1));
        let late = late.unwrap();
        assert_eq!((late.status, late.became_final), (BatchStatus::Processing, false));
        assert_eq!(test.products().await.1.len(), 0);
        let end = database.finalize(load.id()).await.unwrap();
        assert_eq!((end.status, end.became_final), (BatchStatus::Completed, true));
        assert_eq!(test.products().await.1.len(), 2);
    });
}

#[test]
fn two_that_end_a_load_at_once_deactivate_once_and_report_it() {
    database_test(async |test| {
        let load = without_its_end(test, &test.open()).await;
        test.execute("BEGIN; SELECT FROM batches FOR UPDATE").await;
        let (one, two) = (test.open(), test.open());
        let release = test.commit_once_others_wait(2);
        let (first, second, ()) = tokio::join!(one.finalize(load.id()), two.finalize(load.id()), release);
        let ended = [first.unwrap(), second.unwrap()];
        assert_eq!(ended.iter().filter(|end| end.became_final).count(), 1, "{ended:?}");
        assert!(ended.iter().all(|end| end.status == BatchStatus::Completed), "{ended:?}");
        assert_eq!(shown(test, &load).await["changes"]["deactivated"], 2);
    });
}

/// Adds so many chunks to a batch that was received later.
pub(crate) async fn many_later_chunks(test: &TestDatabase, later: Load, chunks: u32) {
    later.run(&test.open()).await;
    test.execute(&format!(
        "INSERT INTO batch_chunks (chunk_id, batch_id, generation, chunk_index, chunk_uri, first_cnpj, last_cnpj, items, \
             status, key_hashes, row_hashes) \
         SELECT gen_random_uuid(), batch_id, 1, i, chunk_uri, first_cnpj, last_cnpj, 0, 'DONE', key_hashes, row_hashes \
         FROM batch_chunks, generate_series(1, {chunks}) AS i WHERE batch_id = '{}'",
        later.id()
    ))
    .await;
}

#[test]
fn a_load_that_decided_asks_no_later_batch_when_it_is_replayed() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let load = Load::full(2).keys([2]);
        load.run(&database).await;
        many_later_chunks(test, Load::delta(100).keys([2]), 8192).await;
        let begun = begin(&database, &load, ReplayScope::All).await;
        database.write_chunk(&again(&load.chunks[0], begun.generation)).await.unwrap();
        let view = shown(test, &load).await;
        assert_eq!((&view["status"], &view["deactivation"]["state"]), (&json!("COMPLETED"), &json!("done")));
        assert_eq!(test.products().await.0.len(), 1);
    });
}

#[test]
fn a_load_after_which_too_much_has_come_decides_nothing_and_says_so() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let load = Load::full(2).keys([2]);
        load.prepare(&database).await;
        many_later_chunks(test, Load::delta(100).keys([2]), 8192).await;
        database.write_chunk(&load.chunks[0]).await.unwrap();
        let skipped = json!({"state": "skipped", "would_deactivate": 0, "reason": "too_late"});
        let view = shown(test, &load).await;
        assert_eq!((&view["status"], &view["deactivation"]), (&json!("COMPLETED"), &skipped));
        assert_eq!(test.products().await.0.len(), 3);
    });
}

#[test]
fn a_load_that_could_not_decide_about_all_of_its_establishments_says_why() {
    for too_late in [true, false] {
        database_test(async |test| {
            let database = test.open();
            one_each(Load::full(1), 40, "old").run(&database).await;
            let load = one_each(Load::full(2), 40, "new");
            load.prepare(&database).await;
            let reason = if too_late {
                many_later_chunks(test, Load::delta(100).products([product(39, "more")]), 8192).await;
                "too_late"
            } else {
                Load::full(3).products([product(39, "old")]).run(&database).await;
                "later_full_load"
            };
            database.write_chunk(&load.chunks[0]).await.unwrap();
            let view = shown(test, &load).await;
            let done = json!({"state": "done", "would_deactivate": 0, "reason": reason});
            assert_eq!(view["deactivation"], done);
            let decided = if too_late { 32 } else { 39 };
            assert_eq!(view["changes"]["deactivated"], decided);
        });
    }
}

/// A load whose chunks have a product of each establishment.
fn interleaved(load: Load, establishments: u32, chunks: u32) -> Load {
    (0..chunks).fold(load, |load, chunk| {
        load.products((0..establishments).map(|establishment| product(establishment, &format!("p{chunk}"))))
    })
}

/// Lets the guard note as many slices of a judgement as are allowed, in all, and fails what would
/// be the next.
const ALLOWED_SLICES: &str = "CREATE TABLE judged (establishment text); CREATE TABLE allowed AS SELECT 0 AS slices; \
     CREATE FUNCTION allow_slice() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN \
         IF (SELECT count(*) FROM judged) >= (SELECT slices FROM allowed) THEN RAISE ''cut off''; END IF; \
         INSERT INTO judged VALUES (NEW.judged_to); RETURN NEW; END'; \
     CREATE TRIGGER allow_slice BEFORE UPDATE OF judged_to ON batches FOR EACH ROW WHEN (NEW.judged_to IS NOT NULL) \
         EXECUTE FUNCTION allow_slice()";

/// Blocks of chunks' hashes that were read so far, by connections that are closed now.
async fn hashes_read(test: &TestDatabase) -> i64 {
    let connected = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'integrahub'";
    while test.number(connected).await > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        test.execute("SELECT pg_stat_clear_snapshot()").await;
    }
    test.number(
        "SELECT toast_blks_hit + toast_blks_read FROM pg_statio_user_tables WHERE relname = 'batch_chunks'",
    )
    .await
}

/// Ends an interleaved load, with an end that is cut off after each slice of the judgement or
/// never. Gives the number of calls, and the blocks of hashes that they read.
async fn end_interleaved(test: &TestDatabase, establishments: u32, chunks: u32, cut_off: bool) -> (i64, i64) {
    let writer = test.open();
    one_each(Load::full(1), establishments, "old").run(&writer).await;
    let load = interleaved(Load::full(2), establishments, chunks);
    test.execute(ALLOWED_SLICES).await;
    all_but_the_end(&writer, &load).await;
    writer.write_chunk(load.chunks.last().unwrap()).await.unwrap_err();
    drop(writer);
    let before = hashes_read(test).await;
    let mut calls = 0;
    loop {
        let more = if cut_off { 1 } else { 1000 };
        test.execute(&format!("UPDATE allowed SET slices = slices + {more}")).await;
        calls += 1;
        if test.open().finalize(load.id()).await.is_ok() {
            break;
        }
        assert!(calls < 100, "the end does not come");
    }
    assert_eq!(shown(test, &load).await["changes"]["deactivated"], establishments);
    let slices = i64::from(establishments.div_ceil(512));
    assert_eq!(test.number("SELECT count(*) FROM judged").await, slices, "each slice is judged once");
    assert_eq!(test.number("SELECT count(DISTINCT establishment) FROM judged").await, slices);
    (calls, hashes_read(test).await - before)
}

#[test]
fn a_judgement_goes_on_where_it_was_cut_off_and_a_call_reads_the_hashes_of_each_chunk_once() {
    for cut_off in [false, true] {
        let mut per_item = Vec::new();
        for (establishments, chunks) in [(480, 2), (1920, 8)] {
            database_test(async |test| {
                let (calls, blocks) = end_interleaved(test, establishments, chunks, cut_off).await;
                assert_eq!(calls, if cut_off { i64::from(establishments.div_ceil(512)) } else { 1 });
                let items = f64::from(establishments * chunks);
                per_item.push(f64::from(u32::try_from(blocks / calls).unwrap()) / items);
            });
        }
        let [few, many]: [f64; 2] = per_item.try_into().unwrap();
        let (least, most) = (few.min(many), few.max(many));
        // A block has 250 hashes, and as much again is read of the index that leads there.
        assert!(least > 0.0 && most < 1.6 * least && most < 0.05, "{few}, {many}, cut off: {cut_off}");
    }
}

#[test]
fn slices_and_decisions_follow_the_order_of_bytes_whatever_the_database_s_collation() {
    // Digits are numbers, so 2A comes before 10: another order than that of bytes.
    collated_test("LOCALE_PROVIDER icu ICU_LOCALE 'en-u-kn-true'", async |test| {
        let order = test
            .rows("SELECT string_agg(c, ' ' ORDER BY c) AS c FROM (VALUES ('10'), ('2A')) AS t (c)")
            .await;
        assert_eq!(order[0].get::<_, &str>("c"), "2A 10", "the order is that of bytes");
        let establishment = |number: u32| {
            let prefix = if number.is_multiple_of(3) { "10" } else { "2A" };
            Cnpj::from_base(&format!("{prefix}{number:010}")).unwrap()
        };
        let of_each = |id: &'static str| {
            (0..600).map(move |number| {
                let key = ProductKey { cnpj: establishment(number), shop_id: 1, product_id: id.to_owned() };
                Product { key, attributes: Attributes::default(), members: MemberSet::default() }
            })
        };
        let database = test.open();
        Load::full(1).products(of_each("old")).run(&database).await;
        let load = Load::full(2).products(of_each("new"));
        load.prepare(&database).await;
        // A later load decides about every second.
        let later = Load::full(3).products(of_each("old").step_by(2));
        later.run(&database).await;
        let written = database.write_chunk(&load.chunks[0]).await.unwrap();
        assert!(matches!(written, WriteOutcome::Done { batch: BatchStatus::Completed, .. }), "{written:?}");
        let decided = test
            .rows(
                "SELECT deactivation, count(*) AS cnpjs FROM batch_cnpjs b \
             WHERE batch_id = (SELECT batch_id FROM batches ORDER BY received_at OFFSET 1 LIMIT 1) \
             GROUP BY deactivation ORDER BY deactivation",
            )
            .await;
        let decided: Vec<(String, i64)> = decided.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(decided, [("done".to_owned(), 300), ("skipped".to_owned(), 300)]);
        let view = shown(test, &load).await;
        assert_eq!(
            (&view["changes"]["deactivated"], &view["deactivation"]["reason"]),
            (&json!(300), &json!("later_full_load"))
        );
    });
}
