//! Tests of the check before a full load deactivates products, the guard against mass deactivation.
//! It works in groups of establishments (slices), and goes on where it was cut off.

use std::time::Duration;

use catalog::WriteOutcome;
use ingestion::Cnpj;
use ingestion::batch::BatchStatus;
use ingestion::product::{Attributes, MemberSet, Product, ProductKey};
use serde_json::json;

use super::{all_but_the_end, one_each, product, shown};
use crate::support::{Load, TestDatabase, collated_test, database_test};

/// Adds `chunks` chunks to a load. Each has one product of each of the first `establishments`
/// establishments.
fn interleaved(load: Load, establishments: u32, chunks: u32) -> Load {
    (0..chunks).fold(load, |load, chunk| {
        load.products((0..establishments).map(|establishment| product(establishment, &format!("p{chunk}"))))
    })
}

/// Tables `judged` and `allowed`, and a trigger that lets the guard against mass deactivation
/// record as many checked groups of establishments as `allowed` says. The next record fails, which
/// cuts the finalization off.
const ALLOWED_SLICES: &str = "CREATE TABLE judged (establishment text); CREATE TABLE allowed AS SELECT 0 AS slices; \
     CREATE FUNCTION allow_slice() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN \
         IF (SELECT count(*) FROM judged) >= (SELECT slices FROM allowed) THEN RAISE ''cut off''; END IF; \
         INSERT INTO judged VALUES (NEW.judged_to); RETURN NEW; END'; \
     CREATE TRIGGER allow_slice BEFORE UPDATE OF judged_to ON batches FOR EACH ROW WHEN (NEW.judged_to IS NOT NULL) \
         EXECUTE FUNCTION allow_slice()";

/// Returns the number of database pages (8 kB) with key and row hashes of chunks that PostgreSQL
/// has read so far. Waits until all connections of the crate are closed, since PostgreSQL counts
/// their reads only then.
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

/// Finalizes a full load of interleaved chunks: if `cut_off`, by calls that fail after each group
/// of establishments that the guard checks, otherwise by one call. Returns the number of calls, and
/// the number of database pages with hashes of chunks that they read.
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
