use catalog::{Database, UsageDay, UsageItems};
use ingestion::batch::ReplayScope;
use ingestion::chunk::Generation;
use jiff::civil::{Date, date};
use uuid::Uuid;

use crate::replay::{again, begin};
use crate::support::{Item, Load, OTHER_TENANT, TENANT, TestDatabase, database_test};

/// Day on which the batches of these tests are received.
const DAY: Date = date(2026, 11, 21);
const MOST: u32 = 100;

async fn usage(database: &Database, tenant: Option<Uuid>) -> Vec<UsageDay> {
    database.usage((DAY, DAY), tenant, None, MOST).await.unwrap()
}

async fn additions(test: &TestDatabase) -> i64 {
    test.number("SELECT count(*) FROM usage_additions").await
}

/// Returns the tenant's expected usage on [`DAY`], if its batches had these items and their
/// payloads have 100 bytes for each item.
fn of(tenant: Uuid, batches: u64, items: UsageItems) -> UsageDay {
    let UsageItems { inserted, updated, unchanged, stale, failed } = items;
    UsageDay {
        tenant,
        day: DAY,
        batches,
        bytes: 100 * (inserted + updated + unchanged + stale + failed),
        items,
        stored_bytes: 0,
    }
}

#[test]
fn batches_count_for_their_tenant_when_they_are_final_and_still_do_when_they_are_deleted() {
    database_test(async |test| {
        let database = test.open();
        let first = Load::delta(0).keys([1]).keys([2]);
        first.prepare(&database).await;
        assert_eq!(usage(&database, None).await, []);
        for chunk in &first.chunks {
            database.write_chunk(chunk).await.unwrap();
        }
        Load::delta(1).keys([1, 2, 3]).error(Some(9)).run(&database).await;
        Load::delta(2).of_other_tenant().keys([8]).run(&database).await;
        let own = of(TENANT, 2, UsageItems { inserted: 3, unchanged: 2, failed: 1, ..UsageItems::default() });
        assert_eq!(usage(&database, Some(TENANT)).await, std::slice::from_ref(&own));
        let all = usage(&database, None).await;
        assert_eq!(all.len(), 2, "{all:?}");
        let rest = database.usage((DAY, DAY), None, Some(all[0].tenant), MOST).await.unwrap();
        assert_eq!(rest.as_slice(), &all[1..]);
        assert_eq!(usage(&database, Some(OTHER_TENANT)).await, [all[usize::from(all[0] == own)].clone()]);

        assert_eq!(additions(test).await, 3);
        assert!(!database.fold_usage().await.unwrap());
        assert_eq!((additions(test).await, usage(&database, None).await), (0, all));
        test.execute("DELETE FROM products; DELETE FROM batches").await;
        Load::delta(3).keys([7]).run(&database).await;
        let folds = tokio::join!(database.fold_usage(), usage(&database, Some(TENANT)));
        assert!(folds.0.is_ok() && folds.1[0].batches == 3, "{folds:?}");
        assert_eq!(usage(&database, Some(TENANT)).await[0].items.inserted, 4);
    });
}

#[test]
fn a_replayed_batch_counts_once_with_what_its_items_came_to_last() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).items(&[Item::of(1, 1), Item::of(2, 1)]).error(Some(9));
        load.run(&database).await;
        let first = UsageItems { inserted: 2, failed: 1, ..UsageItems::default() };
        assert_eq!(usage(&database, None).await, [of(TENANT, 1, first)]);
        database.fold_usage().await.unwrap();
        begin(&database, &load, ReplayScope::All).await;
        assert_eq!(usage(&database, None).await, [of(TENANT, 1, first)], "until it is final again");
        for chunk in &load.chunks {
            database.write_chunk(&again(chunk, Generation::FIRST.next())).await.unwrap();
        }
        let last = UsageItems { unchanged: 2, failed: 1, ..UsageItems::default() };
        assert_eq!(usage(&database, None).await, [of(TENANT, 1, last)]);
        database.fold_usage().await.unwrap();
        assert_eq!(usage(&database, None).await, [of(TENANT, 1, last)]);
        assert_eq!(additions(test).await, 0);
    });
}

#[test]
fn a_range_has_both_of_its_days_and_no_more_lines_than_asked() {
    database_test(async |test| {
        let database = test.open();
        Load::delta(0).keys([1]).run(&database).await;
        test.execute(
            "INSERT INTO usage_days SELECT tenant_id, day - n, 1, 0, 0, 0, 0, 0, 0 FROM usage_additions, \
             generate_series(1, 3) n",
        )
        .await;
        let from = |day| (date(2026, 11, day), DAY);
        let days = database.usage(from(19), Some(TENANT), None, MOST).await.unwrap();
        assert_eq!(days.iter().map(|line| line.day.day()).collect::<Vec<_>>(), [19, 20, 21]);
        assert_eq!(database.usage(from(19), None, None, 2).await.unwrap().len(), 2);
        assert_eq!(
            database
                .usage((DAY.tomorrow().unwrap(), DAY.tomorrow().unwrap()), None, None, MOST)
                .await
                .unwrap(),
            []
        );
    });
}

#[test]
fn what_is_stored_at_the_end_of_a_day_are_the_payloads_that_have_not_expired() {
    database_test(async |test| {
        let database = test.open();
        let day = |day| date(2026, 11, day);
        Load::delta(0).keys([1, 2]).run(&database).await;
        Load::delta(1).of_other_tenant().keys([8]).prepare(&database).await;
        test.execute("UPDATE usage_stored_until SET day = '2026-11-20'").await;
        // Slice by slice, until none is left.
        let measure = async |today, retention_days| {
            let mut slices = 0;
            while database.measure_stored(today, retention_days, 1).await.unwrap() {
                slices += 1;
            }
            slices
        };
        let stored = async |of| {
            let days = database.usage((of, of), None, None, MOST).await.unwrap();
            days.iter()
                .map(|line| (line.tenant == TENANT, line.stored_bytes, line.batches))
                .collect::<Vec<_>>()
        };
        assert_eq!(measure(DAY, 30).await, 0, "the day is not over");
        assert!(database.measure_stored(day(22), 30, 1).await.unwrap());
        assert_eq!(stored(DAY).await, [(true, 0, 1)], "it is not whole");
        assert_eq!(measure(day(22), 30).await, 2, "another batch, and the end");
        assert_eq!(measure(day(22), 30).await, 0, "each day is added once");
        let mut first = stored(DAY).await;
        first.sort_unstable();
        assert_eq!(first, [(false, 100, 0), (true, 200, 1)], "a batch in progress is stored, too");
        test.execute("UPDATE batches SET objects_let_go = true WHERE finished_at IS NOT NULL").await;
        assert_eq!(measure(day(23), 2).await, 3);
        assert_eq!(stored(day(22)).await.len(), 2, "its objects are not two days old");
        // Slices of a day that an earlier version added by itself.
        test.execute(
            "INSERT INTO usage_stored_parts SELECT date '2026-11-23', tenant_id, 9, batch_id FROM batches; \
             UPDATE usage_stored_until SET day = '2026-11-23'",
        )
        .await;
        assert_eq!(measure(day(25), 1).await, 3);
        assert!(stored(day(23)).await.is_empty(), "they are of no day");
        assert_eq!(stored(day(24)).await, [(false, 100, 0)], "the other one is not released");
        assert_eq!(test.number("SELECT count(*) FROM usage_stored_parts").await, 0);
    });
}
