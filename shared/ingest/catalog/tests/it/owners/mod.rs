//! Tests of establishments that belong to one tenant, and of items of other tenants that are
//! refused.

mod administration;
mod full_loads;
mod replays;

use catalog::{BatchView, Database, OwnerChange, OwnerRequest, OwnerRule, WriteOutcome};
use ingestion::batch::{BatchStatus, Changes, ChunkResult};
use ingestion::product::{ItemErrorCode, Product};
use ingestion::{Cnpj, Viewer};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Item, Load, OTHER_TENANT, TENANT, TestDatabase, cnpj, database_test, product};

/// Query for a hash over all rows of `products`, including their physical positions. Any write of a
/// row changes it, even without a change of content.
const ROWS: &str =
    "SELECT COALESCE(sum(hashtext(xmin::text || ctid::text || p::text)), 0)::bigint FROM products p";

/// Returns the CNPJ of the establishment that has the products with even keys.
fn even() -> Cnpj {
    cnpj(0)
}

fn ids(keys: impl IntoIterator<Item = u32>) -> Vec<String> {
    keys.into_iter().map(|key| format!("p{key:04}")).collect()
}

async fn shown(database: &Database, load: &Load) -> BatchView {
    database.batch(&Viewer::whole(load.tenant()), load.id()).await.unwrap().unwrap()
}

async fn deactivation(database: &Database, load: &Load) -> Value {
    serde_json::to_value(shown(database, load).await.deactivation).unwrap()
}

fn skipped(reason: &str) -> Value {
    json!({"state": "skipped", "would_deactivate": 0, "reason": reason})
}

/// Returns the codes of the load's items in error that the database lists, in the order of the
/// payload.
async fn codes(database: &Database, load: &Load) -> Vec<ItemErrorCode> {
    let page = database.item_errors(&Viewer::whole(load.tenant()), load.id(), None, 1000).await;
    page.unwrap().unwrap().errors.iter().map(|error| error.code).collect()
}

async fn write(database: &Database, load: &Load, chunk: usize) -> ChunkResult {
    let written = database.write_chunk(&load.chunks[chunk]).await.unwrap();
    let WriteOutcome::Done { result, .. } = written else { panic!("{written:?}") };
    result
}

async fn owner(test: &TestDatabase, cnpj: Cnpj) -> Option<Uuid> {
    let sql = "SELECT tenant_id FROM establishments WHERE cnpj = $1";
    test.client.query_opt(sql, &[&cnpj.as_str()]).await.unwrap().map(|row| row.get(0))
}

async fn change(database: &Database, change: OwnerChange) {
    let request = OwnerRequest { change, cnpjs: &[even()], by: "tests", dry_run: false };
    let answer = database.change_owners(request).await.unwrap();
    assert_eq!(answer.changed, [even()], "{answer:?}");
}

/// Moves the establishment of the products with even keys from [`TENANT`] to [`OTHER_TENANT`].
async fn move_to_other(database: &Database) {
    change(database, OwnerChange::Move { from: TENANT, to: OTHER_TENANT }).await;
}

#[test]
fn the_first_tenant_that_loads_an_establishment_owns_it_and_another_s_items_are_in_error() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4]).run(&database).await;
        assert_eq!(owner(test, even()).await, Some(TENANT));
        let before = test.number(ROWS).await;
        // What is equal to the tenant's, what changes it, what is new, and what repeats a key.
        let items = [Item::of(2, 0), Item::of(4, 1), Item::of(6, 0), Item::of(6, 1)];
        let theirs = Load::delta(2).items(&items).of_other_tenant();
        assert_eq!(theirs.run(&database).await, BatchStatus::Completed);
        assert_eq!(test.number(ROWS).await, before);
        let view = shown(&database, &theirs).await;
        assert_eq!((view.items_parsed, view.items_failed, view.items_processed), (4, 3, 1));
        assert_eq!(view.changes.stale, 1, "the one that a later one replaced");
        let page = database.item_errors(&Viewer::whole(OTHER_TENANT), theirs.id(), None, 10).await;
        let errors = serde_json::to_value(page.unwrap().unwrap().errors).unwrap();
        assert_eq!(errors[2]["item_index"], 3);
        assert_eq!((&errors[0]["code"], &errors[0]["field"]), (&json!("CNPJ_NOT_ALLOWED"), &json!("CNPJ")));
        assert!(!errors.to_string().contains(&TENANT.to_string()), "{errors}");
        assert_eq!(owner(test, even()).await, Some(TENANT));
    });
}

#[test]
fn a_batch_of_which_nothing_was_the_tenant_s_warns_that_it_loaded_nothing() {
    database_test(async |test| {
        let database = test.open();
        Load::delta(1).keys([2]).run(&database).await;
        let theirs = Load::delta(2).keys([2, 4]).error(Some(6)).of_other_tenant();
        // The first of two items with one key is not refused by itself: the second replaces it.
        let twice = Load::delta(4).items(&[Item::of(6, 0), Item::of(6, 1)]).of_other_tenant();
        for load in [theirs, twice] {
            load.run(&database).await;
            let warnings = shown(&database, &load).await.warnings;
            assert!(warnings.iter().any(|warning| warning.contains("nothing was loaded")), "{warnings:?}");
        }
        let in_part = Load::delta(3).keys([2, 3]).of_other_tenant();
        in_part.run(&database).await;
        assert_eq!(shown(&database, &in_part).await.warnings, [""; 0]);
    });
}

#[test]
fn without_an_entry_nobody_loads_an_establishment_if_entries_rule() {
    database_test(async |test| {
        let database = test.open().with_owner_rule(OwnerRule::Entry);
        let before = Load::delta(1).keys([2, 3]);
        before.run(&database).await;
        assert_eq!(codes(&database, &before).await, [ItemErrorCode::CnpjNotAllowed; 2]);
        assert_eq!((owner(test, even()).await, test.products().await.0), (None, ids([])));
        change(&database, OwnerChange::Assign { tenant: TENANT }).await;
        let after = Load::delta(2).keys([2, 3]);
        after.run(&database).await;
        assert_eq!(test.products().await.0, ids([2]));
        // An establishment that was released is nobody's, for its products too.
        change(&database, OwnerChange::Release { tenant: TENANT }).await;
        let later = Load::full(3).keys([4]);
        later.run(&database).await;
        assert_eq!(test.products().await, (ids([2]), ids([])));
        assert_eq!(deactivation(&database, &later).await, skipped("not_owned"));
    });
}

#[test]
fn of_two_tenants_that_load_an_establishment_at_once_one_owns_it_alone() {
    database_test(async |test| {
        let (one, other) = (test.open(), test.open());
        for round in 0..20 {
            let cnpj = cnpj(10 + round);
            let load = |load: Load| {
                load.products((0..50).map(|key| {
                    let mut product = product(Item::of(key, round));
                    product.key.cnpj = cnpj;
                    product
                }))
            };
            let (mine, theirs) = (load(Load::full(1)), load(Load::full(2)).of_other_tenant());
            mine.prepare(&one).await;
            theirs.prepare(&other).await;
            let results = tokio::join!(write(&one, &mine, 0), write(&other, &theirs, 0));
            let owner = owner(test, cnpj).await.unwrap();
            let all = Changes { inserted: 50, ..Changes::default() };
            let (kept, refused, load) =
                if owner == TENANT { (results.0, results.1, &mine) } else { (results.1, results.0, &theirs) };
            assert_eq!((kept.changes(), kept.rejected()), (all, 0));
            assert_eq!((refused.changes(), refused.rejected()), (Changes::default(), 50));
            let foreign = format!(
                "SELECT count(*) FROM products WHERE cnpj = '{}' AND (last_batch_id <> '{}' OR NOT active)",
                cnpj.as_str(),
                load.id()
            );
            assert_eq!(test.number(&foreign).await, 0);
        }
        assert_eq!(
            test.number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await,
            0
        );
    });
}

/// Checks that only one of two tenants becomes the owner of a released establishment if both write
/// chunks of it at the same time. Neither chunk changes products, so both begin with shared locks;
/// becoming the owner needs exclusive ones.
#[test]
fn of_two_tenants_whose_chunks_change_nothing_one_owns_what_was_released() {
    database_test(async |test| {
        let (one, other) = (test.open(), test.open());
        Load::delta(0).keys([2, 4]).run(&one).await;
        Load::delta(0).keys([3]).of_other_tenant().run(&other).await;
        for round in 1..10 {
            // Each connection meets a chunk that changes nothing.
            let mine = Load::delta(round).keys([2, 4]).keys([2, 4]);
            let theirs = Load::delta(round).keys([3]).keys([2, 4]).of_other_tenant();
            mine.prepare(&one).await;
            theirs.prepare(&other).await;
            write(&one, &mine, 0).await;
            write(&other, &theirs, 0).await;
            let tenant = owner(test, even()).await.unwrap();
            change(&one, OwnerChange::Release { tenant }).await;
            let (first, second) = tokio::join!(write(&one, &mine, 1), write(&other, &theirs, 1));
            let refused = if owner(test, even()).await == Some(TENANT) { (0, 2) } else { (2, 0) };
            assert_eq!((first.rejected(), second.rejected()), refused);
            if refused == (2, 0) {
                change(&one, OwnerChange::Move { from: OTHER_TENANT, to: TENANT }).await;
            }
        }
    });
}

#[test]
fn the_report_lists_so_many_refused_items_and_counts_the_others() {
    database_test(async |test| {
        let database = test.open().with_listed_errors(3);
        Load::delta(1).keys([2]).run(&database).await;
        let good = (3..8).map(|key| product(Item::of(key, 1)));
        let theirs = Load::delta(2).products(bad_dates().into_iter().chain(good)).of_other_tenant();
        theirs.run(&database).await;
        let view = shown(&database, &theirs).await;
        assert_eq!((view.items_failed, view.items_processed, view.errors_omitted), (5, 3, 2));
        assert_eq!(codes(&database, &theirs).await.len(), 3);
        let (all, again) = (test.open(), Load::delta(3).products(bad_dates()).of_other_tenant());
        again.run(&all).await;
        let expected =
            [ItemErrorCode::CnpjNotAllowed, ItemErrorCode::RejectedByDatabase, ItemErrorCode::CnpjNotAllowed];
        assert_eq!(codes(&all, &again).await, expected);
    });
}

/// Returns three products with a date that PostgreSQL refuses, with keys of two establishments in
/// turn.
fn bad_dates() -> Vec<Product<'static>> {
    let bad = |key| {
        let mut product = product(Item::of(key, 1));
        // PostgreSQL's time begins in 4713 BC.
        product.attributes.source_created_at = Some("-009000-01-01T00:00:00Z".parse().unwrap());
        product
    };
    (0..3).map(bad).collect()
}
