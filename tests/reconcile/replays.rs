use catalog::{ReplayOutcome, ReplayRequest};
use end_to_end::TENANT_A;
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, Replay, ReplayScope};
use ingestion::payload::LoadType;
use jiff::Timestamp;
use objects::Objects;
use retention::Seen;
use uuid::Uuid;

use crate::stand::{Stand, run, stand_test};

/// The objects of a batch that may expire.
async fn tagged(stand: &Stand, uris: &[String]) -> usize {
    let mut tagged = 0;
    for uri in uris {
        let key = uri.split_once(&stand.bucket).unwrap().1.trim_start_matches('/');
        let tags = stand.s3.get_object_tagging().bucket(&stand.bucket).key(key).send().await.unwrap();
        tagged += usize::from(tags.tag_set.iter().any(|tag| tag.key == "state"));
    }
    tagged
}

async fn replay(stand: &Stand, batch_id: Uuid) -> ReplayOutcome {
    let request = ReplayRequest {
        replay: Replay { scope: ReplayScope::All, confirm_deactivation: false },
        idempotency_key: Uuid::new_v4().to_string(),
        requested_at: Timestamp::now(),
    };
    stand.database().replay(&Viewer::whole(TENANT_A.parse().unwrap()), batch_id, &request).await.unwrap()
}

#[tokio::test]
async fn objects_of_a_batch_that_is_replayed_keep_no_tag_of_its_last_end() {
    stand_test(async |stand| {
        let objects = Objects::new(stand.s3.clone(), stand.bucket.clone());
        let (database, queue) = (stand.database(), stand.reconcile().queue);
        let batch_id = stand.lose(LoadType::Delta, 2_100).await;
        run(&stand.reconcile()).await.unwrap();
        assert_eq!(stand.work().await, (1, 3));
        let seen = database.final_batch(batch_id).await.unwrap().unwrap();
        assert_eq!((seen.uris.len(), tagged(stand, &seen.uris).await), (4, 4));

        // Somebody saw the batch at its end, and comes to tag only now.
        let ReplayOutcome::Begun(begun) = replay(stand, batch_id).await else { panic!() };
        queue.tell(&stand.bucket, objects.key(&begun.payload_uri).unwrap()).await.unwrap();
        assert_eq!(stand.cut().await, 1);
        assert_eq!(tagged(stand, &seen.uris).await, 0, "the chunker keeps what it announces");
        let late = retention::tag_as_seen(&database, &objects, &seen).await.unwrap();
        assert_eq!((late, tagged(stand, &seen.uris).await), (Seen::NoLonger, 0));
        retention::let_go(&database, &objects, batch_id).await;
        assert_eq!(tagged(stand, &seen.uris).await, 0, "it is not final");

        assert_eq!(stand.work().await, (0, 3));
        assert_eq!(stand.batch(batch_id).await.status, BatchStatus::Completed);
        assert_eq!(tagged(stand, &seen.uris).await, 4);
    })
    .await;
}
