//! Random histories against a reference model of what the table must hold in the end, whatever the order of events was.
//!
//! The model knows no order. Of each product, the greatest version of all written items wins. Whether it is active says the batch, among those that have a say about it,
//! that was received last: one that contained it, or a full load that decided about its establishment and did not.

use std::collections::{BTreeMap, BTreeSet};

use ingestion::payload::LoadType;
use ingestion::product::{BatchStamp, Version};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::support::{Item, Load, TestDatabase, at, cnpj, database_test, product};

const KEYS: u32 = 6;

/// A batch as it is drawn.
#[derive(Debug, Clone)]
struct Draft {
    load_type: LoadType,
    received_at: i64,
    chunks: Vec<Vec<Item>>,
    readable_errors: Vec<u32>,
    unreadable: bool,
}

#[derive(Debug, Clone)]
struct History {
    drafts: Vec<Draft>,
    /// Which chunk is delivered when, repeated or never: numbers that are mapped to what there is.
    deliveries: Vec<(usize, usize)>,
    /// Whether every chunk is delivered in the end.
    complete: bool,
}

fn item() -> impl Strategy<Value = Item> {
    // Few of everything, so that most things meet; times before, between and after those of the receipts.
    (0..KEYS, 0_u32..3, prop::option::weighted(0.6, 0_i64..13)).prop_map(|(key, content, half)| Item {
        key,
        content,
        updated_at: half.map(|half| half * 5),
    })
}

fn draft() -> impl Strategy<Value = Draft> {
    let chunks = prop::collection::vec(prop::collection::vec(item(), 1..5), 0..4);
    let errors = prop::collection::vec(0..KEYS, 0..2);
    (any::<bool>(), 0_i64..6, chunks, errors, prop::bool::weighted(0.1)).prop_map(
        |(full, received, chunks, readable_errors, unreadable)| Draft {
            load_type: if full { LoadType::Full } else { LoadType::Delta },
            // Some are received at the same time.
            received_at: received * 10,
            chunks,
            readable_errors,
            unreadable,
        },
    )
}

fn history() -> impl Strategy<Value = History> {
    let drafts = prop::collection::vec(draft(), 1..7);
    let deliveries = prop::collection::vec((0_usize..7, 0_usize..4), 0..30);
    (drafts, deliveries, prop::bool::weighted(0.8)).prop_map(|(drafts, deliveries, complete)| History {
        drafts,
        deliveries,
        complete,
    })
}

impl Draft {
    fn load(&self) -> Load {
        let mut load = Load::new(self.load_type, self.received_at);
        for chunk in &self.chunks {
            load = load.items(chunk);
        }
        for key in &self.readable_errors {
            load = load.error(Some(*key));
        }
        if self.unreadable { load.error(None) } else { load }
    }
}

impl History {
    /// Places of batches and chunks in the order of their delivery.
    fn order(&self) -> Vec<(usize, usize)> {
        let drawn = self.deliveries.iter().filter_map(|(batch, chunk)| {
            let batch = batch % self.drafts.len();
            let chunks = self.drafts[batch].chunks.len();
            (chunks > 0).then(|| (batch, chunk % chunks))
        });
        let all = self
            .drafts
            .iter()
            .enumerate()
            .flat_map(|(batch, draft)| (0..draft.chunks.len()).map(move |chunk| (batch, chunk)));
        if self.complete { drawn.chain(all).collect() } else { drawn.collect() }
    }
}

/// What the table holds of a product: its content and whether it is active.
type Table = BTreeMap<String, (Option<String>, Option<i64>, bool)>;

fn expected(
    loads: &[Load],
    drafts: &[Draft],
    done: &BTreeSet<(Uuid, u32)>,
    decided: &BTreeSet<(Uuid, String)>,
) -> Table {
    let mut table = Table::new();
    for key in 0..KEYS {
        let sample = product(Item::of(key, 0)).key;
        let mut winner: Option<(Version, Item)> = None;
        let mut word: Option<(BatchStamp, bool)> = None;
        for (load, draft) in loads.iter().zip(drafts) {
            let stamp = BatchStamp::new(load.batch.metadata.received_at, load.id());
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
            let decides = decided.contains(&(load.id(), sample.cnpj.to_string()));
            let lacks = decides && !contains && !draft.readable_errors.contains(&key);
            if (contains || lacks) && word.is_none_or(|(last, _)| stamp > last) {
                word = Some((stamp, contains));
            }
        }
        if let (Some((_, item)), Some((_, active))) = (winner, word) {
            let title = product(item).attributes.title;
            table.insert(sample.product_id, (title, item.updated_at, active));
        }
    }
    table
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
    let chunks = test.rows("SELECT batch_id, chunk_index FROM batch_chunks WHERE status = 'DONE'").await;
    let done = chunks
        .iter()
        .map(|row| (row.get("batch_id"), row.get::<_, i32>("chunk_index").try_into().unwrap()))
        .collect();
    let cnpjs = test.rows("SELECT batch_id, cnpj FROM batch_cnpjs WHERE deactivation = 'done'").await;
    let decided = cnpjs.iter().map(|row| (row.get("batch_id"), row.get("cnpj"))).collect();
    assert_eq!(actual(test).await, expected(loads, drafts, &done, &decided));
    books(test).await;
}

/// The counters add up, and every full load has decided, or has a reason why not.
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
            "a batch is final when its chunks are done",
            "SELECT count(*) FROM batches WHERE (status = 'COMPLETED') <> (chunks_pending = 0) \
             OR (finished_at IS NULL) <> (chunks_pending > 0)",
        ),
        (
            "every row was inserted once",
            "SELECT abs((SELECT count(*) FROM products) - (SELECT COALESCE(sum(inserted), 0) FROM batches))::bigint",
        ),
        (
            "a full load decides unless it cannot, or a later one does",
            "SELECT count(*) FROM batches b JOIN batch_cnpjs c USING (batch_id) WHERE b.status = 'COMPLETED' \
             AND b.load_type = 'full' AND b.unreadable_keys = 0 AND c.deactivation IS DISTINCT FROM 'done' \
             AND NOT EXISTS (SELECT FROM batches l JOIN batch_cnpjs lc USING (batch_id) WHERE lc.cnpj = c.cnpj \
                 AND l.load_type = 'full' AND (l.received_at, l.batch_id) > (b.received_at, b.batch_id))",
        ),
        (
            "nobody else decides",
            "SELECT count(*) FROM batches b JOIN batch_cnpjs c USING (batch_id) WHERE c.deactivation = 'done' \
             AND (b.status <> 'COMPLETED' OR b.load_type <> 'full' OR b.unreadable_keys > 0)",
        ),
    ] {
        assert_eq!(test.number(sql).await, 0, "{what}");
    }
}

/// Draws histories and plays each on an empty database.
fn histories(cases: u32, play: &impl AsyncFn(&TestDatabase, &History, &[Load])) {
    database_test(async |test| {
        let cases = std::env::var("CATALOG_CASES").map_or(cases, |cases| cases.parse().unwrap());
        let config = Config { cases, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
        tokio::task::block_in_place(|| {
            let runtime = tokio::runtime::Handle::current();
            let run = TestRunner::new(config).run(&history(), |history| {
                runtime.block_on(async {
                    test.execute("TRUNCATE products, batches CASCADE").await;
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
    histories(48, &async |test, history, loads| {
        let database = test.open();
        let mut prepared = BTreeSet::new();
        for (batch, chunk) in history.order() {
            // A batch is cut when its first chunk is about to be delivered: between the chunks of others.
            if prepared.insert(batch) {
                loads[batch].prepare(&database).await;
            }
            database.write_chunk(&loads[batch].chunks[chunk]).await.unwrap();
        }
    });
}

#[test]
fn the_table_ends_as_the_model_says_where_everything_happens_at_once() {
    histories(32, &async |test, history, loads| {
        let mut tasks = JoinSet::new();
        for load in loads {
            load.prepare(&test.open()).await;
        }
        let order = history.order();
        for worker in 0..4 {
            let database = test.open();
            let mine = order.iter().skip(worker).step_by(4);
            let chunks: Vec<_> = mine.map(|(batch, chunk)| loads[*batch].chunks[*chunk].clone()).collect();
            tasks.spawn(async move {
                for chunk in &chunks {
                    database.write_chunk(chunk).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
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
