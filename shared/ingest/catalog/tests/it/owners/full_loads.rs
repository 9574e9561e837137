//! Tests of full loads of two tenants. Each load deactivates products only in establishments of its
//! own tenant, by comparison with the tenant's own batches.

use catalog::DatabaseError;
use ingestion::batch::{BatchStatus, ReplayScope};
use serde_json::json;

use super::{ROWS, deactivation, even, ids, move_to_other, owner, shown, skipped, write};
use crate::end_of_load::many_later_chunks;
use crate::replay::confirm;
use crate::support::{Item, Load, TENANT, TestDatabase, cnpj, database_test, product};

/// Makes the finalization of every load fail from now on, as if the function had been cut off
/// before it.
async fn prevent_the_end(test: &TestDatabase) {
    test.execute(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END'; \
         CREATE TRIGGER no_end BEFORE UPDATE ON batch_cnpjs EXECUTE FUNCTION fail()",
    )
    .await;
}

#[test]
fn a_full_load_leaves_another_tenant_s_products_alone() {
    database_test(async |test| {
        let database = test.open();
        // Enough for the guard, which judges the tenant's own establishments only.
        Load::full(1).keys((0..240).map(|key| key * 2)).run(&database).await;
        Load::full(1).keys([1, 3, 5]).of_other_tenant().run(&database).await;
        let before = test.number(ROWS).await;
        let all_foreign = Load::full(2).keys([2]).of_other_tenant();
        assert_eq!(all_foreign.run(&database).await, BatchStatus::Completed);
        assert_eq!(deactivation(&database, &all_foreign).await, skipped("not_owned"));
        assert_eq!(test.number(ROWS).await, before);

        let mixed = Load::full(3).keys([2, 3]).of_other_tenant();
        mixed.run(&database).await;
        let done = json!({"state": "done", "would_deactivate": 0, "reason": "not_owned"});
        assert_eq!(deactivation(&database, &mixed).await, done);
        assert_eq!(shown(&database, &mixed).await.changes.deactivated, 2);
        let (active, inactive) = test.products().await;
        assert_eq!((active.len(), inactive), (241, ids([1, 5])));
    });
}

#[test]
fn a_full_load_of_many_establishments_decides_its_own_and_counts_no_other() {
    database_test(async |test| {
        let database = test.open();
        let of = |establishment, key| {
            let mut product = product(Item::of(key, 0));
            product.key.cnpj = cnpj(100 + establishment);
            product
        };
        // The guard looks before the first of 80 establishments is decided.
        Load::full(1).products((0..80).map(|place| of(place / 2, place % 2))).run(&database).await;
        let theirs = (80..160).map(|place| of(place / 2, place % 2));
        Load::full(1).products(theirs).of_other_tenant().run(&database).await;
        let mine = Load::full(2).products((0..80).map(|establishment| of(establishment, 0)));
        mine.run(&database).await;
        assert_eq!(shown(&database, &mine).await.changes.deactivated, 40);
        let theirs = "SELECT count(*) FROM products p JOIN establishments e USING (cnpj) \
             WHERE NOT active AND e.tenant_id <> '11111111-1111-4111-8111-111111111111'";
        assert_eq!(test.number(theirs).await, 0);
        let decided = "SELECT count(*) FROM batch_cnpjs WHERE deactivation = 'not_owned'";
        assert_eq!(test.number(decided).await, 40);
    });
}

#[test]
fn another_tenant_s_later_batch_protects_no_product_and_takes_no_decision_over() {
    for theirs in [Load::delta(3), Load::full(3)] {
        database_test(async |test| {
            let database = test.open();
            Load::full(1).keys([2, 4, 6]).run(&database).await;
            let mine = Load::full(2).keys([2]);
            mine.prepare(&database).await;
            let theirs = theirs.clone().keys([4]).of_other_tenant();
            theirs.prepare(&database).await;
            // Before theirs is refused, it is only known that it will come.
            let pending = Load::full(4).keys([6]).of_other_tenant();
            pending.prepare(&database).await;
            write(&database, &theirs, 0).await;
            write(&database, &mine, 0).await;
            assert_eq!(test.products().await, (ids([2]), ids([4, 6])));
            assert_eq!(deactivation(&database, &mine).await["state"], "done");
            write(&database, &pending, 0).await;
            assert_eq!(test.products().await, (ids([2]), ids([4, 6])));
        });
    }
}

#[test]
fn what_another_tenant_repeats_confirms_no_content() {
    database_test(async |test| {
        let database = test.open();
        Load::delta(1).keys([2]).run(&database).await;
        Load::delta(50).keys([2]).of_other_tenant().run(&database).await;
        // Received before theirs, and written after it.
        let late = Load::delta(20).items(&[Item::of(2, 1)]);
        late.prepare(&database).await;
        assert_eq!(write(&database, &late, 0).await.changes().updated, 1);
    });
}

#[test]
fn another_tenant_s_many_batches_make_no_load_too_late() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let mine = Load::full(2).keys([2]);
        mine.prepare(&database).await;
        // Each has a product of its tenant's own beside the foreign one.
        many_later_chunks(test, Load::delta(100).keys([2, 3]).of_other_tenant(), 8192).await;
        write(&database, &mine, 0).await;
        assert_eq!(test.products().await, (ids([2, 3]), ids([4, 6])));
    });
}

#[test]
fn an_establishment_that_left_the_tenant_before_the_end_of_its_load_is_not_decided() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4]).run(&database).await;
        let load = Load::full(2).keys([2]);
        load.prepare(&database).await;
        prevent_the_end(test).await;
        let error = database.write_chunk(&load.chunks[0]).await.unwrap_err();
        assert!(matches!(error, DatabaseError::Rejected(_)), "{error:?}");
        test.execute("DROP FUNCTION fail CASCADE").await;
        move_to_other(&database).await;
        let end = database.finalize(load.id()).await.unwrap();
        assert_eq!((end.status, end.became_final), (BatchStatus::Completed, true));
        assert_eq!(deactivation(&database, &load).await, skipped("not_owned"));
        assert_eq!(test.products().await, (ids([2, 4]), ids([])));
    });
}

#[test]
fn a_confirmation_carries_nothing_out_after_the_establishment_was_moved() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys((0..240).map(|key| key * 2)).run(&database).await;
        let load = Load::full(2).keys([2]);
        load.run(&database).await;
        assert_eq!(deactivation(&database, &load).await["state"], "held");
        move_to_other(&database).await;
        confirm(&database, &load, ReplayScope::Failed, true).await;
        database.finalize(load.id()).await.unwrap();
        assert_eq!(deactivation(&database, &load).await, skipped("not_owned"));
        assert_eq!(test.products().await.0.len(), 240);
        assert_ne!(owner(test, even()).await, Some(TENANT));
    });
}
