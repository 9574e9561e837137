use catalog::{Database, WriteOutcome};
use ingestion::batch::Changes;

use crate::support::{Item, Load, TestDatabase, database_test, product};

/// Writes products 0 to 399 of two establishments into an empty database.
async fn with_products(test: &TestDatabase) {
    let load = Load::delta(0).keys(0..400);
    load.run(&test.open()).await;
    // As autovacuum would soon: the planner is to know the table.
    test.execute("ANALYZE products").await;
}

/// Writes the products with these keys as a later load, on a new connection. Every seventh has
/// other content than before. Returns the numbers of inserted, updated and unchanged products.
async fn load(test: &TestDatabase, keys: impl IntoIterator<Item = u32>) -> Changes {
    load_by(&test.open(), test, keys).await
}

async fn load_by(database: &Database, test: &TestDatabase, keys: impl IntoIterator<Item = u32>) -> Changes {
    let items: Vec<Item> =
        keys.into_iter().map(|key| Item::of(key, u32::from(key.is_multiple_of(7)))).collect();
    let load = Load::delta(100).items(&items);
    load.prepare(database).await;
    let WriteOutcome::Done { result, .. } = database.write_chunk(&load.chunks[0]).await.unwrap() else {
        panic!("it was written before")
    };
    let changed = format!("SELECT count(*) FROM products WHERE last_batch_id = '{}'", load.id());
    assert_eq!(
        test.number(&changed).await,
        i64::try_from(result.changes().updated + result.changes().inserted).unwrap()
    );
    result.changes()
}

const fn counts(inserted: u64, updated: u64, unchanged: u64) -> Changes {
    Changes { inserted, updated, unchanged, stale: 0 }
}

#[test]
fn neighbours_are_found_also_where_some_are_new() {
    database_test(async |test| {
        with_products(test).await;
        assert_eq!(load(test, 100..200).await, counts(0, 14, 86));
        assert_eq!(load(test, 350..450).await, counts(50, 8, 42));
        assert_eq!(load(test, 1000..1100).await, counts(100, 0, 0));
    });
}

#[test]
fn neighbours_are_found_that_have_others_between_them() {
    database_test(async |test| {
        with_products(test).await;
        // Every second and every third product of an establishment.
        assert_eq!(load(test, (100..300).step_by(4)).await, counts(0, 7, 43));
        assert_eq!(load(test, (101..401).step_by(6)).await, counts(0, 7, 43));
    });
}

#[test]
fn scattered_products_are_found_among_many_others() {
    database_test(async |test| {
        with_products(test).await;
        // Of an establishment's 200, 25 lie between the first and the last of 4, and nearly all
        // between those of 9.
        assert_eq!(load(test, (98..150).step_by(16)).await, counts(0, 1, 3));
        assert_eq!(load(test, (0..432).step_by(48)).await, counts(0, 2, 7));
        assert_eq!(load(test, (1..2000).step_by(111)).await, counts(15, 1, 3));
    });
}

#[test]
fn one_connection_finds_neighbours_and_scattered_products_by_turns() {
    database_test(async |test| {
        with_products(test).await;
        let database = test.open();
        assert_eq!(load_by(&database, test, 100..150).await, counts(0, 7, 43));
        assert_eq!(load_by(&database, test, 150..200).await, counts(0, 7, 43));
        assert_eq!(load_by(&database, test, (0..432).step_by(48)).await, counts(0, 2, 7));
        assert_eq!(load_by(&database, test, 200..250).await, counts(0, 7, 43));
        assert_eq!(load_by(&database, test, 390..440).await, counts(40, 2, 8));
    });
}

#[test]
fn each_shop_is_looked_up_by_itself() {
    database_test(async |test| {
        let of_shops = |shops: std::ops::Range<i32>| {
            shops.flat_map(|shop| {
                (0..10).map(move |key| {
                    let mut product = product(Item::of(key, 1));
                    product.key.shop_id = shop;
                    product
                })
            })
        };
        let database = test.open();
        Load::delta(0).products(of_shops(1..6)).run(&database).await;
        let again = Load::delta(100).products(of_shops(3..9));
        again.prepare(&database).await;
        let WriteOutcome::Done { result, .. } = database.write_chunk(&again.chunks[0]).await.unwrap() else {
            panic!("it was written before")
        };
        assert_eq!(result.changes(), counts(30, 0, 30));
        assert_eq!(test.number("SELECT count(DISTINCT shopid) FROM products").await, 8);
    });
}
