//! Tests of a replay's effects on products, deactivations and reports.

use catalog::ChunkingOutcome;
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, ReplayRefusal, ReplayScope};
use ingestion::chunk::Plan;
use serde_json::json;

use super::{ROWS, SECOND, again, begin, confirm, refused, shown, write};
use crate::support::{Item, Load, TENANT, database_test, product};

#[test]
fn a_held_deactivation_is_carried_out_once_it_is_confirmed() {
    database_test(async |test| {
        let database = test.open();
        let even = |number: u32| (0..number).map(|key| key * 2);
        Load::full(1).keys(even(240)).run(&database).await;
        let load = Load::full(2).keys(even(100));
        load.run(&database).await;
        assert_eq!(shown(test, &load).await["deactivation"]["state"], "held");
        assert_eq!(refused(&database, &load, ReplayScope::Failed).await, ReplayRefusal::OnlyHeld);
        // Replayed again without a confirmation, the deactivation is held again.
        begin(&database, &load, ReplayScope::All).await;
        write(&database, &again(&load.chunks[0], SECOND)).await;
        assert_eq!(shown(test, &load).await["deactivation"]["would_deactivate"], 140);

        let begun = confirm(&database, &load, ReplayScope::Failed, true).await;
        assert_eq!(
            (begun.generation, begun.status, begun.chunks),
            (SECOND.next(), BatchStatus::Processing, 0)
        );
        let view = shown(test, &load).await;
        assert_eq!(
            (&view["status"], &view["deactivation"]["state"]),
            (&json!("PROCESSING"), &json!("pending"))
        );
        let nothing = database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        assert_eq!(nothing, ChunkingOutcome::Sealed { generation: begun.generation, pending: Vec::new() });
        // Nobody may replay it meanwhile, or deactivate twice.
        let under_way = ReplayRefusal::UnderWay(BatchStatus::Processing);
        assert_eq!(refused(&database, &load, ReplayScope::All).await, under_way);
        let end = database.finalize(load.id()).await.unwrap();
        assert_eq!((end.status, end.became_final), (BatchStatus::Completed, true));
        assert!(!database.finalize(load.id()).await.unwrap().became_final);
        assert_eq!(test.products().await.0.len(), 100);
        let view = shown(test, &load).await;
        assert_eq!(
            (&view["deactivation"]["state"], &view["changes"]["deactivated"]),
            (&json!("done"), &json!(140))
        );
        assert_eq!(view["items_processed"], 100);
    });
}

#[test]
fn a_confirmation_is_its_own_generation_s_only() {
    database_test(async |test| {
        let database = test.open();
        let even = |number: u32| (0..number).map(|key| key * 2);
        Load::full(1).keys(even(240)).run(&database).await;
        let load = Load::full(3).keys(even(100));
        load.run(&database).await;
        confirm(&database, &load, ReplayScope::All, true).await;
        write(&database, &again(&load.chunks[0], SECOND)).await;
        assert_eq!(test.products().await.0.len(), 100);
        // Two hundred come back, and this time nobody said that they may go.
        Load::delta(2).keys(even(240)).run(&database).await;
        assert_eq!(test.products().await.0.len(), 100, "what was decided stays decided");
        let begun = begin(&database, &load, ReplayScope::All).await;
        test.execute(
            "UPDATE products SET active = true, deactivated_at = NULL; UPDATE batch_cnpjs SET deactivation = NULL",
        )
        .await;
        write(&database, &again(&load.chunks[0], begun.generation)).await;
        assert_eq!(shown(test, &load).await["deactivation"]["state"], "held");
    });
}

#[test]
fn what_a_full_load_decided_stays_decided_while_it_is_replayed() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let load = Load::full(3).keys([2]);
        load.run(&database).await;
        let (active, inactive) = test.products().await;
        begin(&database, &load, ReplayScope::All).await;
        // An earlier batch that comes late brings nothing back.
        Load::delta(2).keys([4]).run(&database).await;
        // And a later full load that fails half way takes nothing of it over.
        let later = Load::full(4).keys([2]).keys([4]);
        later.prepare(&database).await;
        test.give_up(&later.chunks[1]).await;
        write(&database, &later.chunks[0]).await;
        write(&database, &again(&load.chunks[0], SECOND)).await;
        assert_eq!(test.products().await, (active, inactive));
        let sql = format!(
            "SELECT count(*) FROM batch_cnpjs WHERE batch_id = '{}' AND deactivation = 'done'",
            load.id()
        );
        assert_eq!(test.number(&sql).await, 1);
    });
}

#[test]
fn replaying_an_old_batch_does_not_roll_newer_data_back() {
    database_test(async |test| {
        let database = test.open();
        let old = Load::full(1).items(&[Item::of(2, 1), Item::of(4, 1)]);
        old.run(&database).await;
        Load::full(2).items(&[Item::of(2, 2)]).run(&database).await;
        Load::delta(3).items(&[Item::of(6, 3)]).run(&database).await;
        let before = test.number(ROWS).await;
        begin(&database, &old, ReplayScope::All).await;
        let (changes, status) = write(&database, &again(&old.chunks[0], SECOND)).await;
        assert_eq!((changes.stale, changes.unchanged, status), (1, 1, BatchStatus::Completed));
        assert_eq!(test.number(ROWS).await, before);
    });
}

#[test]
fn items_that_were_refused_leave_the_report_once_they_pass() {
    database_test(async |test| {
        let database = test.open();
        let mut bad = product(Item::of(8, 1));
        // PostgreSQL's time begins in 4713 BC.
        bad.attributes.source_created_at = Some("-009000-01-01T00:00:00Z".parse().unwrap());
        let good = [2, 4].map(|key| product(Item::of(key, 1)));
        let load = Load::delta(1).products(good.into_iter().chain([bad])).error(Some(6));
        load.run(&database).await;
        // As if the second item had been refused by a schema that a migration has widened since.
        test.execute(
            "INSERT INTO batch_item_errors (batch_id, item_index, byte_offset, code, detail, key) \
             SELECT batch_id, 1, 0, 'REJECTED_BY_DATABASE', '', '{}' FROM batches",
        )
        .await;
        begin(&database, &load, ReplayScope::All).await;
        let (changes, status) = write(&database, &again(&load.chunks[0], SECOND)).await;
        assert_eq!((changes.unchanged, status), (2, BatchStatus::Completed));
        let errors =
            database.item_errors(&Viewer::whole(TENANT), load.id(), None, 10).await.unwrap().unwrap().errors;
        let items: Vec<u64> = errors.iter().map(|error| error.item_index).collect();
        assert_eq!(items, [2, 3], "what is refused again, and what was wrong with an item itself");
        assert_eq!(shown(test, &load).await["items_failed"], 2);
    });
}

#[test]
fn a_replayed_chunk_that_fails_leaves_what_was_known_of_it() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let load = Load::full(2).keys([2]).keys([4]);
        load.run(&database).await;
        begin(&database, &load, ReplayScope::All).await;
        test.give_up(&again(&load.chunks[0], SECOND)).await;
        let (_, status) = write(&database, &again(&load.chunks[1], SECOND)).await;
        assert_eq!(status, BatchStatus::PartialFail);
        // A full load from before it finds that product 2 was contained.
        let earlier = Load::full(0).keys([8]);
        earlier.run(&database).await;
        assert_eq!(test.products().await.0, ["p0002", "p0004"]);
        let begun = begin(&database, &load, ReplayScope::Failed).await;
        assert_eq!((begun.chunks, begun.generation), (1, SECOND.next()));
        let (changes, status) = write(&database, &again(&load.chunks[0], begun.generation)).await;
        assert_eq!((changes.unchanged, status), (1, BatchStatus::Completed));
        assert_eq!(shown(test, &load).await["items_processed"], 2);
    });
}
