//! Tests of an API key that is limited to some establishments: the batches of its tenant that it
//! may see.

use std::collections::BTreeSet;

use catalog::{BatchFilter, Database, ReplayOutcome, ReplayRequest, Seal};
use ingestion::Viewer;
use ingestion::batch::{Replay, ReplayScope};
use ingestion::chunk::{Generation, Plan};
use ingestion::payload::errors_key;
use ingestion::product::CnpjAccess;
use uuid::Uuid;

use crate::support::{Load, TENANT, at, cnpj, database_test};

/// Returns the viewer for an API key of [`TENANT`] that is limited to the establishments with these
/// numbers.
fn limited(numbers: &[u32]) -> Viewer {
    let cnpjs: BTreeSet<String> = numbers.iter().map(|number| cnpj(*number).to_string()).collect();
    Viewer::limited(TENANT, Some(&cnpjs)).unwrap()
}

/// Returns the load as if it had been sent with the viewer's API key.
fn sent_by(load: Load, viewer: &Viewer) -> Load {
    let mut load = load;
    load.batch.cnpjs = viewer.cnpjs().clone();
    load
}

/// Returns true if the viewer's queries show the batch. Checks that the queries for one batch, for
/// lists, for items in error and for replays agree.
async fn is_shown(database: &Database, viewer: &Viewer, batch_id: Uuid) -> bool {
    let request = ReplayRequest {
        replay: Replay { scope: ReplayScope::All, confirm_deactivation: true },
        idempotency_key: Uuid::new_v4().to_string(),
        requested_at: at(100),
    };
    let one = database.batch(viewer, batch_id).await.unwrap().is_some();
    let page = database.batches(viewer, &BatchFilter::default(), 100, None).await.unwrap();
    let listed = page.iter().any(|batch| batch.batch_id == batch_id);
    let errors = database.item_errors(viewer, batch_id, None, 100).await.unwrap().is_some();
    assert_eq!((listed, errors), (one, one));
    if !one {
        assert_eq!(database.objects_to_replay(viewer, batch_id, &request).await.unwrap(), [""; 0]);
        assert_eq!(database.replay(viewer, batch_id, &request).await.unwrap(), ReplayOutcome::Unknown);
    }
    one
}

#[test]
fn a_batch_of_others_is_shown_once_it_is_known_to_have_nothing_else() {
    database_test(async |test| {
        let database = test.open();
        let even = Load::delta(0).keys([0, 2]);
        let both = Load::full(1).keys([0, 1]);
        let unread = Load::full(2);
        let empty = Load::full(3).error(None);
        for load in [&even, &both, &empty] {
            load.run(&database).await;
        }
        database.begin_chunking(&unread.batch, ingestion::chunk::Plan::default()).await.unwrap();
        for (viewer, shown) in [
            (limited(&[0]), [true, false, false, false]),
            (limited(&[1]), [false, false, false, false]),
            (limited(&[0, 1, 2]), [true, true, false, false]),
            (limited(&[]), [false, false, false, false]),
            (Viewer::whole(TENANT), [true, true, true, true]),
            (Viewer::whole(Uuid::new_v4()), [false, false, false, false]),
        ] {
            for (load, expected) in [&even, &both, &unread, &empty].into_iter().zip(shown) {
                let is_shown = is_shown(&database, &viewer, load.id()).await;
                assert_eq!(is_shown, expected, "{viewer:?} {:?}", load.batch.metadata.received_at);
            }
        }
    });
}

#[test]
fn a_batch_of_one_s_own_is_shown_whatever_it_contains() {
    database_test(async |test| {
        let database = test.open();
        let (mine, other) = (limited(&[0]), limited(&[1]));
        let unread = sent_by(Load::delta(0), &mine);
        database.begin_chunking(&unread.batch, ingestion::chunk::Plan::default()).await.unwrap();
        let wrong = sent_by(Load::delta(1).error(Some(1)).error(None), &mine);
        let good = sent_by(Load::delta(2).keys([0]), &mine);
        for load in [&wrong, &good] {
            load.run(&database).await;
        }
        for load in [&unread, &wrong, &good] {
            assert!(is_shown(&database, &mine, load.id()).await);
            assert!(is_shown(&database, &limited(&[0, 1]), load.id()).await);
            assert!(!is_shown(&database, &other, load.id()).await);
        }
        let errors = database.item_errors(&mine, wrong.id(), None, 10).await.unwrap().unwrap().errors;
        assert_eq!(errors, wrong.errors, "what was refused was its own doing");
    });
}

#[test]
fn of_a_batch_of_others_only_errors_of_one_s_own_establishments_are_shown() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys([0]).error(Some(1)).error(Some(2)).error(None).error(Some(4));
        load.run(&database).await;
        let page = async |viewer: &Viewer, after, limit| {
            let errors = database.item_errors(viewer, load.id(), after, limit).await.unwrap().unwrap().errors;
            errors.iter().map(|error| error.item_index).collect::<Vec<_>>()
        };
        assert_eq!(page(&limited(&[0]), None, 10).await, [2, 4]);
        assert_eq!(page(&limited(&[0]), None, 1).await, [2]);
        assert_eq!(page(&limited(&[0]), Some(2), 10).await, [4]);
        assert_eq!(page(&limited(&[0, 1]), None, 10).await, [1, 2, 4]);
        assert_eq!(page(&Viewer::whole(TENANT), None, 10).await, [1, 2, 3, 4]);
    });
}

#[test]
fn a_deactivation_is_confirmed_by_nobody_who_may_not_load_all_that_it_is_about() {
    database_test(async |test| {
        let database = test.open();
        Load::full(0).keys(0..300).run(&database).await;
        let held = Load::full(1).keys([0, 1]);
        held.run(&database).await;
        assert!(!is_shown(&database, &limited(&[0]), held.id()).await);
        assert_eq!(test.number("SELECT count(*) FROM products WHERE active").await, 300);
        let view = database.batch(&limited(&[0, 1]), held.id()).await.unwrap().unwrap();
        assert_eq!(serde_json::to_value(view.deactivation).unwrap()["state"], "held");
        assert_eq!(view.generation.number(), 1);
    });
}

#[test]
fn what_the_key_was_about_is_kept_with_the_batch() {
    database_test(async |test| {
        let database = test.open();
        let load = sent_by(Load::delta(0).keys([0]), &limited(&[0, 2]));
        load.run(&database).await;
        let kept = database.allowed_cnpjs(TENANT, load.id()).await.unwrap();
        assert_eq!(kept, Some(limited(&[0, 2]).cnpjs().clone()));
        assert_ne!(kept, Some(CnpjAccess::Any));
    });
}

#[test]
fn the_file_of_items_in_error_is_for_those_who_may_see_all_of_its_batch() {
    database_test(async |test| {
        let database = test.open();
        let (mine, both) = (limited(&[0]), limited(&[0, 1]));
        let own = sent_by(Load::delta(0).keys([0]).error(Some(1)), &mine);
        let others = Load::delta(1).keys([0]).error(Some(2));
        let uri = |load: &Load| format!("s3://payloads/{}", errors_key(load.id(), Generation::FIRST));
        for load in [&own, &others] {
            database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
            let seal = Seal { errors_uri: Some(uri(load)), ..load.seal() };
            database.seal(load.id(), Generation::FIRST, &seal).await.unwrap();
        }
        for (viewer, load, is_shown) in [
            (&mine, &own, true),
            (&both, &own, true),
            (&mine, &others, false),
            (&Viewer::whole(TENANT), &others, true),
            (&Viewer::whole(Uuid::new_v4()), &own, false),
        ] {
            let found = database.errors_uri(viewer, load.id()).await.unwrap();
            assert_eq!(found, is_shown.then(|| uri(load)), "{viewer:?}");
            let view = database.batch(viewer, load.id()).await.unwrap();
            let url = view.and_then(|batch| batch.errors_url);
            assert_eq!(url, is_shown.then(|| catalog::errors_url(load.id())), "{viewer:?}");
        }
        assert!(database.batch(&mine, others.id()).await.unwrap().is_some());
        // It expires with the payload.
        database.write_chunk(&own.chunks[0]).await.unwrap();
        let left = database.final_batch(own.id()).await.unwrap().unwrap().uris;
        assert!(left.contains(&uri(&own)) && left.len() == 3, "{left:?}");
    });
}
