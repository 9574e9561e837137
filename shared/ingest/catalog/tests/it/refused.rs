//! Tests of items that the database refuses: they are reported, and the other items of their chunk
//! are written.

use catalog::{ReplayRequest, WriteOutcome};
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, Changes, Replay, ReplayScope};
use ingestion::chunk::Generation;

use crate::support::{Item, Load, at, database_test, product};

#[test]
fn items_that_the_database_refuses_are_reported_and_the_others_written() {
    database_test(async |test| {
        let database = test.open();
        let mut products: Vec<_> = (0..20).map(|key| product(Item::of(key, 1))).collect();
        for place in [3, 4, 19] {
            // PostgreSQL's time begins in 4713 BC.
            products[place].attributes.source_created_at = Some("-009000-01-01T00:00:00Z".parse().unwrap());
        }
        let load = Load::full(100).products(products);
        load.prepare(&database).await;
        let written = database.write_chunk(&load.chunks[0]).await.unwrap();
        let WriteOutcome::Done { result, batch, .. } = written else { panic!("{written:?}") };
        assert_eq!(
            (result.changes(), result.rejected()),
            (Changes { inserted: 17, ..Changes::default() }, 3)
        );
        assert_eq!(batch, BatchStatus::Completed);
        let view =
            database.batch(&Viewer::whole(load.batch.metadata.tenant_id), load.id()).await.unwrap().unwrap();
        assert_eq!((view.items_parsed, view.items_processed, view.items_failed), (20, 17, 3));
        let errors = database
            .item_errors(&Viewer::whole(load.batch.metadata.tenant_id), load.id(), None, 10)
            .await
            .unwrap();
        let errors = serde_json::to_value(errors.unwrap().errors).unwrap();
        assert_eq!(errors[0]["code"], "REJECTED_BY_DATABASE");
        assert_eq!((&errors[2]["item_index"], &errors[2]["key"]["productid"]), (&19.into(), &"p0019".into()));
    });
}

#[test]
fn the_report_lists_so_many_items_that_the_database_refuses_and_counts_the_others() {
    database_test(async |test| {
        let database = test.open().with_listed_errors(4);
        let refused = |key| {
            let mut product = product(Item::of(key, 1));
            product.attributes.source_created_at = Some("-009000-01-01T00:00:00Z".parse().unwrap());
            product
        };
        // Of four that are listed, the chunker listed one.
        let load = Load::delta(100)
            .products((0..3).map(refused))
            .products((3..6).map(refused).chain([product(Item::of(9, 1))]))
            .error(Some(7));
        load.prepare(&database).await;
        for chunk in &load.chunks {
            database.write_chunk(chunk).await.unwrap();
        }
        let viewer = Viewer::whole(load.batch.metadata.tenant_id);
        let report = async || database.item_errors(&viewer, load.id(), None, 100).await.unwrap().unwrap();
        let page = report().await;
        assert_eq!((page.errors.len(), page.omitted), (4, 3));
        let batch = database.batch(&viewer, load.id()).await.unwrap().unwrap();
        assert_eq!((batch.items_failed, batch.items_processed, batch.errors_omitted), (7, 1, 3));

        // A replay reports what it refuses anew.
        let replay = Replay { scope: ReplayScope::All, confirm_deactivation: false };
        let idempotency_key = "5c1e0a56-4a58-4aaf-9359-83ec8f663f10".to_owned();
        let request = ReplayRequest { replay, idempotency_key, requested_at: at(0) };
        database.replay(&viewer, load.id(), &request).await.unwrap();
        let batch = database.batch(&viewer, load.id()).await.unwrap().unwrap();
        assert_eq!((batch.chunks.pending, batch.errors_omitted), (2, 0));
        for chunk in &load.chunks {
            database.write_chunk(&chunk.clone().of_generation(Generation::FIRST.next())).await.unwrap();
        }
        let page = report().await;
        assert_eq!((page.errors.len(), page.omitted), (4, 3));
    });
}
