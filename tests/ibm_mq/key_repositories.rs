//! Tests of key repositories that are files: binary secrets and S3 objects, as profiles name them.
//! The stand-in for IBM MQ has no TLS. It fails with 2381 if the client library does not find the
//! files, and with 2393 if it does.

use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{BucketVersioningStatus, VersioningConfiguration};
use aws_sdk_secretsmanager::primitives::Blob;
use end_to_end::{Access, Gateway, QueueManager, TENANT_A};
use serde_json::{Value, json};
use uuid::Uuid;

const CMS: &[u8] = b"\0a key database";
const STASH: &[u8] = &[7; 129];
/// Beginning of a PKCS#12 file, a little longer than the part by which the gateway recognizes one.
const PKCS_12: &[u8] = &[0x30, 0x82, 4, 210, 2, 1, 3, 0x30];
const PEM: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Clients of Secrets Manager and S3, where one test stores key repositories, and the test's queue
/// manager.
struct Stores {
    gateway: Gateway,
    access: Access,
    manager: QueueManager,
    secrets: aws_sdk_secretsmanager::Client,
    s3: aws_sdk_s3::Client,
    bucket: String,
}

impl Stores {
    async fn open() -> Self {
        let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(20));
        let s3 = aws_sdk_s3::Client::from_conf(
            aws_sdk_s3::config::Builder::from(&sdk).force_path_style(true).build(),
        );
        let bucket = format!("keys-{}", Uuid::new_v4());
        s3.create_bucket().bucket(&bucket).send().await.unwrap();
        Self {
            gateway: Gateway::new(),
            access: Access::open().await,
            manager: QueueManager::start(),
            secrets: aws_sdk_secretsmanager::Client::new(&sdk),
            s3,
            bucket,
        }
    }

    async fn secret(&self, bytes: &[u8]) -> String {
        let name = format!("mq/{}", Uuid::new_v4());
        self.secrets.create_secret().name(&name).secret_binary(Blob::new(bytes)).send().await.unwrap();
        format!("secret://{name}")
    }

    async fn text(&self, text: &str) -> String {
        let name = format!("mq/{}", Uuid::new_v4());
        self.secrets.create_secret().name(&name).secret_string(text).send().await.unwrap();
        format!("secret://{name}")
    }

    /// Writes an S3 object. Returns its `s3://` reference, and its version id, or `None` if the
    /// bucket keeps no versions.
    async fn object(&self, key: &str, bytes: &[u8]) -> (String, Option<String>) {
        let put = self.s3.put_object().bucket(&self.bucket).key(key).body(ByteStream::from(bytes.to_vec()));
        (format!("s3://{}/{key}", self.bucket), put.send().await.unwrap().version_id)
    }

    /// Creates a target profile of tenant A with these members of `ssl`, and returns its name.
    async fn profile(&self, ssl: Value) -> String {
        let mut target = self.manager.target("DEV.QUEUE.1");
        target["ssl"] = json!({"enabled": true});
        target["ssl"].as_object_mut().unwrap().extend(ssl.as_object().unwrap().clone());
        self.access.profile_of(TENANT_A, &target).await
    }

    /// Runs a connection test of a profile, which has to fail. Returns the name, the code and the
    /// detail of the step that fails.
    async fn failure(&self, profile: &str) -> (String, String, String) {
        let tested = self.gateway.post("/connections/test", &json!({"targetRef": profile})).await;
        let tested = tested.expect(200).json();
        let failed = tested["steps"].as_array().unwrap().iter().find(|step| step["ok"] == false);
        let failed = failed.unwrap_or_else(|| panic!("{tested}"));
        let text = |member: &str| failed[member].as_str().unwrap().to_owned();
        (text("name"), text("code"), text("detail"))
    }

    /// Checks that the client library finds the profile's key repository.
    async fn reaches_the_client(&self, profile: &str) {
        let (step, code, detail) = self.failure(profile).await;
        assert_eq!((step.as_str(), code.as_str()), ("tls", "TLS_FAILED"), "{detail}");
        assert!(detail.contains("2393"), "{detail}");
    }

    async fn fails(&self, profile: &str, expected: (&str, &str, &str)) {
        let (step, code, detail) = self.failure(profile).await;
        assert_eq!((step.as_str(), code.as_str()), (expected.0, expected.1), "{detail}");
        assert!(detail.contains(expected.2), "{detail}");
    }
}

#[tokio::test]
async fn a_binary_secret_is_the_file_and_another_one_its_stash_file_or_password() {
    let stores = Stores::open().await;
    let (kdb, sth) = (stores.secret(CMS).await, stores.secret(STASH).await);
    let password = stores.text("s3cret").await;
    let with_stash = stores.profile(json!({"keyStoreRef": kdb, "stashRef": sth})).await;
    stores.reaches_the_client(&with_stash).await;
    let with_password =
        stores.profile(json!({"trustStoreRef": stores.secret(PKCS_12).await, "storePasswordRef": password}));
    stores.reaches_the_client(&with_password.await).await;

    let closed = stores.profile(json!({"keyStoreRef": kdb})).await;
    stores.fails(&closed, ("tls", "TLS_FAILED", "ssl.stashRef")).await;
    let text = stores.profile(json!({"keyStoreRef": kdb, "stashRef": password})).await;
    stores.fails(&text, ("tls", "SECRET_UNREADABLE", "a stash file is binary")).await;
    let binary = stores.profile(json!({"keyStoreRef": kdb, "storePasswordRef": sth})).await;
    stores.fails(&binary, ("tls", "SECRET_UNREADABLE", "has to be text")).await;
    // Every operation says the same, not the test alone.
    let answer = stores.gateway.post("/queue/depth", &json!({"targetRef": binary})).await;
    answer.expect_problem(502, "AUTHENTICATION_FAILED");
}

#[tokio::test]
async fn an_object_of_s3_is_the_file() {
    let stores = Stores::open().await;
    let password = stores.text("s3cret").await;
    let (kdb, _) = stores.object("mq/key.kdb", CMS).await;
    let (sth, _) = stores.object("mq/key.sth", STASH).await;
    let profile = stores.profile(json!({"keyStoreRef": kdb, "stashRef": sth})).await;
    stores.reaches_the_client(&profile).await;

    let large = vec![0; 1024 * 1024 + 1];
    for (reference, expected) in [
        (stores.object("largest", &large[1..]).await.0, ("tls", "TLS_FAILED", "2393")),
        (stores.object("large", &large).await.0, ("tls", "OBJECT_UNREADABLE", "larger than 1 MiB")),
        (stores.object("pem", PEM).await.0, ("tls", "TLS_FAILED", "it is PEM")),
        (format!("s3://{}/absent", stores.bucket), ("tls", "OBJECT_UNREADABLE", "does not exist")),
        ("s3://no-such-bucket-of-keys/key".to_owned(), ("tls", "OBJECT_UNREADABLE", "does not exist")),
    ] {
        let profile = stores.profile(json!({"keyStoreRef": reference, "storePasswordRef": password})).await;
        stores.fails(&profile, expected).await;
    }
}

#[tokio::test]
async fn a_key_repository_that_was_replaced_is_read_again_when_tls_fails() {
    let stores = Stores::open().await;
    let password = stores.text("s3cret").await;
    let opened = |store: &str| stores.profile(json!({"keyStoreRef": store, "storePasswordRef": password}));
    let secret = stores.secret(PEM).await;
    let (object, _) = stores.object("key", PEM).await;
    let (of_secret, of_object) = (opened(&secret).await, opened(&object).await);
    for profile in [&of_secret, &of_object] {
        stores.fails(profile, ("tls", "TLS_FAILED", "it is PEM")).await;
    }
    let name = secret.trim_start_matches("secret://");
    stores.secrets.put_secret_value().secret_id(name).secret_binary(Blob::new(CMS)).send().await.unwrap();
    stores.object("key", CMS).await;
    for profile in [&of_secret, &of_object] {
        let body = json!({"targetRef": profile});
        let answer = stores.gateway.post("/queue/depth", &body).await.expect_problem(502, "BROKER_REJECTED");
        assert_eq!(answer.json()["broker"]["code"], 2393, "{}", answer.json());
    }
}

#[tokio::test]
async fn a_version_that_is_named_stays_whatever_comes_after_it() {
    let stores = Stores::open().await;
    let kept = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
    let versioning = stores.s3.put_bucket_versioning().bucket(&stores.bucket);
    versioning.versioning_configuration(kept).send().await.unwrap();
    let password = stores.text("s3cret").await;
    let (object, version) = stores.object("key", CMS).await;
    let pinned = format!("{object}?versionId={}", version.unwrap());
    stores.object("key", PEM).await;
    let profile = stores.profile(json!({"keyStoreRef": pinned, "storePasswordRef": password})).await;
    stores.reaches_the_client(&profile).await;
    let latest = stores.profile(json!({"keyStoreRef": object, "storePasswordRef": password})).await;
    stores.fails(&latest, ("tls", "TLS_FAILED", "it is PEM")).await;
}

#[tokio::test]
async fn a_profile_at_fault_says_which_member_and_a_request_cannot_name_a_file() {
    let stores = Stores::open().await;
    let profile = stores.profile(json!({"keyStoreRef": "s3://acme-keys/key.kdb"})).await;
    let answer = stores.gateway.post("/queue/depth", &json!({"targetRef": profile})).await;
    let detail = answer.expect_problem(503, "STORE_UNAVAILABLE").json()["detail"].clone();
    assert!(detail.as_str().unwrap().contains("/target/ssl/keyStoreRef"), "{detail}");
    for (member, value) in [
        ("keyStoreRef", "s3://acme-keys/key.kdb"),
        ("stashRef", "secret://mq/app"),
        ("storePasswordRef", "secret://mq/app"),
        ("certificateLabel", "app"),
    ] {
        let mut target = stores.manager.target("DEV.QUEUE.1");
        target["ssl"] = json!({"enabled": true, member: value});
        let answer = stores.gateway.post("/queue/depth", &json!({"target": target})).await;
        let problem = answer.expect_problem(400, "SCHEMA_VIOLATION").json();
        assert_eq!(problem["errors"][0]["pointer"], format!("/target/ssl/{member}"), "{problem}");
    }
}
