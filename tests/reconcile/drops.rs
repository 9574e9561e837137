//! Tests of `reconcile` with dropped objects whose notification was lost.

use std::time::Duration;

use aws_sdk_s3::types::{Tag, Tagging};
use end_to_end::TENANT_A;
use futures_util::future::join_all;
use ingestion::payload::payload_key_of;
use reconcile::DropsReport;
use uuid::Uuid;

use crate::reconcile::stand::{Stand, run, stand_test};

fn key(name: &str) -> String {
    format!("drop/{TENANT_A}/delta/{name}")
}

async fn put(stand: &Stand, name: &str, bytes: &[u8]) -> String {
    let put = stand.s3.put_object().bucket(&stand.bucket).key(key(name)).body(bytes.to_vec().into());
    put.send().await.unwrap().e_tag.unwrap()
}

/// Sets the tags with which `drop-intake` accepts an object, before its payload is stored. Returns
/// the id of the batch in the tags.
async fn accept(stand: &Stand, name: &str, etag: &str) -> Uuid {
    let batch_id = Uuid::now_v7();
    let head = stand.s3.head_object().bucket(&stand.bucket).key(key(name)).send().await.unwrap();
    let modified_at = jiff::Timestamp::from_second(head.last_modified.unwrap().secs()).unwrap();
    let tag = |name: &str, value: &str| Tag::builder().key(name).value(value).build().unwrap();
    let tags = Tagging::builder()
        .tag_set(tag("drop", "accepted"))
        .tag_set(tag("batch", &batch_id.to_string()))
        .tag_set(tag("etag", etag.trim_matches('"')))
        .tag_set(tag("modified", &modified_at.to_string()));
    let put = stand.s3.put_object_tagging().bucket(&stand.bucket).key(key(name));
    put.tagging(tags.build().unwrap()).send().await.unwrap();
    batch_id
}

async fn settle(stand: &Stand, name: &str, etag: &str) {
    let batch_id = accept(stand, name, etag).await;
    let payload = stand.s3.put_object().bucket(&stand.bucket).key(payload_key_of(batch_id).unwrap());
    payload.body(b"[]".to_vec().into()).send().await.unwrap();
}

#[tokio::test]
async fn an_object_that_nobody_looked_at_is_notified_again() {
    stand_test(async |stand| {
        for (name, bytes) in
            [("lost +1é.json", &b"[]"[..]), ("_SUCCESS", b"x"), ("empty.json", b""), ("a.json.tmp", b"[")]
        {
            put(stand, name, bytes).await;
        }
        // What cannot be understood is refused by the function that is notified.
        put(stand, "lost.csv", b"a;b").await;
        let etag = put(stand, "taken.json", b"[1]").await;
        settle(stand, "taken.json", &etag).await;
        let report = run(&stand.reconcile()).await.unwrap();
        assert_eq!(report.drops, DropsReport { seen: 6, found: 3 });
        let notified = ["empty.json", "lost +1é.json", "lost.csv"].map(key);
        assert_eq!(stand.notified_drops().await, notified);
    })
    .await;
}

#[tokio::test]
async fn an_object_that_was_accepted_and_never_copied_is_notified_again() {
    stand_test(async |stand| {
        let etag = put(stand, "half.json", b"[]").await;
        accept(stand, "half.json", &etag).await;
        assert_eq!(run(&stand.reconcile()).await.unwrap().drops, DropsReport { seen: 1, found: 1 });
        assert_eq!(stand.notified_drops().await, [key("half.json")]);
    })
    .await;
}

#[tokio::test]
async fn tags_of_an_earlier_version_do_not_hide_an_object() {
    stand_test(async |stand| {
        let earlier = put(stand, "again.json", b"[]").await;
        put(stand, "again.json", b"[2]").await;
        settle(stand, "again.json", &earlier).await;
        assert_eq!(run(&stand.reconcile()).await.unwrap().drops.found, 1);
        assert_eq!(stand.notified_drops().await, [key("again.json")]);
    })
    .await;
}

#[tokio::test]
async fn young_objects_and_deployments_that_take_none_are_left_alone() {
    stand_test(async |stand| {
        put(stand, "young.json", b"[]").await;
        let mut reconcile = stand.reconcile();
        reconcile.settings.object_age = reconcile::Settings::default().object_age;
        assert_eq!(run(&reconcile).await.unwrap().drops, DropsReport { seen: 1, found: 0 });
        reconcile.drops = None;
        assert_eq!(run(&reconcile).await.unwrap().drops, DropsReport::default());
        assert!(stand.notified_drops().await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn lost_notifications_of_another_bucket_are_found_whatever_becomes_of_the_first() {
    stand_test(async |stand| {
        let other = format!("partner-{}", Uuid::new_v4().simple());
        stand.s3.create_bucket().bucket(&other).send().await.unwrap();
        let lost = stand.s3.put_object().bucket(&other).key(key("lost.json")).body(b"[]".to_vec().into());
        lost.send().await.unwrap();
        // A name that XML has no form for ends no look.
        let odd = key("a\u{1}b\tc+d e.json");
        stand.s3.put_object().bucket(&other).key(&odd).body(b"[]".to_vec().into()).send().await.unwrap();
        put(stand, "own.json", b"[]").await;
        let mut reconcile = stand.reconcile();
        reconcile.drop_bucket = Some(other.clone());
        assert_eq!(run(&reconcile).await.unwrap().drops, DropsReport { seen: 3, found: 3 });
        let mut expected =
            [(stand.bucket.clone(), key("own.json")), (other.clone(), key("lost.json")), (other, odd)];
        expected.sort();
        assert_eq!(stand.notified_objects().await, expected);

        // The owner of the other bucket has taken it away.
        reconcile.drop_bucket = Some("no-such-bucket".to_owned());
        put(stand, "later.json", b"[]").await;
        assert!(run(&reconcile).await.is_err());
        assert!(stand.notified_drops().await.contains(&key("later.json")));
    })
    .await;
}

#[tokio::test]
async fn what_one_run_has_no_room_for_is_notified_by_the_next_ones() {
    stand_test(async |stand| {
        run(&stand.reconcile()).await.unwrap();
        let names: Vec<String> = (0..1100).map(|number| format!("{number:04}.json")).collect();
        for some in names.chunks(50) {
            join_all(some.iter().map(|name| put(stand, name, b"[]"))).await;
        }
        let mut notified = Vec::new();
        for expected in [500, 500, 100] {
            assert_eq!(run(&stand.reconcile()).await.unwrap().drops.found, expected);
            notified.extend(stand.notified_drops().await);
        }
        let all: Vec<String> = names.iter().map(|name| key(name)).collect();
        assert_eq!(notified, all, "each once, also if its age has not doubled");
        put(stand, "0000-late.json", b"[]").await;
        run(&stand.reconcile()).await.unwrap();
        assert!(stand.notified_drops().await.contains(&key("0000-late.json")), "it begins again");
    })
    .await;
}

#[tokio::test]
async fn an_object_whose_notification_was_rejected_is_notified_by_the_next_run() {
    stand_test(async |stand| {
        let mut reconcile = stand.reconcile();
        run(&reconcile).await.unwrap();
        put(stand, "lost.json", b"[]").await;
        let queue = reconcile.drops.replace(stand.without_queue().queue);
        // Until the next run its age does not double.
        tokio::time::sleep(Duration::from_secs(3)).await;
        run(&reconcile).await.unwrap_err();
        reconcile.drops = queue;
        assert_eq!(run(&reconcile).await.unwrap().drops.found, 1);
        assert_eq!(stand.notified_drops().await, [key("lost.json")]);
    })
    .await;
}
