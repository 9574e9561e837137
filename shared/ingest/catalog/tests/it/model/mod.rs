//! Property tests that play random histories of batches, and compare the table `products` with a
//! reference model, whatever the order of events was.
//!
//! The model does not depend on the order. The greatest version among all written items determines
//! a product's content. The product is active unless the latest batch that says something about it
//! is a full load which lacks it. A batch says something about a product if it contains the
//! product, or if it is a full load that has completed the deactivation in the product's
//! establishment.

mod history;
mod pruned;

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Database, ReplayOutcome, ReplayRequest};
use ingestion::Viewer;
use ingestion::batch::{Replay, ReplayScope};
use ingestion::chunk::Generation;
use ingestion::payload::LoadType;
use ingestion::product::{BatchStamp, Version};
use jiff::Timestamp;
use proptest::test_runner::{Config, TestRunner};
use tokio::task::JoinSet;
use uuid::Uuid;

use self::history::{Draft, History, KEYS, Step, history};
use crate::support::{Item, Load, TENANT, TestDatabase, at, cnpj, database_test, product};

/// Contents of the table `products` by product id: title, source date in seconds of the tests'
/// time, and whether the product is active.
type Table = BTreeMap<String, (Option<String>, Option<i64>, bool)>;

/// Content of each product by its key in the model: the item with the greatest version, that
/// version, and whether the product is active.
type Winners = BTreeMap<u32, (Version, Item, bool)>;

/// State of the products at the start of the history, as the model knows it. Batches that were
/// received before `kept_since` are not known any more.
#[derive(Default)]
struct Baseline {
    kept_since: Option<Timestamp>,
    winners: Winners,
}

fn expected(
    loads: &[Load],
    drafts: &[Draft],
    done: &BTreeSet<(Uuid, u32)>,
    decided: &BTreeSet<(Uuid, String)>,
) -> Table {
    table(&winners(&Baseline::default(), loads, drafts, done, decided))
}

fn table(winners: &Winners) -> Table {
    let row = |(key, (_, item, active)): (&u32, &(Version, Item, bool))| {
        let product = product(Item { key: *key, ..*item });
        (product.key.product_id, (product.attributes.title.map(String::from), item.updated_at, *active))
    };
    winners.iter().map(row).collect()
}

fn winners(
    baseline: &Baseline,
    loads: &[Load],
    drafts: &[Draft],
    done: &BTreeSet<(Uuid, u32)>,
    decided: &BTreeSet<(Uuid, String)>,
) -> Winners {
    let mut winners = Winners::new();
    let first = baseline.kept_since.unwrap_or(Timestamp::MIN);
    for key in 0..KEYS {
        let cnpj = product(Item::of(key, 0)).key.cnpj.to_string();
        let before = baseline.winners.get(&key);
        let mut winner: Option<(Version, Item)> = before.map(|(version, item, _)| (*version, *item));
        let mut word: Option<(BatchStamp, bool)> =
            before.map(|(.., active)| (BatchStamp::new(first, Uuid::nil()), *active));
        for (load, draft) in loads.iter().zip(drafts) {
            let stamp = BatchStamp::new(load.batch.metadata.received_at, load.id());
            if stamp.received_at() < first {
                continue;
            }
            let mut index = 0;
            let mut contains = false;
            for (place, items) in draft.chunks.iter().enumerate() {
                let is_done = done.contains(&(load.id(), place.try_into().unwrap()));
                for item in items {
                    if item.key == key && is_done {
                        contains = true;
                        let version = Version::new(item.updated_at.map(at), stamp, index);
                        winner = winner.max_by_version((version, *item));
                    }
                    index += 1;
                }
            }
            let decides = decided.contains(&(load.id(), cnpj.clone()));
            let lacks = decides && !contains && !draft.readable_errors.contains(&key);
            if (contains || lacks) && word.is_none_or(|(last, _)| stamp > last) {
                word = Some((stamp, contains));
            }
        }
        if let (Some((version, item)), Some((_, active))) = (winner, word) {
            winners.insert(key, (version, item, active));
        }
    }
    winners
}

trait Latest {
    fn max_by_version(self, other: (Version, Item)) -> Self;
}

impl Latest for Option<(Version, Item)> {
    fn max_by_version(self, other: (Version, Item)) -> Self {
        match self {
            Some(kept) if kept.0 > other.0 => Some(kept),
            _ => Some(other),
        }
    }
}

async fn actual(test: &TestDatabase) -> Table {
    let sql = "SELECT productid, title, extract(epoch FROM source_updated_at - '2026-11-21T10:00:00Z')::bigint AS updated, \
         active, (deactivated_at IS NULL) = active AS consistent FROM products";
    let rows = test.rows(sql).await;
    assert!(rows.iter().all(|row| row.get("consistent")));
    rows.iter()
        .map(|row| (row.get("productid"), (row.get("title"), row.get("updated"), row.get("active"))))
        .collect()
}

async fn check(test: &TestDatabase, loads: &[Load], drafts: &[Draft]) {
    let (done, decided) = facts(test).await;
    assert_eq!(actual(test).await, expected(loads, drafts, &done, &decided));
    books(test).await;
}

/// Returns from the database the chunks (batch id and index) that were ever written, and the pairs
/// of a batch and an establishment in which the batch has completed its deactivation.
async fn facts(test: &TestDatabase) -> (BTreeSet<(Uuid, u32)>, BTreeSet<(Uuid, String)>) {
    let sql = "SELECT batch_id, chunk_index FROM batch_chunks WHERE key_hashes IS NOT NULL";
    let chunks = test.rows(sql).await;
    let done = chunks
        .iter()
        .map(|row| (row.get("batch_id"), row.get::<_, i32>("chunk_index").try_into().unwrap()))
        .collect();
    let cnpjs = test.rows("SELECT batch_id, cnpj FROM batch_cnpjs WHERE deactivation = 'done'").await;
    (done, cnpjs.iter().map(|row| (row.get("batch_id"), row.get("cnpj"))).collect())
}

/// Checks that the counters of batches and chunks in the database add up, and that every completed
/// full load has carried out the deactivation in its establishments. Left out are loads with
/// unreadable keys, and establishments that a later full load without items in error contains.
async fn books(test: &TestDatabase) {
    for (what, sql) in [
        (
            "a final batch accounts for every item",
            "SELECT count(*) FROM batches WHERE status = 'COMPLETED' \
             AND items_parsed <> inserted + updated + unchanged + stale + items_failed",
        ),
        (
            "each chunk accounts for every item",
            "SELECT count(*) FROM batch_chunks WHERE status = 'DONE' \
             AND items <> inserted + updated + unchanged + stale + rejected",
        ),
        (
            "a batch is its chunks",
            "SELECT count(*) FROM batches b WHERE (inserted, updated, unchanged, stale, chunks_done) <> (SELECT \
             COALESCE(sum(c.inserted), 0), COALESCE(sum(c.updated), 0), COALESCE(sum(c.unchanged), 0), \
             COALESCE(sum(c.stale), 0), count(*) FROM batch_chunks c WHERE c.batch_id = b.batch_id AND status = 'DONE')",
        ),
        (
            "a batch is final when its chunks are done or given up",
            "SELECT count(*) FROM batches WHERE (status = 'COMPLETED') <> (chunks_pending = 0 AND chunks_failed = 0) \
             OR (status IN ('PARTIAL_FAIL', 'FAILED')) <> (chunks_pending = 0 AND chunks_failed > 0) \
             OR (finished_at IS NULL) <> (chunks_pending > 0)",
        ),
        (
            "every row was inserted once, though a replay forgets what was inserted before it",
            "SELECT CASE WHEN (SELECT max(generation) FROM batches) > 1 THEN greatest(inserted - found, 0) \
             ELSE abs(inserted - found) END::bigint FROM (SELECT (SELECT count(*) FROM products) AS found, \
             (SELECT COALESCE(sum(inserted), 0) FROM batches) AS inserted) counts",
        ),
        (
            "a full load decides unless it cannot, or a later one does",
            "SELECT count(*) FROM batches b JOIN batch_cnpjs c USING (batch_id) WHERE b.status = 'COMPLETED' \
             AND b.load_type = 'full' AND b.unreadable_keys = 0 AND c.deactivation IS DISTINCT FROM 'done' \
             AND NOT EXISTS (SELECT FROM batches l JOIN batch_cnpjs lc USING (batch_id) WHERE lc.cnpj = c.cnpj \
                 AND l.load_type = 'full' AND l.items_in_error = 0 AND (l.received_at, l.batch_id) > (b.received_at, b.batch_id))",
        ),
        (
            "the reports say how many products were deactivated, though a replay forgets what was before it",
            "SELECT CASE WHEN (SELECT max(generation) FROM batches) > 1 THEN greatest(reported - found, 0) \
             ELSE abs(reported - found) END::bigint FROM (SELECT (SELECT count(*) FROM deactivations) AS found, \
             (SELECT COALESCE(sum((deactivation->>'deactivated')::bigint), 0) FROM batches) AS reported) counts",
        ),
        (
            "nobody else decides",
            "SELECT count(*) FROM batches b JOIN batch_cnpjs c USING (batch_id) WHERE c.deactivation = 'done' \
             AND (b.status <> 'COMPLETED' AND b.generation = 1 OR b.load_type <> 'full' OR b.unreadable_keys > 0)",
        ),
    ] {
        assert_eq!(test.number(sql).await, 0, "{what}");
    }
}

/// Returns the generation of a chunk in the database, which each replay of the chunk increases.
async fn generation(test: &TestDatabase, load: &Load, chunk: usize) -> Generation {
    let sql = format!(
        "SELECT generation::bigint FROM batch_chunks WHERE batch_id = '{}' AND chunk_index = {chunk}",
        load.id()
    );
    u32::try_from(test.number(&sql).await).unwrap().try_into().unwrap()
}

async fn take(test: &TestDatabase, database: &Database, loads: &[Load], step: Step) {
    match step {
        Step::Deliver { batch, chunk, late: false } => {
            let generation = generation(test, &loads[batch], chunk).await;
            let chunk = loads[batch].chunks[chunk].clone().of_generation(generation);
            database.write_chunk(&chunk).await.unwrap();
        }
        Step::GiveUp { batch, chunk } => {
            let generation = generation(test, &loads[batch], chunk).await;
            test.give_up(&loads[batch].chunks[chunk].clone().of_generation(generation)).await;
        }
        Step::Deliver { late: true, .. } | Step::Replay { .. } => play(database, loads, step).await,
    }
}

/// Executes a step like a function that knows only the batch's first generation (round of
/// processing). Ignores [`Step::GiveUp`].
async fn play(database: &Database, loads: &[Load], step: Step) {
    match step {
        Step::Deliver { batch, chunk, .. } => {
            database.write_chunk(&loads[batch].chunks[chunk]).await.unwrap();
        }
        Step::GiveUp { .. } => {}
        Step::Replay { batch, scope } => {
            let request = ReplayRequest {
                replay: Replay { scope, confirm_deactivation: false },
                idempotency_key: Uuid::new_v4().to_string(),
                requested_at: at(0),
            };
            let outcome = database.replay(&Viewer::whole(TENANT), loads[batch].id(), &request).await.unwrap();
            assert_ne!(outcome, ReplayOutcome::Unknown);
        }
    }
}

/// Table `deactivations`, and a trigger that adds a row for each product that becomes inactive.
const DEACTIVATIONS: &str = "CREATE TABLE deactivations (key_hash bigint); \
     CREATE FUNCTION note_deactivation() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN INSERT INTO deactivations VALUES (NEW.key_hash); RETURN NULL; END'; \
     CREATE TRIGGER note_deactivation AFTER UPDATE ON products FOR EACH ROW \
         WHEN (OLD.active AND NOT NEW.active) EXECUTE FUNCTION note_deactivation()";

/// Returns the settings of the property tests: 10 histories each, or the number in `CATALOG_CASES`.
fn cases() -> Config {
    let cases = std::env::var("CATALOG_CASES").map_or(10, |cases| cases.parse().unwrap());
    Config { cases, failure_persistence: None, max_shrink_iters: 300, ..Config::default() }
}

/// Generates random histories, executes each by `play` with empty tables, and compares the tables
/// with the model.
fn histories(play: &impl AsyncFn(&TestDatabase, &History, &[Load])) {
    database_test(async |test| {
        test.execute(DEACTIVATIONS).await;
        tokio::task::block_in_place(|| {
            let runtime = tokio::runtime::Handle::current();
            let run = TestRunner::new(cases()).run(&history(), |history| {
                runtime.block_on(async {
                    test.execute("DELETE FROM products; DELETE FROM batches; DELETE FROM deactivations")
                        .await;
                    let loads: Vec<Load> = history.drafts.iter().map(Draft::load).collect();
                    play(test, &history, &loads).await;
                    check(test, &loads, &history.drafts).await;
                });
                Ok(())
            });
            run.unwrap_or_else(|error| panic!("{error}"));
        });
    });
}

#[test]
fn the_table_ends_as_the_model_says_whatever_the_order() {
    histories(&async |test, history, loads| {
        let database = test.open();
        let mut prepared = BTreeSet::new();
        for step in history.order() {
            // A batch is cut when its first chunk is about to be delivered: between the chunks of
            // others.
            if prepared.insert(step.batch()) {
                loads[step.batch()].prepare(&database).await;
            }
            take(test, &database, loads, step).await;
        }
    });
}

#[test]
fn replaying_everything_in_the_end_changes_no_row() {
    histories(&async |test, history, loads| {
        let database = test.open();
        for load in loads {
            load.prepare(&database).await;
        }
        for step in history.order() {
            take(test, &database, loads, step).await;
        }
        // What never was written, or was given up, is written now.
        let everything = async |scope| {
            for (batch, load) in loads.iter().enumerate() {
                take(test, &database, loads, Step::Replay { batch, scope }).await;
                for chunk in 0..load.chunks.len() {
                    take(test, &database, loads, Step::Deliver { batch, chunk, late: false }).await;
                }
            }
        };
        everything(ReplayScope::Failed).await;
        let rows =
            "SELECT COALESCE(sum(hashtext(xmin::text || ctid::text || p::text)), 0)::bigint FROM products p";
        let before = test.number(rows).await;
        everything(ReplayScope::All).await;
        assert_eq!(test.number(rows).await, before);
        assert_eq!(test.number("SELECT count(*) FROM batches WHERE status <> 'COMPLETED'").await, 0);
        let changes = "SELECT COALESCE(sum(inserted + updated), 0)::bigint FROM batches";
        assert_eq!(test.number(changes).await, 0);
    });
}

#[test]
fn the_table_ends_as_the_model_says_where_everything_happens_at_once() {
    histories(&async |test, history, loads| {
        let mut tasks = JoinSet::new();
        for load in loads {
            load.prepare(&test.open()).await;
        }
        let order = history.order();
        for worker in 0..4 {
            let database = test.open();
            let mine: Vec<Step> = order.iter().skip(worker).step_by(4).copied().collect();
            let loads = loads.to_vec();
            tasks.spawn(async move {
                for step in mine {
                    play(&database, &loads, step).await;
                }
            });
        }
        tasks.join_all().await;
        // What a replay took over while its chunk was on its way is announced again in its
        // generation.
        let database = test.open();
        for step in order.into_iter().filter(|_| history.complete) {
            if let Step::Deliver { batch, chunk, .. } = step {
                take(test, &database, loads, Step::Deliver { batch, chunk, late: false }).await;
            }
        }
    });
}

#[test]
fn the_model_itself_is_not_blind() {
    let drafts = [
        Draft {
            load_type: LoadType::Full,
            received_at: 10,
            chunks: vec![vec![Item::of(0, 1), Item::of(2, 1)]],
            readable_errors: vec![],
            unreadable: false,
        },
        Draft {
            load_type: LoadType::Full,
            received_at: 20,
            chunks: vec![vec![Item { key: 0, content: 2, updated_at: Some(5) }]],
            readable_errors: vec![],
            unreadable: false,
        },
    ];
    let loads: Vec<Load> = drafts.iter().map(Draft::load).collect();
    let done = loads.iter().map(|load| (load.id(), 0)).collect();
    let decided = loads.iter().map(|load| (load.id(), cnpj(0).to_string())).collect();
    let table = expected(&loads, &drafts, &done, &decided);
    let row = |content: &str, active| (Some(content.to_owned()), None, active);
    // The later load's item is from before the earlier one, and product 2 is not in it.
    let rows =
        [("p0000".to_owned(), row("Dipirona 1", true)), ("p0002".to_owned(), row("Dipirona 1", false))];
    assert_eq!(table, Table::from(rows));
}
