//! Tests of connections through a client channel definition table (`ccdtUrl`).

use std::os::unix::net::UnixListener;
use std::time::Duration;

use mq::{Access, AckMode, BrokerError, Tls};

use broker::{Broker as _, Deadline};
use serde_json::{Value, json};

use crate::support::{Client, QueueManager, bodies, code, consume, deadline, queue, texts};

/// Builds the JSON of the definition of the channel `name` to `queue_manager`, whose connection
/// list has the given hosts and ports.
fn channel(name: &str, addresses: &[(&str, u16)], queue_manager: &str) -> Value {
    let addresses: Vec<_> =
        addresses.iter().map(|(host, port)| json!({"host": host, "port": port})).collect();
    json!({
        "name": name,
        "type": "clientConnection",
        "clientConnection": {"connection": addresses, "queueManager": queue_manager},
    })
}

fn with_cipher(mut channel: Value) -> Value {
    channel["transmissionSecurity"] = json!({"cipherSpecification": "ANY_TLS12_OR_HIGHER"});
    channel
}

/// Temporary file with a client channel definition table, which is deleted when this is dropped.
struct Table(tempfile::NamedTempFile);

impl Table {
    fn of(channels: &[Value]) -> Self {
        Self::with_text(&json!({ "channel": channels }).to_string())
    }

    fn with_text(text: &str) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Self(file)
    }

    fn url(&self) -> String {
        format!("file://{}", self.0.path().display())
    }
}

/// Returns a copy of `access` that uses the channel table at `url` in place of a channel and
/// addresses.
fn by(url: &str, access: &Access) -> Access {
    let mut access = access.clone();
    (access.endpoint.channel, access.endpoint.addresses) = (None, Vec::new());
    access.endpoint.ccdt_url = Some(url.to_owned());
    access
}

/// Returns `access` with TLS, and with a key store of two arbitrary bytes.
fn with_tls(mut access: Access) -> Access {
    access.endpoint.tls = Tls::On {
        key_store_ref: None,
        trust_store_ref: None,
        cipher_spec: None,
        opening: Default::default(),
    };
    access.key_store = Some(r#"{"p12": "AQI=", "password": "s3cret"}"#.into());
    access
}

async fn refused(client: &Client, access: &Access) -> BrokerError {
    client.broker.depth(access, &queue("DEV.QUEUE.1"), deadline()).await.unwrap_err()
}

fn channels_in_use(manager: &QueueManager) -> Vec<Value> {
    let status = manager.control(&json!("status"));
    let connections = status["connections"].as_array().unwrap().iter();
    connections.map(|connection| connection["channel"].clone()).collect()
}

#[tokio::test]
async fn a_table_says_where_the_queue_manager_is() {
    let manager = QueueManager::start();
    let mut client = manager.client();
    let here = [("127.0.0.1", manager.port)];
    let table = Table::of(&[
        channel("DEV.ADMIN.SVRCONN", &here, "ANOTHER"),
        channel("DEV.NARROW.SVRCONN", &here, &manager.name),
    ]);
    client.access = by(&table.url(), &client.access);
    client.put("DEV.QUEUE.1", &texts(&["a", "b"]), "a").await.unwrap();
    let unit = client.fetch("DEV.QUEUE.1", &consume(9, AckMode::Browse)).await.unwrap();
    assert_eq!(bodies(unit.consumed()), ["a", "b"]);
    unit.rollback(deadline()).await.unwrap();
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 9).await), ["a", "b"]);
    assert_eq!(channels_in_use(&manager), ["DEV.NARROW.SVRCONN"]);
    let report = client.broker.test(&client.access, Some(&queue("DEV.QUEUE.1")), deadline()).await;
    assert!(report.ok, "{report:?}");
    // By the name of a queue manager group.
    client.access.endpoint.queue_manager = format!("*{}", manager.name);
    assert_eq!(
        client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), deadline()).await.unwrap().current_depth,
        0
    );
}

#[tokio::test]
async fn the_next_channel_of_a_table_is_tried_if_the_first_one_is_not_reachable() {
    let manager = QueueManager::start();
    let mut client = manager.client();
    let first = channel("A.CHANNEL", &[("no-such-host", 1414), ("127.0.0.1", 9)], &manager.name);
    let second = channel("DEV.APP.SVRCONN", &[("127.0.0.1", manager.port)], &manager.name);
    let table = Table::of(&[first.clone(), second]);
    client.access = by(&table.url(), &client.access);
    client.put("DEV.QUEUE.1", &texts(&["a"]), "a").await.unwrap();
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 9).await), ["a"]);
    assert_eq!(channels_in_use(&manager), ["DEV.APP.SVRCONN"]);

    let alone = Table::of(&[first]);
    let soon = Deadline::after(Duration::from_secs(1));
    let access = by(&alone.url(), &client.access);
    let error = client.broker.depth(&access, &queue("DEV.QUEUE.1"), soon).await.unwrap_err();
    assert!(matches!(error, BrokerError::Unreachable { .. }), "{error:?}");
    assert_eq!(code(&error), Some(2538));
}

#[tokio::test]
async fn a_queue_manager_that_the_table_does_not_name_is_refused() {
    let manager = QueueManager::start();
    let client = manager.client();
    let table = Table::of(&[channel("DEV.APP.SVRCONN", &[("127.0.0.1", manager.port)], "ANOTHER")]);
    let access = by(&table.url(), &client.access);
    let error = refused(&client, &access).await;
    assert!(matches!(error, BrokerError::Rejected { .. }), "{error:?}");
    assert_eq!(code(&error), Some(2058));
    client.has_open(0).await;
}

#[tokio::test]
async fn a_table_that_cannot_be_read_is_refused() {
    let manager = QueueManager::start();
    let client = manager.client();
    let missing = "file:///no/such/ccdt.json".to_owned();
    let (words, list) = (Table::with_text("no table"), Table::with_text("[]"));
    let long = json!({"channel": [], "padding": "x".repeat(5_000_000)}).to_string();
    let long = Table::with_text(&long);
    let https = "https://ccdt.example/ccdt.json".to_owned();
    for (url, why) in [
        (missing, "cannot be read"),
        (words.url(), "not in JSON"),
        (list.url(), "not in JSON"),
        (long.url(), "more than"),
        (https, "must name a file"),
    ] {
        let access = by(&url, &client.access);
        let error = refused(&client, &access).await;
        assert!(matches!(error, BrokerError::Rejected { .. }), "{url}: {error:?}");
        assert_eq!(code(&error), Some(2600), "{url}");
        // With TLS the gateway reads the table before the client does.
        let error = refused(&client, &with_tls(access)).await;
        assert!(matches!(error, BrokerError::Unsupported { .. }), "{url}: {error:?}");
        assert!(error.to_string().contains(why), "{url}: {error}");
    }
    client.has_open(0).await;
}

/// Checks that the client refuses to connect with TLS through a table with an unprotected channel.
/// A listener in place of the queue manager shows that nothing connects.
#[tokio::test]
async fn nothing_is_sent_by_a_table_if_tls_is_wanted_and_a_channel_is_not_protected() {
    let manager = QueueManager::start();
    let client = manager.client();
    let listener = UnixListener::bind(manager.directory.join(format!("listener({})", manager.port))).unwrap();
    listener.set_nonblocking(true).unwrap();
    let here = [("listener", manager.port)];
    let bare = channel("BARE", &here, &manager.name);
    let protected = with_cipher(channel("APP", &here, &manager.name));
    for channels in [vec![bare.clone()], vec![protected, bare.clone()]] {
        let table = Table::of(&channels);
        let error = refused(&client, &with_tls(by(&table.url(), &client.access))).await;
        assert!(matches!(error, BrokerError::Unsupported { .. }), "{error:?}");
        assert!(error.to_string().contains("BARE"), "{error}");
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
    // The same table without TLS leads to this listener.
    let table = Table::of(&[bare]);
    let soon = Deadline::after(Duration::from_millis(300));
    let access = by(&table.url(), &client.access);
    client.broker.depth(&access, &queue("DEV.QUEUE.1"), soon).await.unwrap_err();
    listener.accept().unwrap();
}

/// Checks that the IBM MQ client library receives a table if all channels to the queue manager have
/// a cipher. The stand-in has no TLS, so the library's error 2393 proves it.
#[tokio::test]
async fn a_table_whose_channels_are_protected_goes_to_the_client() {
    let manager = QueueManager::start();
    let client = manager.client();
    let here = [("127.0.0.1", manager.port)];
    let table = Table::of(&[
        with_cipher(channel("DEV.APP.SVRCONN", &here, &manager.name)),
        channel("BARE", &here, "ANOTHER"),
    ]);
    let error = refused(&client, &with_tls(by(&table.url(), &client.access))).await;
    assert_eq!(code(&error), Some(2393), "{error:?}");
    client.has_open(0).await;
}
