//! Tests of replays of batches whose establishments got another owner since.

use catalog::{Database, WriteOutcome};
use ingestion::batch::{ChunkResult, ReplayScope};
use ingestion::chunk::Generation;
use ingestion::product::ItemErrorCode;
use serde_json::json;

use super::{ROWS, codes, deactivation, ids, move_to_other, shown, skipped, write};
use crate::replay::{again, begin};
use crate::support::{Item, Load, database_test};

const SECOND: Generation = Generation::FIRST.next();

async fn rewrite(database: &Database, load: &Load, chunk: usize) -> ChunkResult {
    let written = database.write_chunk(&again(&load.chunks[chunk], SECOND)).await.unwrap();
    let WriteOutcome::Done { result, .. } = written else { panic!("{written:?}") };
    result
}

#[test]
fn a_replay_loads_what_belongs_to_the_tenant_by_now() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4]).run(&database).await;
        let theirs = Load::full(2).items(&[Item::of(2, 1), Item::of(8, 1)]).of_other_tenant();
        theirs.run(&database).await;
        assert_eq!(codes(&database, &theirs).await, [ItemErrorCode::CnpjNotAllowed; 2]);
        move_to_other(&database).await;
        begin(&database, &theirs, ReplayScope::All).await;
        let result = rewrite(&database, &theirs, 0).await;
        assert_eq!((result.changes().updated, result.changes().inserted, result.rejected()), (1, 1, 0));
        assert_eq!(test.products().await, (ids([2, 8]), ids([4])));
        let view = shown(&database, &theirs).await;
        assert_eq!((view.items_failed, view.changes.deactivated), (0, 1));
        assert!(codes(&database, &theirs).await.is_empty());
        assert_eq!(deactivation(&database, &theirs).await["state"], "done");
    });
}

#[test]
fn a_replay_writes_nothing_of_an_establishment_that_left_the_tenant() {
    database_test(async |test| {
        let database = test.open();
        let mine = Load::full(1).keys([2, 4]).keys([3]);
        mine.run(&database).await;
        move_to_other(&database).await;
        Load::full(2).items(&[Item::of(2, 1), Item::of(6, 1)]).of_other_tenant().run(&database).await;
        assert_eq!(test.products().await, (ids([2, 6, 3]), ids([4])));
        let before = test.number(ROWS).await;
        begin(&database, &mine, ReplayScope::All).await;
        assert_eq!(rewrite(&database, &mine, 0).await.rejected(), 2);
        assert_eq!(rewrite(&database, &mine, 1).await.changes().unchanged, 1);
        assert_eq!(test.number(ROWS).await, before);
        assert_eq!(codes(&database, &mine).await, [ItemErrorCode::CnpjNotAllowed; 2]);
        // What it decided about its establishments in the first generation stays decided.
        assert_eq!(deactivation(&database, &mine).await["state"], "done");
    });
}

#[test]
fn a_former_owner_s_later_full_load_withdraws_nothing_of_the_new_owner() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4]).run(&database).await;
        let theirs = Load::delta(2).keys([6]).of_other_tenant();
        theirs.run(&database).await;
        Load::full(3).keys([2]).run(&database).await;
        move_to_other(&database).await;
        begin(&database, &theirs, ReplayScope::All).await;
        assert_eq!(rewrite(&database, &theirs, 0).await.changes().inserted, 1);
        assert_eq!(test.products().await, (ids([2, 6]), ids([4])));
    });
}

#[test]
fn a_load_that_is_replayed_is_left_establishments_again() {
    database_test(async |test| {
        let database = test.open();
        Load::delta(1).keys([2, 4, 6]).run(&database).await;
        let later = Load::full(3).keys([2]).of_other_tenant();
        later.run(&database).await;
        assert_eq!(deactivation(&database, &later).await, skipped("not_owned"));
        move_to_other(&database).await;
        let earlier = Load::full(2).keys([4]).of_other_tenant();
        earlier.prepare(&database).await;
        begin(&database, &later, ReplayScope::All).await;
        write(&database, &earlier, 0).await;
        assert_eq!(deactivation(&database, &earlier).await, skipped("later_full_load"));
        rewrite(&database, &later, 0).await;
        assert_eq!(test.products().await, (ids([2]), ids([4, 6])));
    });
}

/// Checks that a replay of failed chunks deactivates nothing in an establishment of which items
/// stay refused, since the load cannot tell which products are missing there. A replay of all
/// chunks deactivates them.
#[test]
fn a_replay_of_failed_chunks_decides_nothing_about_items_that_stay_refused() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let theirs = Load::full(2).keys([2]).keys([4]).of_other_tenant();
        theirs.prepare(&database).await;
        write(&database, &theirs, 0).await;
        test.give_up(&theirs.chunks[1]).await;
        move_to_other(&database).await;
        begin(&database, &theirs, ReplayScope::Failed).await;
        assert_eq!(rewrite(&database, &theirs, 1).await.changes().unchanged, 1);
        assert_eq!(deactivation(&database, &theirs).await, skipped("not_owned"));
        assert_eq!(test.products().await, (ids([2, 4, 6]), ids([])));
        // A replay of everything decides.
        let begun = begin(&database, &theirs, ReplayScope::All).await;
        for chunk in &theirs.chunks {
            database.write_chunk(&again(chunk, begun.generation)).await.unwrap();
        }
        let done = json!({"state": "done", "would_deactivate": 0, "reason": null});
        assert_eq!(deactivation(&database, &theirs).await, done);
        assert_eq!(test.products().await, (ids([2, 4]), ids([6])));
    });
}
