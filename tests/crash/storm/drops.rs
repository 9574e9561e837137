//! Jobs of the storm test that drop catalogues into the bucket and overwrite some of them, and the
//! checks of the result of each file's versions.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use end_to_end::gzip;
use ingestion::payload::Source;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::senders::{Sent, SentItem, Tenant};
use super::world::World;
use crate::crash::stand::{answer, http_event};

const BATCHES: &str = "/v1/inovafarma/batches";
/// Names of the files that each job drops. There are few, so that most files are overwritten, also
/// while they are read. The one with gzip is a full load.
const NAMES: [&str; 3] = ["a.json", "b 2.ndjson", "c.json.gz"];

/// Job that drops files of one tenant into the bucket.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    tenant: Tenant,
    s3: aws_sdk_s3::Client,
    bucket: String,
}

/// Version of a file that a job has dropped.
#[derive(Clone, Debug)]
pub(crate) struct Dropped {
    tenant: Tenant,
    key: String,
    etag: String,
    /// Idempotency key that the ingest derives from the version.
    idempotency_key: String,
    is_full: bool,
    items: Vec<SentItem>,
}

impl Job {
    pub(crate) const fn new(tenant: Tenant, s3: aws_sdk_s3::Client, bucket: String) -> Self {
        Self { tenant, s3, bucket }
    }

    /// Drops random files for the time `lasts`, and returns their versions in order.
    pub(crate) async fn drop_for(self, lasts: Duration, mut random: fastrand::Rng) -> Vec<Dropped> {
        let until = Instant::now() + lasts;
        let mut dropped = Vec::new();
        while Instant::now() < until {
            dropped.push(self.drop_one(&mut random).await);
            tokio::time::sleep(Duration::from_millis(random.u64(20..2_000))).await;
        }
        dropped
    }

    async fn drop_one(&self, random: &mut fastrand::Rng) -> Dropped {
        let name = NAMES[random.usize(..NAMES.len())];
        let is_full = name.ends_with(".gz");
        let load = if is_full { "full" } else { "delta" };
        let key = format!("drop/{}/{load}/{name}", self.tenant.id);
        let (members, items) = self.tenant.catalogue(random);
        let text = if name.ends_with(".ndjson") {
            members.iter().map(|member| format!("{member}\n")).collect()
        } else {
            Value::Array(members).to_string()
        };
        let bytes = if is_full { gzip(text.as_bytes(), 1) } else { text.into_bytes() };
        let (etag, modified_at) = self.put(&key, bytes).await;
        let source =
            Source { bucket: self.bucket.clone(), key: key.clone(), etag: etag.clone(), version_id: None };
        let idempotency_key = ingestion::drops::idempotency_key(&source, modified_at);
        Dropped { tenant: self.tenant.clone(), key, etag, idempotency_key, is_full, items }
    }

    /// Puts an object. Returns its ETag and the time at which S3 stored it.
    async fn put(&self, key: &str, bytes: Vec<u8>) -> (String, Timestamp) {
        let put = self.s3.put_object().bucket(&self.bucket).key(key).body(bytes.into());
        put.send().await.unwrap();
        let head = self.s3.head_object().bucket(&self.bucket).key(key).send().await.unwrap();
        let written = Timestamp::from_second(head.last_modified.unwrap().secs()).unwrap();
        (head.e_tag.unwrap(), written)
    }

    async fn get(&self, key: &str) -> Option<Value> {
        let object = self.s3.get_object().bucket(&self.bucket).key(key).send().await.ok()?;
        serde_json::from_slice(&object.body.collect().await.unwrap().to_vec()).unwrap()
    }

    async fn tags(&self, key: &str) -> BTreeMap<String, String> {
        let tags = self.s3.get_object_tagging().bucket(&self.bucket).key(key).send().await.unwrap();
        tags.tag_set.into_iter().map(|tag| (tag.key, tag.value)).collect()
    }
}

/// Files that are no catalogues, or are in the wrong folder: the key of each, and the reason with
/// which the ingest refuses it. `None` means that the ingest ignores the file.
pub(crate) struct Foreign(Vec<(String, Option<&'static str>)>);

impl Foreign {
    pub(crate) async fn drop(job: &Job) -> Self {
        let (id, stranger) = (job.tenant.id, Uuid::new_v4());
        let files = vec![
            (format!("drop/{id}/full/a.csv"), Some("CONTENT_TYPE")),
            (format!("drop/{id}/a.json"), Some("KEY_UNKNOWN")),
            (format!("drop/{stranger}/full/a.json"), Some("TENANT_NOT_ALLOWED")),
            (format!("drop/{id}/full/_SUCCESS"), None),
            (format!("drop/{id}/full/a.json.tmp"), None),
        ];
        for (key, _) in &files {
            job.put(key, b"[]".to_vec()).await;
        }
        Self(files)
    }

    /// Checks that each refused file has its reason as a tag and in its result, and each ignored
    /// one has neither.
    async fn is_told(&self, job: &Job) -> Result<(), String> {
        for (key, reason) in &self.0 {
            let (tags, result) = (job.tags(key).await, job.get(&ingestion::drops::result_key(key)).await);
            let said = (tags.get("reason").map(String::as_str), result.as_ref().map(|it| &it["reason"]));
            if said != (*reason, reason.map(Value::from).as_ref()) {
                return Err(format!("{key}: {said:?}"));
            }
        }
        Ok(())
    }
}

/// Waits until each file's last version is a batch, while it invokes `reconcile` repeatedly.
/// Returns the batches that were made of any version. Panics after `patience`.
pub(crate) async fn taken(world: &World, dropped: &[Dropped], patience: Duration) -> Vec<Sent> {
    let begin = Instant::now();
    loop {
        world.reconcile().await;
        // If nothing is in flight now, no batch comes later.
        let is_idle = world.delivery.is_idle().await;
        let payloads = world.payloads().await;
        let (mut sent, mut open) = (Vec::new(), Vec::new());
        for (key, versions) in by_key(dropped) {
            let shown = batches_of(world, versions[0], key).await;
            for version in &versions {
                let mut of_it = shown.iter().filter(|batch| batch["source"]["etag"] == version.etag.as_str());
                let batch = of_it.next();
                assert!(of_it.next().is_none(), "{key} {} is two batches", version.etag);
                let has_come = |batch: &&Value| {
                    let id = batch["batch_id"].as_str().unwrap();
                    payloads.iter().any(|payload| payload.ends_with(id))
                };
                match batch.filter(has_come) {
                    Some(batch) => sent.push(version.as_sent(batch)),
                    // A version has no batch only if it was replaced before it was copied.
                    None if version.etag == versions[versions.len() - 1].etag => {
                        version.tenant.age("DROP", &version.idempotency_key).await;
                        open.push(format!("{key} {}", version.etag));
                    }
                    None => {}
                }
            }
        }
        if open.is_empty() && is_idle {
            return sent;
        }
        assert!(begin.elapsed() < patience, "not taken: {open:?}; {}", world.delivery.summary());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Waits until each file's result and tags show the state of its last version's batch, as the
/// batches API does, and those of foreign files show the reason of the refusal. Panics after
/// `patience`.
pub(crate) async fn told(
    world: &World,
    job: &Job,
    foreign: &Foreign,
    dropped: &[Dropped],
    patience: Duration,
) {
    let begin = Instant::now();
    loop {
        let told = match all_told(world, job, dropped).await {
            Ok(()) => foreign.is_told(job).await,
            wrong => wrong,
        };
        let Err(wrong) = told else { return };
        assert!(begin.elapsed() < patience, "{wrong}");
        world.reconcile().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn all_told(world: &World, job: &Job, dropped: &[Dropped]) -> Result<(), String> {
    for (key, versions) in by_key(dropped) {
        let last = versions[versions.len() - 1];
        let shown = batches_of(world, last, key).await;
        let batch = shown.iter().find(|batch| batch["source"]["etag"] == last.etag.as_str()).unwrap();
        let result = job.get(&ingestion::drops::result_key(key)).await.unwrap_or_default();
        let expected = json!([last.etag, batch["batch_id"], "COMPLETED", batch["items_parsed"]]);
        let said = json!([
            result["object"]["etag"],
            result["batch_id"],
            result["status"],
            result["batch"]["items_parsed"]
        ]);
        if said != expected {
            return Err(format!("{key}: {said} and not {expected}"));
        }
        let tags = job.tags(key).await;
        let tag = |name: &str| tags.get(name).map(String::as_str);
        if (tag("drop"), tag("state"), tag("batch"))
            != (Some("accepted"), Some("final"), batch["batch_id"].as_str())
        {
            return Err(format!("{key}: {tags:?}"));
        }
    }
    Ok(())
}

/// Groups the versions by file, in the order in which they were written.
fn by_key(dropped: &[Dropped]) -> HashMap<&str, Vec<&Dropped>> {
    let mut files: HashMap<&str, Vec<&Dropped>> = HashMap::new();
    for version in dropped {
        files.entry(&version.key).or_default().push(version);
    }
    files
}

/// Returns the batches that were made of the file `key`, as the batches API shows them to the
/// tenant.
async fn batches_of(world: &World, of: &Dropped, key: &str) -> Vec<Value> {
    let headers = json!({"x-inova-api-key": of.tenant.api_key});
    let mut event = http_event("GET", BATCHES, headers, b"");
    let query = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("source_key", key)
        .append_pair("limit", "100")
        .finish();
    event["rawQueryString"] = json!(query);
    let shown = answer(&event, &world.ask(&event).await);
    assert_eq!(shown.status, 200, "{}", String::from_utf8_lossy(&shown.bytes));
    let page = shown.json();
    assert_eq!(page["next_cursor"], Value::Null);
    page["batches"].as_array().unwrap().clone()
}

impl Dropped {
    fn as_sent(&self, batch: &Value) -> Sent {
        Sent {
            batch_id: batch["batch_id"].as_str().unwrap().parse().unwrap(),
            tenant_id: self.tenant.id,
            api_key: self.tenant.api_key.clone(),
            is_full: self.is_full,
            received_at: batch["received_at"].as_str().unwrap().parse().unwrap(),
            items: self.items.clone(),
        }
    }
}
