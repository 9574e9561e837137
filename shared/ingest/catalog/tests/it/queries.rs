use catalog::{BatchFilter, Seal};
use ingestion::Viewer;
use ingestion::batch::BatchStatus;
use ingestion::chunk::{Generation, Plan};
use ingestion::payload::{LoadType, Source};
use serde_json::json;
use uuid::Uuid;

use crate::support::{Load, cnpj, database_test};

#[test]
fn who_reads_the_table_of_batches_finds_the_number_of_processed_items() {
    database_test(async |test| {
        let database = test.open();
        Load::delta(1).keys([1, 2]).run(&database).await;
        Load::delta(2).keys([1, 2, 3]).error(None).run(&database).await;
        let rows = test.rows("SELECT items_processed FROM batches ORDER BY received_at").await;
        let processed: Vec<i64> = rows.iter().map(|row| row.get("items_processed")).collect();
        assert_eq!(processed, [2, 3]);
    });
}

#[test]
fn a_batch_is_shown_as_the_contract_has_it() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::full(0).keys(0..10).keys(10..20).error(Some(100)).error(None);
        load.prepare(&database).await;
        database.write_chunk(&load.chunks[0]).await.unwrap();
        let tenant = load.batch.metadata.tenant_id;
        let view = database.batch(&Viewer::whole(tenant), load.id()).await.unwrap().unwrap();
        let mut shown = serde_json::to_value(view).unwrap();
        assert!(shown["started_at"].take().is_string());
        let expected = json!({
            "batch_id": load.id(), "load_type": "full", "status": "PROCESSING", "source": null,
            "received_at": "2026-11-21T10:00:00Z", "started_at": null, "finished_at": null, "generation": 1,
            "payload": {"bytes": 2200, "checksum": "ab".repeat(32)},
            "items_parsed": 22, "items_processed": 10, "items_failed": 2, "errors_omitted": 0, "items_partial": 0,
            "errors_url": null,
            "changes": {"inserted": 10, "updated": 0, "unchanged": 0, "stale": 0, "deactivated": 0},
            "deactivation": {"state": "skipped", "would_deactivate": 0, "reason": "unreadable_key"},
            "chunks": {"total": 2, "done": 1, "failed": 0, "pending": 1}, "error": null,
            "warnings": ["some items are not JSON or have no readable key, see the errors: they may hold \
                further products, which were not loaded"],
        });
        assert_eq!(shown, expected);
        assert_eq!(database.batch(&Viewer::whole(Uuid::new_v4()), load.id()).await.unwrap(), None);
        assert_eq!(database.final_batch(load.id()).await.unwrap(), None, "it is not final");
        database.write_chunk(&load.chunks[1]).await.unwrap();
        let mut objects = database.final_batch(load.id()).await.unwrap().unwrap().uris;
        objects.sort();
        let mut stored = vec![load.batch.payload_uri.clone()];
        stored.extend(load.seal().chunks.into_iter().map(|chunk| chunk.uri));
        stored.sort();
        assert_eq!(objects, stored);
    });
}

#[test]
fn a_batch_whose_items_lack_members_says_so() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..10);
        database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        let seal = Seal { items_partial: 3, ..load.seal() };
        database.seal(load.id(), Generation::FIRST, &seal).await.unwrap();
        let view =
            database.batch(&Viewer::whole(load.batch.metadata.tenant_id), load.id()).await.unwrap().unwrap();
        assert_eq!((view.items_partial, view.items_failed, view.warnings.len()), (3, 0, 1));
    });
}

#[test]
fn batches_are_listed_newest_first_in_pages() {
    database_test(async |test| {
        let database = test.open();
        let loads: Vec<Load> = (0..5)
            .map(|number| if number % 2 == 0 { Load::delta(number) } else { Load::full(number) })
            .collect();
        for load in &loads {
            load.run(&database).await;
        }
        let pending = Load::delta(9).keys(0..3);
        pending.prepare(&database).await;
        let tenant = pending.batch.metadata.tenant_id;
        let ids = async |filter: BatchFilter, limit, before| {
            let page = database.batches(&Viewer::whole(tenant), &filter, limit, before).await.unwrap();
            page.iter().map(|batch| batch.batch_id).collect::<Vec<_>>()
        };
        let mut newest: Vec<Uuid> = loads.iter().map(Load::id).chain([pending.id()]).collect();
        newest.reverse();
        let first = ids(BatchFilter::default(), 4, None).await;
        assert_eq!(first, newest[..4]);
        assert_eq!(ids(BatchFilter::default(), 4, first.last().copied()).await, newest[4..]);
        let done = BatchFilter {
            status: Some(BatchStatus::Completed),
            load_type: Some(LoadType::Full),
            source_key: None,
        };
        assert_eq!(ids(done, 10, None).await, [loads[3].id(), loads[1].id()]);
        assert!(
            database
                .batches(&Viewer::whole(Uuid::new_v4()), &BatchFilter::default(), 10, None)
                .await
                .unwrap()
                .is_empty()
        );
    });
}

#[test]
fn batches_of_dropped_objects_are_listed_by_the_object_s_key() {
    database_test(async |test| {
        let database = test.open();
        let dropped = |received_at, key: &str| {
            let mut load = Load::delta(received_at).keys(0..1);
            load.batch.metadata.source = Some(Source {
                bucket: "drops".to_owned(),
                key: key.to_owned(),
                etag: "\"ab\"".to_owned(),
                version_id: None,
            });
            load
        };
        let loads = [dropped(0, "drop/1/a.json"), dropped(1, "drop/1/a.json"), dropped(2, "drop/1/b.json")];
        for load in loads.iter().chain([&Load::delta(3).keys(0..1)]) {
            load.run(&database).await;
        }
        let viewer = Viewer::whole(loads[0].batch.metadata.tenant_id);
        let filter =
            BatchFilter { source_key: Some("drop/1/a.json".parse().unwrap()), ..BatchFilter::default() };
        let page = database.batches(&viewer, &filter, 10, None).await.unwrap();
        let found: Vec<_> = page.iter().map(|batch| (batch.batch_id, batch.source.clone())).collect();
        let expected =
            [1, 0].map(|load: usize| (loads[load].id(), loads[load].batch.metadata.source.clone()));
        assert_eq!(found, expected);
        let full = BatchFilter { load_type: Some(LoadType::Full), ..filter };
        assert_eq!(database.batches(&viewer, &full, 10, None).await.unwrap(), []);
    });
}

#[test]
fn items_in_error_are_recorded_once_and_listed_in_pages() {
    database_test(async |test| {
        let database = test.open();
        let load =
            (0..5).fold(Load::delta(0), |load, number| load.error((number % 2 == 0).then_some(number)));
        load.prepare(&database).await;
        let tenant = load.batch.metadata.tenant_id;
        let page = async |after, limit| {
            let page = database.item_errors(&Viewer::whole(tenant), load.id(), after, limit).await.unwrap();
            page.unwrap().errors
        };
        assert_eq!(page(None, 100).await, load.errors);
        assert_eq!(page(None, 2).await, load.errors[..2]);
        assert_eq!(page(Some(1), 2).await, load.errors[2..4]);
        assert_eq!(page(Some(4), 2).await, []);
        let shown = serde_json::to_value(&page(None, 1).await[0]).unwrap();
        let expected = json!({
            "item_index": 0, "byte_offset": 0, "code": "FIELD_INVALID", "field": "PRICE", "detail": "not a number",
            "key": {"cnpj": cnpj(0), "shopid": 1, "productid": "p0000"},
        });
        assert_eq!(shown, expected);
        assert_eq!(
            database.item_errors(&Viewer::whole(Uuid::new_v4()), load.id(), None, 10).await.unwrap(),
            None
        );
    });
}

#[test]
fn what_is_recorded_again_stays_as_it_is() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).error(Some(1)).error(None);
        let generation = ingestion::chunk::Generation::FIRST;
        database.begin_chunking(&load.batch, ingestion::chunk::Plan::default()).await.unwrap();
        for _ in 0..2 {
            database.record_item_errors(load.id(), generation, &load.errors).await.unwrap();
        }
        assert_eq!(test.number("SELECT count(*) FROM batch_item_errors").await, 2);
    });
}
