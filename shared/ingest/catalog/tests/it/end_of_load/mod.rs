//! Tests of the finalization of full loads with many establishments: its cost, and its state if it
//! is cut off.

mod judgement;

use catalog::{Database, WriteOutcome};
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, ReplayScope};
use ingestion::product::{Attributes, MemberSet, Product, ProductKey};
use serde_json::{Value, json};

use crate::replay::{again, begin, confirm};
use crate::support::{Load, TestDatabase, cnpj, database_test};

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

/// Adds one product with this id for each of `establishments` establishments to a load, in chunks
/// of 1,000 products.
fn one_each(mut load: Load, establishments: u32, id: &str) -> Load {
    let all: Vec<u32> = (0..establishments).collect();
    for some in all.chunks(1000) {
        load = load.products(some.iter().map(|establishment| product(*establishment, id)));
    }
    load
}

/// Table `steps`, and triggers that add a row for each statement which updates products or decides
/// about establishments. The row has the number of advisory locks that the transaction holds, and
/// whether one of them is a gate, which limits how many transactions hold many locks.
const STEPS: &str = "CREATE TABLE steps (step xid8, what text, locks bigint, gate boolean); \
     CREATE FUNCTION note_step() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO steps \
         SELECT pg_current_xact_id(), TG_TABLE_NAME, count(*), \
             COALESCE(bool_or(classid = x''636e7069''::bigint::oid), false) FROM pg_locks \
         WHERE pid = pg_backend_pid() AND locktype = ''advisory''; RETURN NULL; END'; \
     CREATE TRIGGER note_step AFTER UPDATE ON products FOR EACH STATEMENT EXECUTE FUNCTION note_step(); \
     CREATE TRIGGER note_step AFTER UPDATE ON batch_cnpjs FOR EACH STATEMENT EXECUTE FUNCTION note_step()";

/// Records a load and writes all of its chunks but the last. Writing the last one would finalize
/// the load.
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

/// Writes the only chunk of a full load that lacks two earlier products, and makes the finalization
/// fail.
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

/// Writes the load `later`, and then adds `chunks` copies of its chunks to its batch by SQL.
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
