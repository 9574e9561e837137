//! Tests of the whole ingest in a storm. Functions are killed at random, messages are delivered
//! twice and out of order, requests to S3, SQS and DynamoDB fail, S3's notifications are lost, and
//! the database crashes. Some catalogues are sent, and some are files that a job drops and
//! overwrites. All tenants send products of one establishment, which belongs to the tenant that
//! loads it first. After the storm, every accepted item is in the table or in the errors, exactly
//! once, and a replay of all batches changes nothing. Then the history of loads is deleted.
//!
//! `STORM_SECONDS=n` sets the duration, `STORM_SEED=n` makes the same catalogues again, and
//! `KAFKA=1` sends chunks through Kafka, whose brokers fail too.

mod clients;
mod delivery;
mod drops;
mod model;
mod senders;
mod topic;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ingestion::batch::BatchStatus;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::crash::stand::function::Function;

use self::drops::{Dropped, Foreign};
use senders::Sent;
use topic::{EVENTS, FAILURES, TOPIC};
use world::{StandingStill, World};

/// Number of tenants that also drop files, each by a job.
const JOBS: usize = 2;
/// Duration of a storm in seconds if `STORM_SECONDS` is not set.
const USUAL: u64 = 10;
/// Maximum time until all batches are final after the storm, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_was_accepted_is_there_once_after_a_storm() {
    let seed = number("STORM_SEED", fastrand::u64(..));
    let lasts = Duration::from_secs(number("STORM_SECONDS", USUAL));
    println!("STORM_SEED={seed} STORM_SECONDS={}", lasts.as_secs());
    let over_kafka = std::env::var("KAFKA").is_ok_and(|value| value == "1");
    let world = if over_kafka { World::over_kafka().await } else { World::start().await };
    let mut random = fastrand::Rng::with_seed(seed);

    let tenants = world.tenants(6).await;
    let (mut sending, mut dropping) = (JoinSet::new(), JoinSet::new());
    let job = world.job(&tenants[0]).await;
    let foreign = Foreign::drop(&job).await;
    for tenant in &tenants[..JOBS] {
        dropping.spawn(world.job(tenant).await.drop_for(lasts, random.fork()));
    }
    for tenant in tenants {
        sending.spawn(tenant.send_for(lasts, random.fork()));
    }
    world.delivery.begin_storm(random.fork());
    world.faults.weather(0.05, random.fork());
    let (killed, ()) = tokio::join!(kills(&world, lasts, random.fork()), crashes(&world, lasts));
    let mut sent: Vec<Sent> = sending.join_all().await.into_iter().flatten().collect();
    let dropped: Vec<Dropped> = dropping.join_all().await.into_iter().flatten().collect();
    world.faults.clear();
    world.delivery.end_storm();

    let taken = drops::taken(&world, &dropped, PATIENCE).await;
    println!("{} versions of files, of which {} were taken", dropped.len(), taken.len());
    sent.extend(taken);
    world.come_to_rest(&sent, PATIENCE).await;
    drops::told(&world, &job, &foreign, &dropped, PATIENCE).await;
    let model = world.model(&sent).await;
    model.check(&world.database().await).await;
    println!("{} batches, {} items, {killed} kills, {}", sent.len(), model.items(), world.delivery.summary());
    assert_eq!(world.unhandled().await, 0, "nothing is left to a person");

    let before = world.snapshot().await;
    for batch in &sent {
        world.replay(batch, "all").await;
    }
    world.come_to_rest(&sent, PATIENCE).await;
    model.check(&world.database().await).await;
    assert_eq!(world.snapshot().await, before, "replayed, nothing changes");

    world.forget_batches(PATIENCE).await;
    assert_eq!(world.snapshot().await, before, "with the history deleted, nothing changes");
}

/// Kills processes of random functions for the time `lasts`. Returns the number of killed
/// processes.
async fn kills(world: &World, lasts: Duration, mut random: fastrand::Rng) -> usize {
    let functions: Vec<&Function> = world.functions().collect();
    let until = tokio::time::Instant::now() + lasts;
    let mut killed = 0;
    while tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(random.u64(10..150))).await;
        killed += functions[random.usize(..functions.len())].kill_any();
    }
    killed
}

/// Crashes the database twice within the time `lasts`. With Kafka, makes its cluster fail for a
/// moment each time before.
async fn crashes(world: &World, lasts: Duration) {
    for _ in 0..2 {
        tokio::time::sleep(lasts / 3).await;
        if let Some(topic) = &world.topic {
            topic.fail_for(Duration::from_secs(1)).await;
        }
        world.cluster.restart().await;
    }
}

/// Checks that concurrent batches of the same products complete without any retry if nothing fails,
/// although they wait for each other's locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_over_the_same_products_do_not_stop_each_other() {
    let world = World::start().await;
    let [tenant] = &world.tenants(1).await[..] else { panic!("one tenant") };
    let mut sending = JoinSet::new();
    for seed in 0..10 {
        let tenant = tenant.clone();
        sending.spawn(async move { tenant.send_one(&mut fastrand::Rng::with_seed(seed)).await });
    }
    let most = Arc::new(AtomicI64::new(0));
    let watching = tokio::spawn(watch_connections(world.database().await, Arc::clone(&most)));
    let sent = sending.join_all().await;
    world.come_to_rest(&sent, PATIENCE).await;
    watching.abort();

    let database = world.database().await;
    world.model(&sent).await.check(&database).await;
    let sql =
        "SELECT count(*) FILTER (WHERE attempts <> 1 OR last_error IS NOT NULL), count(*) FROM batch_chunks";
    let row = database.query_one(sql, &[]).await.unwrap();
    let (again, chunks): (i64, i64) = (row.get(0), row.get(1));
    assert!(again == 0 && chunks > 10, "{again} of {chunks} chunks took more than one attempt");
    let sql = "SELECT sum(deadlocks)::bigint FROM pg_stat_database";
    assert_eq!(database.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0, "deadlocks");
    let most = most.load(Ordering::Relaxed);
    assert!((1..=world::CONNECTIONS).contains(&most), "{most} connections to the database at once");
    let statuses = world.statuses().await;
    for batch in &sent {
        assert_eq!(statuses.get(&batch.batch_id), Some(&BatchStatus::Completed));
    }
}

/// Checks that chunks which go through Kafka are written, and that records which are no chunks end
/// on the queue of unhandled messages and do not block the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn chunks_that_go_through_kafka_are_written_and_foreign_records_do_not_stop_them() {
    let world = World::over_kafka().await;
    let topic = world.topic.as_ref().unwrap();
    topic.spoil(&[Some("no event"), None, Some(r#"{"specversion":"1.0"}"#)]).await;
    let [tenant] = &world.tenants(1).await[..] else { panic!("one tenant") };
    let mut sent = Vec::new();
    for seed in 0..3 {
        sent.push(tenant.send_one(&mut fastrand::Rng::with_seed(seed)).await);
    }
    world.come_to_rest(&sent, PATIENCE).await;
    let database = world.database().await;
    world.model(&sent).await.check(&database).await;
    let sql = "SELECT count(*) FROM batch_chunks WHERE status = 'DONE'";
    assert!(database.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) >= 3);
    assert_eq!(world.unhandled().await, 3, "{}", world.delivery.summary());
}

/// Checks that the functions, deployed as in the template, publish the same events to the event bus
/// and to a Kafka topic.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_batch_is_received_and_final_in_a_topic_of_kafka_by_the_same_events_as_on_the_bus() {
    let world = World::with_events(StandingStill::Nobody).await;
    let [tenant] = &world.tenants(1).await[..] else { panic!("one tenant") };
    let mut sent = Vec::new();
    for seed in 0..2 {
        sent.push(tenant.send_one(&mut fastrand::Rng::with_seed(seed)).await);
    }
    let (database, begin) = (world.database().await, Instant::now());
    loop {
        world.come_to_rest(&sent, PATIENCE).await;
        let row = database.query_one("SELECT count(*) FROM outbox", &[]).await.unwrap();
        if row.get::<_, i64>(0) == 0 {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "events stay in the outbox");
    }

    let on_the_bus = world.bus.as_ref().unwrap().on_the_bus();
    let in_the_topic = world.topic.as_ref().unwrap().events(EVENTS, 2 * sent.len()).await;
    assert!(in_the_topic.iter().all(|(key, _)| *key == tenant.id.to_string()), "{in_the_topic:?}");
    for batch in &sent {
        let batch_id = batch.batch_id.to_string();
        let is_ours = |event: &&Value| event["data"]["batch_id"] == batch_id.as_str();
        let bus = without_repeats(on_the_bus.iter().filter(is_ours));
        let topic = without_repeats(in_the_topic.iter().map(|(_, event)| event).filter(is_ours));
        let types: Vec<&Value> = topic.iter().map(|event| &event["type"]).collect();
        assert_eq!(types, ["integrahub.batch.received", "integrahub.batch.final"], "{topic:?}");
        assert_eq!(topic, bus, "with the same ids and data");
    }
}

/// Checks that a batch's event of receipt is published while no chunker works, and that it is the
/// same event if the payload is announced again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_batch_is_received_while_the_chunkers_stand_still_and_once_however_often_it_is_told_of() {
    let world = World::with_events(StandingStill::Chunkers).await;
    let [tenant] = &world.tenants(1).await[..] else { panic!("one tenant") };
    let sent = tenant.send_one(&mut fastrand::Rng::with_seed(0)).await;
    let topic = world.topic.as_ref().unwrap();
    assert_eq!(topic.events(EVENTS, 1).await.len(), 1);
    world.store_again().await;
    let told = topic.events(EVENTS, 2).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], told[1]);
    let (key, receipt) = &told[0];
    assert_eq!((key, &receipt["type"]), (&tenant.id.to_string(), &"integrahub.batch.received".into()));
    assert_eq!(receipt["id"], sent.batch_id.to_string());
    assert_eq!(receipt["data"]["batch_id"], sent.batch_id.to_string());
    assert_eq!(world.statuses().await.get(&sent.batch_id), None, "nothing has begun");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_chunk_that_was_given_up_is_in_the_topic_of_failures_and_no_other_event_is() {
    let world = World::with_events(StandingStill::Writers).await;
    let [tenant] = &world.tenants(1).await[..] else { panic!("one tenant") };
    let sent = tenant.send_one(&mut fastrand::Rng::with_seed(0)).await;
    let topic = world.topic.as_ref().unwrap();
    let ready = topic.events(TOPIC, 1).await;
    for (_, chunk) in &ready {
        world.fail_chunk(chunk).await;
    }
    let failures = topic.events(FAILURES, ready.len()).await;
    assert_eq!(failures.len(), ready.len(), "{failures:?}");
    for (key, event) in &failures {
        assert_eq!((key, &event["type"]), (&tenant.id.to_string(), &"integrahub.chunk.given_up".into()));
        assert_eq!(event["data"]["batch_id"], sent.batch_id.to_string());
    }
    let others = topic.events(EVENTS, 2).await;
    let types: BTreeSet<&str> = others.iter().map(|(_, event)| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, BTreeSet::from(["integrahub.batch.final", "integrahub.batch.received"]));
}

/// Returns the first event of each id, as a reader would keep them, sorted by time: `receipts`
/// publishes its events independently of the work on their batch.
fn without_repeats<'a>(events: impl Iterator<Item = &'a Value>) -> Vec<&'a Value> {
    let mut ids = BTreeSet::new();
    let mut events: Vec<&Value> = events.filter(|event| ids.insert(event["id"].to_string())).collect();
    events.sort_by_key(|event| event["time"].to_string());
    events
}

/// Keeps in `most` the maximum number of database connections that the functions have at any time.
async fn watch_connections(database: Client, most: Arc<AtomicI64>) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> $1";
    loop {
        let row = database.query_one(sql, &[&world::TEST]).await.unwrap();
        most.fetch_max(row.get(0), Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
