//! Model of the storm test: the rows and the counts that must be in the database in the end. The
//! model does not depend on the order of arrival.
//!
//! The greatest version among all accepted items determines a product's content. One batch
//! determines whether it is active: the batch that was received last, among those that decide about
//! it. A batch decides about a product if it contained it, or if it was a full load of the
//! product's establishment without it. A batch that has the product as an item in error does not
//! decide.
//!
//! An establishment belongs to one tenant. Items of it that other tenants send are refused, and
//! their batches do not decide about its products.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use tokio_postgres::Client;
use uuid::Uuid;

use super::senders::{Key, Sent, SentItem};

/// Position of a batch in the order of receipt: the time of receipt, and the batch's id to order
/// batches of the same time.
type Stamp = (Timestamp, Uuid);

/// Row of a product: title, id of the batch that wrote it, index of the item in that batch, and
/// whether the product is active.
type Row = (String, Uuid, i64, bool);

/// Owner of each establishment: tenant id by CNPJ.
pub(crate) type Owners = BTreeMap<String, Uuid>;

/// Expected numbers of one batch's items.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    items: i64,
    /// Number of items in error, which are in no chunk.
    bad: i64,
    /// Number of items that are refused because their establishment belongs to another tenant.
    refused: i64,
}

pub(crate) struct Model {
    products: BTreeMap<Key, Row>,
    errors: BTreeSet<(Uuid, i64)>,
    batches: BTreeMap<Uuid, Counts>,
}

impl Model {
    pub(crate) fn of(sent: &[Sent], owners: &Owners) -> Self {
        let mut winners: BTreeMap<Key, ((Timestamp, Stamp, i64), String)> = BTreeMap::new();
        let (mut errors, mut batches) = (BTreeSet::new(), BTreeMap::new());
        for batch in sent {
            let bad = (0..).zip(&batch.items).filter(|(_, item)| matches!(item, SentItem::Bad(_)));
            let bad: Vec<i64> = bad.map(|(index, _)| index).collect();
            let refused = refused(batch, owners);
            let count = |indexes: &[i64]| i64::try_from(indexes.len()).unwrap();
            let items = i64::try_from(batch.items.len()).unwrap();
            batches.insert(batch.batch_id, Counts { items, bad: count(&bad), refused: count(&refused) });
            errors.extend(bad.into_iter().chain(refused).map(|index| (batch.batch_id, index)));
            for (index, item) in (0..).zip(&batch.items) {
                let SentItem::Good { key, title, .. } = item else { continue };
                if !batch.owns(key, owners) {
                    continue;
                }
                let version = version(batch, item, index);
                let winner = winners.entry(key.clone()).or_insert_with(|| (version, title.clone()));
                if version > winner.0 {
                    *winner = (version, title.clone());
                }
            }
        }
        let active = active(sent, owners);
        let row = |(key, ((_, (_, batch_id), index), title)): (Key, _)| {
            let is_active = active[&key];
            (key, (title, batch_id, index, is_active))
        };
        Self { products: winners.into_iter().map(row).collect(), errors, batches }
    }

    pub(crate) fn items(&self) -> i64 {
        self.batches.values().map(|counts| counts.items).sum()
    }

    /// Checks that the database has the model's rows, and that each batch's counts add up.
    pub(crate) async fn check(&self, database: &Client) {
        let sql = "SELECT cnpj, productid, title, last_batch_id, last_item_index, active FROM products";
        let rows = database.query(sql, &[]).await.unwrap();
        let actual: BTreeMap<Key, Row> = rows
            .iter()
            .map(|row| ((row.get(0), row.get(1)), (row.get(2), row.get(3), row.get(4), row.get(5))))
            .collect();
        for (key, (title, batch_id, index, is_active)) in &self.products {
            let found = actual.get(key).unwrap_or_else(|| panic!("{key:?} was lost"));
            assert_eq!(
                (&found.0, found.3),
                (title, *is_active),
                "{key:?} is {found:?}, not of {batch_id} {index}"
            );
        }
        assert_eq!(actual.len(), self.products.len(), "there are products that nobody sent");

        let rows = database.query("SELECT batch_id, item_index FROM batch_item_errors", &[]).await.unwrap();
        let errors: BTreeSet<(Uuid, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(errors, self.errors);

        let sql = "SELECT batch_id, items_parsed, items_failed, inserted + updated + unchanged + stale, status, \
             (SELECT sum(items)::bigint FROM batch_chunks c WHERE c.batch_id = b.batch_id AND c.status = 'DONE') FROM batches b";
        let rows = database.query(sql, &[]).await.unwrap();
        assert_eq!(rows.len(), self.batches.len(), "a batch was made twice, or never");
        for row in &rows {
            let Counts { items, bad, refused } = self.batches[&row.get::<_, Uuid>(0)];
            let (parsed, failed, processed): (i64, i64, i64) = (row.get(1), row.get(2), row.get(3));
            let (status, in_chunks): (String, i64) = (row.get(4), row.get(5));
            assert_eq!(
                (parsed, failed, processed, in_chunks),
                (items, bad + refused, items - bad - refused, items - bad)
            );
            assert_eq!(status, "COMPLETED");
        }
    }
}

fn stamp(batch: &Sent) -> Stamp {
    (batch.received_at, batch.batch_id)
}

fn version(batch: &Sent, item: &SentItem, index: i64) -> (Timestamp, Stamp, i64) {
    let SentItem::Good { updated_at, .. } = item else { panic!("{item:?} has no version") };
    let effective = updated_at.map_or(batch.received_at, |at: Timestamp| at.min(batch.received_at));
    (effective, stamp(batch), index)
}

/// Returns the indices of a batch's items that are refused because their establishment belongs to
/// another tenant. Of several items of one product only the greatest version is refused. The others
/// count as stale, since the chunker sorts items that come in random order before it cuts chunks.
fn refused(batch: &Sent, owners: &Owners) -> Vec<i64> {
    let mut last = BTreeMap::new();
    for (index, item) in (0..).zip(&batch.items) {
        let Some(key) = item.contained().filter(|key| !batch.owns(key, owners)) else { continue };
        let version = version(batch, item, index);
        let kept = last.entry(key).or_insert(version);
        *kept = version.max(*kept);
    }
    last.into_values().map(|(_, _, index)| index).collect()
}

/// Returns whether each product must be active after all batches.
fn active(sent: &[Sent], owners: &Owners) -> HashMap<Key, bool> {
    let mut batches: Vec<&Sent> = sent.iter().collect();
    batches.sort_by_key(|batch| stamp(batch));
    let mut active: HashMap<Key, bool> = HashMap::new();
    // All batches before a product's first one lacked it.
    for batch in batches {
        let good = batch.items.iter().filter_map(SentItem::contained).filter(|key| batch.owns(key, owners));
        let good: HashSet<&Key> = good.collect();
        let spared: HashSet<&Key> = batch.items.iter().filter_map(SentItem::spared).collect();
        let decides = batch.is_full && !batch.items.iter().any(|item| matches!(item, SentItem::Bad(None)));
        if decides {
            let establishments: HashSet<&str> = good.iter().map(|key| key.0.as_str()).collect();
            for (key, is_active) in &mut active {
                if establishments.contains(key.0.as_str()) && !spared.contains(key) {
                    *is_active = false;
                }
            }
        }
        active.extend(good.into_iter().map(|key| (key.clone(), true)));
    }
    active
}

impl Sent {
    /// Returns true if the product's establishment belongs to the tenant that sent this batch.
    fn owns(&self, key: &Key, owners: &Owners) -> bool {
        owners.get(&key.0) == Some(&self.tenant_id)
    }
}

impl SentItem {
    fn contained(&self) -> Option<&Key> {
        match self {
            Self::Good { key, .. } => Some(key),
            Self::Bad(_) => None,
        }
    }

    /// Returns the product of an item in error, which its batch neither contains nor lacks. Returns
    /// `None` for a good item, and if the product's key cannot be read.
    fn spared(&self) -> Option<&Key> {
        match self {
            Self::Bad(key) => key.as_ref(),
            Self::Good { .. } => None,
        }
    }
}
