use std::time::{Duration, Instant};

use broker::{Broker as _, Deadline};
use ibm_mq::Settings;
use mq::{Access, Address, BrokerError, Credentials, TestReport, Tls};
use serde_json::json;

use crate::support::{Client, QueueManager, code, deadline, queue};

async fn refused(client: &Client, access: &Access) -> BrokerError {
    let soon = Deadline::after(Duration::from_secs(3));
    client.broker.depth(access, &queue("DEV.QUEUE.1"), soon).await.unwrap_err()
}

fn failed_at(report: &TestReport) -> (&'static str, &'static str) {
    let step = report.steps.iter().find(|step| step.ok == Some(false)).unwrap();
    (step.name, step.code.unwrap())
}

#[tokio::test]
async fn a_test_goes_step_by_step_and_says_who_answers() {
    let manager = QueueManager::start();
    let client = manager.client();
    let report = client.broker.test(&client.access, Some(&queue("DEV.QUEUE.1")), deadline()).await;
    assert!(report.ok, "{report:?}");
    let steps: Vec<_> = report.steps.iter().map(|step| (step.name, step.ok)).collect();
    let all = ["resolve", "connect", "tls", "authenticate", "openQueue"];
    let all = all.map(|name| (name, (name != "tls").then_some(true)));
    assert_eq!(steps, all);
    assert_eq!(report.product, "IBM MQ");
    let version = report.version.unwrap();
    assert!(version.contains("command level") && version.contains("CCSID 1208"), "{version}");
    assert!(report.latency_ms.is_some());
    let missing = client.broker.test(&client.access, Some(&queue("DEV.NOT.THERE")), deadline()).await;
    assert_eq!(failed_at(&missing), ("openQueue", "QUEUE_NOT_FOUND"));
}

#[tokio::test]
async fn a_wrong_password_a_wrong_channel_and_a_wrong_queue_manager_are_told_apart() {
    let manager = QueueManager::start();
    let client = manager.client();
    let mut access = client.access.clone();
    access.credentials = Some(Credentials { user: "app".to_owned(), password: "wrong".into() });
    let error = refused(&client, &access).await;
    assert!(matches!(error, BrokerError::AuthenticationFailed { .. }), "{error:?}");
    assert_eq!(code(&error), Some(2035));
    assert_eq!(
        failed_at(&client.broker.test(&access, None, deadline()).await),
        ("authenticate", "AUTHENTICATION_FAILED")
    );
    let mut access = client.access.clone();
    access.endpoint.channel = Some("NO.SUCH.CHANNEL".to_owned());
    assert_eq!(code(&refused(&client, &access).await), Some(2540));
    let mut access = client.access.clone();
    access.endpoint.queue_manager = "OTHER".to_owned();
    assert_eq!(code(&refused(&client, &access).await), Some(2058));
    client.has_open(0).await;
}

#[tokio::test]
async fn addresses_are_tried_in_order_and_one_that_is_down_is_tried_again() {
    let mut manager = QueueManager::start();
    let client = manager.client();
    let mut access = client.access.clone();
    access.endpoint.addresses.insert(0, Address { host: "127.0.0.1".to_owned(), port: 9 });
    access.endpoint.special = access.endpoint.addresses.clone().into();
    assert!(client.broker.depth(&access, &queue("DEV.QUEUE.1"), deadline()).await.is_ok());

    manager.kill();
    let started = Instant::now();
    let error = refused(&client, &client.access.clone()).await;
    assert!(matches!(error, BrokerError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("tried"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(3));
    let later = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        manager.run();
    };
    let name = queue("DEV.QUEUE.1");
    let (depth, ()) = tokio::join!(client.broker.depth(&client.access, &name, deadline()), later);
    assert_eq!(depth.unwrap().current_depth, 0);
}

#[tokio::test]
async fn a_library_that_is_missing_is_said_at_once() {
    let manager = QueueManager::start();
    let present = manager.client();
    let settings = Settings { library: "/opt/none/libmqm_r.so".into(), ..Settings::default() };
    let broker = ibm_mq::IbmMq::new(settings, std::sync::Arc::clone(&present.cap));
    let started = Instant::now();
    let error = broker.depth(&present.access, &queue("DEV.QUEUE.1"), deadline()).await.unwrap_err();
    assert!(matches!(error, BrokerError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("/opt/none/libmqm_r.so"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_group_s_name_and_an_empty_one_take_whichever_queue_manager_answers() {
    let manager = QueueManager::start();
    let client = manager.client();
    for name in ["", "*GROUP"] {
        let mut access = client.access.clone();
        access.endpoint.queue_manager = name.to_owned();
        let depth = client.broker.depth(&access, &queue("DEV.QUEUE.1"), deadline()).await;
        assert!(depth.is_ok(), "{name}: {depth:?}");
    }
}

#[tokio::test]
async fn a_quiescing_queue_manager_is_unreachable() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.fill("DEV.QUEUE.1", 1).await;
    manager.control(&json!("quiesce"));
    let error = refused(&client, &client.access.clone()).await;
    assert!(matches!(error, BrokerError::Unreachable { .. }), "{error:?}");
    manager.control(&json!("reset"));
    assert_eq!(client.take("DEV.QUEUE.1", 1).await.messages.len(), 1);
}

/// Checks that the key repository is deleted when a TLS connection fails. It always fails here,
/// since the stand-in queue manager has no TLS.
#[tokio::test]
async fn a_key_repository_that_no_connection_uses_is_on_no_disk() {
    let manager = QueueManager::start();
    let secrets = tempfile::tempdir().unwrap();
    let settings = Settings { key_repository_dir: secrets.path().to_owned(), ..Settings::default() };
    let client = manager.client_with(settings, 2);
    let mut access = client.access.clone();
    access.endpoint.tls = Tls::On {
        key_store_ref: None,
        trust_store_ref: None,
        cipher_spec: None,
        opening: Default::default(),
    };
    access.trust_store = Some(r#"{"p12": "AQI=", "password": "s3cret"}"#.into());
    assert_eq!(code(&refused(&client, &access).await), Some(2393));
    client.has_open(0).await;
    assert_eq!(std::fs::read_dir(secrets.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_host_that_does_not_answer_is_told_from_one_whose_name_is_not_known() {
    let manager = QueueManager::start();
    let client = manager.client();
    let test = async |hosts: &[&str]| {
        let mut access = client.access.clone();
        let address = |host: &&str| Address { host: (*host).to_owned(), port: 1 };
        access.endpoint.addresses = hosts.iter().map(address).collect();
        access.endpoint.special = access.endpoint.addresses.clone().into();
        client.broker.test(&access, None, deadline()).await
    };
    let unknown = test(&["no-such-host.invalid", "neither.invalid"]).await;
    assert_eq!(failed_at(&unknown), ("resolve", "BROKER_UNREACHABLE"));
    assert!(unknown.steps[0].detail.as_ref().unwrap().contains("neither.invalid"), "{unknown:?}");
    let silent = test(&["no-such-host.invalid", "localhost"]).await;
    assert_eq!((failed_at(&silent), silent.steps[0].ok), (("connect", "BROKER_UNREACHABLE"), Some(true)));
    assert!(silent.steps[1].detail.as_ref().unwrap().contains("2538"), "{silent:?}");
    let fine = client.broker.test(&client.access, None, deadline()).await;
    assert_eq!((fine.ok, fine.steps[0].ok, fine.steps[1].ok), (true, Some(true), Some(true)));
}

/// Checks that a host name works if its special address (such as 127.0.0.1) is listed, and is
/// refused otherwise. The client library never sees the name: it gets the address that was checked.
#[tokio::test]
async fn a_name_leads_to_the_queue_manager_by_its_address_and_to_no_special_one_that_is_not_listed() {
    let manager = QueueManager::start();
    let client = manager.client();
    let mut access = client.access.clone();
    access.endpoint.addresses = vec![Address { host: "localhost".to_owned(), port: manager.port }];
    access.endpoint.special = access.endpoint.addresses.clone().into();
    let name = queue("DEV.QUEUE.1");
    assert!(client.broker.depth(&access, &name, deadline()).await.is_ok());
    access.endpoint.special = mq::SpecialAddresses::default();
    for host in ["localhost", "127.0.0.1", "127.1", "2130706433"] {
        access.endpoint.addresses = vec![Address { host: host.to_owned(), port: manager.port }];
        let refused = client.broker.depth(&access, &name, deadline()).await.unwrap_err();
        assert!(matches!(refused, BrokerError::AddressRefused { .. }), "{host}: {refused:?}");
        let tested = client.broker.test(&access, None, deadline()).await;
        assert_eq!(failed_at(&tested), ("resolve", "TARGET_NOT_ALLOWED"), "{host}");
    }
}
