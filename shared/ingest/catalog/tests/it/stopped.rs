use std::time::Duration;

use catalog::{Database, StallThresholds};
use ingestion::batch::BatchStatus;
use ingestion::chunk::{Generation, Plan};
use uuid::Uuid;

use crate::support::{Load, TestDatabase, database_test};

const HOUR: u64 = 3600;
/// Thresholds for stalled batches in these tests: stalled after half an hour without progress, and
/// given up after a day.
const THRESHOLDS: StallThresholds = StallThresholds {
    stopped_for: Duration::from_secs(HOUR / 2),
    given_up_after: Duration::from_secs(24 * HOUR),
};

const NONE: [Uuid; 0] = [];

/// Moves the times in a batch's row back by this number of minutes, as if they had passed.
async fn age(test: &TestDatabase, batch_id: Uuid, minutes: u32) {
    test.execute(&format!(
        "UPDATE batches SET moved_at = moved_at - interval '{minutes} min', \
         generation_began_at = generation_began_at - interval '{minutes} min', \
         reconciled_at = reconciled_at - interval '{minutes} min' WHERE batch_id = '{batch_id}'"
    ))
    .await;
}

async fn taken(database: &Database) -> Vec<Uuid> {
    let taken = database.select_stalled(THRESHOLDS, 100).await.unwrap();
    taken.into_iter().map(|batch| batch.batch_id).collect()
}

async fn unfinished(database: &Database) -> Vec<Uuid> {
    let taken = database.select_unfinalized(THRESHOLDS.stopped_for, 100).await.unwrap();
    taken.into_iter().map(|batch| batch.batch_id).collect()
}

#[test]
fn ids_without_a_batch_are_unknown() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..3);
        let stranger = Uuid::now_v7();
        // In whatever order: PostgreSQL 17 finds them in another one than 15.
        let mut unknown = database.unknown(&[load.id(), stranger]).await.unwrap();
        unknown.sort();
        assert_eq!(unknown, [load.id(), stranger]);
        load.run(&database).await;
        assert_eq!(database.unknown(&[load.id(), stranger]).await.unwrap(), [stranger]);
        assert_eq!(database.unknown(&[]).await.unwrap(), NONE);
    });
}

#[test]
fn what_stopped_is_taken_once_and_again_when_its_time_has_doubled() {
    database_test(async |test| {
        let database = test.open();
        let begun = Load::delta(5).keys(0..10);
        database.begin_chunking(&begun.batch, Plan::default()).await.unwrap();
        let sealed = Load::full(3).keys(0..10).keys(10..20);
        sealed.prepare(&database).await;
        database.write_chunk(&sealed.chunks[0]).await.unwrap();
        Load::delta(1).keys(20..30).run(&database).await;

        for (batch, minutes) in [(&begun, 29), (&sealed, 29)] {
            age(test, batch.id(), minutes).await;
        }
        assert_eq!(taken(&database).await, NONE);
        age(test, sealed.id(), 2).await;
        age(test, begun.id(), 2).await;
        let stopped = database.select_stalled(THRESHOLDS, 100).await.unwrap();
        let [first, second] = &stopped[..] else { panic!("{stopped:?}") };
        // Those received first come first.
        assert_eq!(
            (first.batch_id, first.status, first.chunks_pending),
            (sealed.id(), BatchStatus::Processing, 1)
        );
        assert_eq!(
            (second.batch_id, second.status, second.chunks_pending),
            (begun.id(), BatchStatus::Chunking, 0)
        );
        assert_eq!((first.generation, &first.payload_uri), (Generation::FIRST, &sealed.batch.payload_uri));
        assert_eq!(first.tenant_id, sealed.batch.metadata.tenant_id);

        assert_eq!(taken(&database).await, NONE);
        age(test, sealed.id(), 28).await;
        assert_eq!(taken(&database).await, NONE, "after 59 minutes, of which it was taken at 31");
        age(test, sealed.id(), 5).await;
        assert_eq!(taken(&database).await, [sealed.id()], "after 64");
        age(test, sealed.id(), 60).await;
        assert_eq!(taken(&database).await, NONE, "after 124");
        age(test, sealed.id(), 10).await;
        assert_eq!(taken(&database).await, [sealed.id()], "after 134");

        // It goes on by itself, and stops again: that is another stop.
        database.begin_chunking(&begun.batch, Plan::default()).await.unwrap();
        assert_eq!(taken(&database).await, NONE);
        age(test, begun.id(), 31).await;
        assert_eq!(taken(&database).await, [begun.id()]);
    });
}

#[test]
fn what_was_taken_in_vain_is_put_back() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..10);
        load.prepare(&database).await;
        age(test, load.id(), 40).await;
        assert_eq!(taken(&database).await, [load.id()]);
        database.unselect(&[load.id()]).await.unwrap();
        assert_eq!(taken(&database).await, [load.id()]);
    });
}

#[test]
fn runs_at_once_take_no_batch_twice_and_all_of_them() {
    database_test(async |test| {
        let database = test.open();
        let mut loads = Vec::new();
        for number in 0..40 {
            let load = Load::delta(number).keys(0..1);
            load.prepare(&database).await;
            age(test, load.id(), 40).await;
            loads.push(load.id());
        }
        let run = async || {
            let database = test.open();
            let mut mine = Vec::new();
            loop {
                let taken = database.select_stalled(THRESHOLDS, 3).await.unwrap();
                if taken.is_empty() {
                    return mine;
                }
                mine.extend(taken.into_iter().map(|batch| batch.batch_id));
            }
        };
        let (a, b, c, d) = tokio::join!(run(), run(), run(), run());
        let mut all = [a, b, c, d].concat();
        // What another run held just then was skipped, and stays for the next run.
        all.extend(run().await);
        all.sort_unstable();
        loads.sort_unstable();
        assert_eq!(all, loads);
    });
}

#[test]
fn a_batch_that_somebody_works_on_is_left_alone() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..10);
        load.prepare(&database).await;
        age(test, load.id(), 40).await;
        test.execute(&format!(
            "BEGIN; SELECT FROM batches WHERE batch_id = '{}' FOR NO KEY UPDATE",
            load.id()
        ))
        .await;
        assert_eq!(taken(&database).await, NONE);
        test.execute("ROLLBACK").await;
        assert_eq!(taken(&database).await, [load.id()]);
    });
}

#[test]
fn what_is_past_its_time_is_only_reported() {
    database_test(async |test| {
        let database = test.open();
        let loads: Vec<Load> = (0..3).map(|number| Load::delta(number).keys(0..5)).collect();
        for load in &loads {
            load.prepare(&database).await;
            age(test, load.id(), 40).await;
        }
        assert_eq!(database.stuck(THRESHOLDS, 10).await.unwrap().count, 0);
        for load in &loads {
            age(test, load.id(), 24 * 60).await;
        }
        assert_eq!(taken(&database).await, NONE);
        let stuck = database.stuck(THRESHOLDS, 2).await.unwrap();
        let named: Vec<Uuid> = stuck.oldest.iter().map(|batch| batch.batch_id).collect();
        assert_eq!((stuck.count, named), (3, vec![loads[0].id(), loads[1].id()]));

        // A new generation has a time of its own.
        test.execute(&format!("UPDATE batches SET generation = 2 WHERE batch_id = '{}'", loads[1].id()))
            .await;
        assert_eq!(database.stuck(THRESHOLDS, 10).await.unwrap().count, 2);
        age(test, loads[1].id(), 31).await;
        assert_eq!(taken(&database).await, [loads[1].id()]);
    });
}

#[test]
fn a_batch_whose_end_did_not_happen_is_taken_apart_from_the_others() {
    database_test(async |test| {
        let database = test.open();
        let before = Load::full(0).keys(0..10);
        before.run(&database).await;
        let load = Load::full(1).keys(0..8);
        load.run(&database).await;
        // As it is between the last chunk's transaction and the end's.
        test.execute(&format!(
            "UPDATE batches SET status = 'PROCESSING', finished_at = NULL, deactivation = '{{\"state\": \"pending\"}}' WHERE batch_id = '{}'; UPDATE products SET active = true; \
             UPDATE batch_cnpjs SET deactivation = NULL",
            load.id()
        ))
        .await;
        assert_eq!(unfinished(&database).await, NONE);
        age(test, load.id(), 3 * 24 * 60).await;
        assert_eq!(taken(&database).await, NONE);
        assert_eq!(unfinished(&database).await, [load.id()], "whatever its age");
        assert_eq!(unfinished(&database).await, NONE);
        let end = database.finalize(load.id()).await.unwrap();
        assert!(end.became_final && end.status == BatchStatus::Completed, "{end:?}");
        assert_eq!(test.products().await.1, ["p0008", "p0009"]);
    });
}

/// Checks that the query for stalled batches does not read the final ones, which are most batches
/// of an old installation.
#[test]
fn many_batches_that_are_final_cost_nothing() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..10);
        load.prepare(&database).await;
        age(test, load.id(), 40).await;
        test.execute(
            "INSERT INTO batches (batch_id, tenant_id, load_type, media_type, idempotency_key, trace_id, received_at, payload_uri, \
             status, deactivation, moved_at) SELECT gen_random_uuid(), gen_random_uuid(), 'delta', 'application/json', n::text, \
             'trace', now() - n * interval '1 min', 's3://payloads/x', 'COMPLETED', '{\"state\": \"not_applicable\"}', \
             now() - n * interval '1 min' FROM generate_series(1, 20000) n; ANALYZE batches",
        )
        .await;
        let blocks = async |sql: &str| {
            let plan = test
                .client
                .query_one(&format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}"), &[])
                .await
                .unwrap();
            let plan: serde_json::Value = plan.get(0);
            let plan = &plan[0]["Plan"];
            plan["Shared Hit Blocks"].as_i64().unwrap() + plan["Shared Read Blocks"].as_i64().unwrap()
        };
        let all = blocks("SELECT count(*) FROM batches").await;
        let under_way = blocks(
            "SELECT batch_id FROM batches WHERE status IN ('RECEIVED', 'CHUNKING', 'PROCESSING') \
             AND moved_at < now() - interval '30 min' ORDER BY received_at, batch_id LIMIT 100",
        )
        .await;
        assert!(under_way < 20 && all > 200, "{under_way} blocks of {all}");
        assert_eq!(taken(&database).await, [load.id()]);
    });
}
