//! Faults of TLS with a real broker: certificates of client and server that the other side refuses,
//! and a client certificate that is also the login.

use std::path::Path;
use std::sync::Arc;

use mq::{Access, Address, BrokerError, QueueName, Tls};

use broker::Broker as _;
use rabbitmq::long_running::{ConnectionArguments, ConnectionManager};
use rabbitmq::{RabbitMq, TlsConfig};
use secrecy::SecretString;
use tokio::sync::Mutex;

use crate::authority::Authority;
use crate::observer::Observer;
use crate::report::{kind, row, timed};
use crate::server::{Broker, CERTIFIED};
use crate::support::{access, after, queue, soon, works_again};

/// Returns the access to the broker's TLS listener with this TLS configuration. `version` is a
/// secret version, which keeps its connections apart from others.
fn over_tls(host: &str, port: u16, tls: TlsConfig, version: &str) -> Access {
    let mut access = access();
    access.endpoint.addresses = vec![Address { host: host.to_owned(), port }];
    access.endpoint.special = access.endpoint.addresses.clone().into();
    access.endpoint.tls = Tls::On {
        key_store_ref: None,
        trust_store_ref: None,
        cipher_spec: None,
        opening: Default::default(),
    };
    Access {
        trust_store: tls.trust_store,
        key_store: tls.key_store,
        secret_version: version.to_owned(),
        ..access
    }
}

fn store(authority: &Authority, name: &str) -> SecretString {
    let (certificate, key) = authority.issue(name);
    SecretString::from(format!("{certificate}{key}"))
}

pub(crate) async fn of_both_sides(broker: Arc<Mutex<Broker>>) {
    let broker = broker.lock().await;
    let (rabbit, observer, queue) = (RabbitMq::new(5), Observer::connect().await, queue("tls"));
    observer.declare(&queue, &[]).await;
    let (authority, stranger) = (&broker.authority, Authority::new());
    let with =
        |trusted: &Authority, key_store: Option<SecretString>| TlsConfig { key_store, ..trusted.trusted() };
    let client = || Some(store(authority, "a-client"));

    let good = over_tls("127.0.0.1", broker.tls_port, with(authority, client()), "good");
    works_again(&rabbit, &good, &queue).await;

    let unverified = [
        ("certificate of an unknown authority", "127.0.0.1", with(&stranger, client())),
        ("certificate for another name", "localhost", with(authority, client())),
    ];
    for (fault, host, tls) in unverified {
        let access = over_tls(host, broker.tls_port, tls, fault);
        let error = refused(&rabbit, &access, &queue, fault).await;
        assert!(error.to_string().contains("whose certificate is not valid here"), "{error}");
    }
    let refused_clients = [
        ("no client certificate", with(authority, None)),
        ("client certificate of an unknown authority", with(authority, Some(store(&stranger, "a-client")))),
    ];
    for (fault, tls) in refused_clients {
        let access = over_tls("127.0.0.1", broker.tls_port, tls, fault);
        let error = refused(&rabbit, &access, &queue, fault).await;
        // The broker's alert may be lost with the connection.
        assert!(error.to_string().contains("client certificate"), "{error}");
    }
    works_again(&rabbit, &good, &queue).await;

    certificate_as_login(&broker, &rabbit, &queue).await;
    observer.delete(&queue).await;
}

/// Runs a depth operation that the client or the broker has to refuse, and returns its error. Adds
/// a row to the report.
async fn refused(rabbit: &RabbitMq, access: &Access, queue: &QueueName, fault: &str) -> BrokerError {
    let deadline = after(5_000);
    let (result, took) = timed(deadline, rabbit.depth(access, queue, deadline)).await;
    let error = result.expect_err(fault);
    row(fault, "depth", kind(&error), took, "unchanged");
    error
}

async fn certificate_as_login(broker: &Broker, rabbit: &RabbitMq, queue: &QueueName) {
    let authority = &broker.authority;
    for (name, is_user) in [(CERTIFIED, true), ("nobody", false)] {
        let tls = TlsConfig { key_store: Some(store(authority, name)), ..authority.trusted() };
        let mut access = over_tls("127.0.0.1", broker.tls_port, tls, name);
        access.endpoint.user = None;
        access.credentials = None;
        if is_user {
            works_again(rabbit, &access, queue).await;
        } else {
            let error = refused(rabbit, &access, queue, "certificate of no user").await;
            assert!(matches!(error, BrokerError::AuthenticationFailed { .. }), "{error:?}");
        }
    }

    // The same login with the files that a configuration names.
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.issue(CERTIFIED);
    let path = |name: &str| directory.path().join(name);
    for (name, pem) in [("ca.pem", &authority.pem), ("cert.pem", &certificate), ("key.pem", &key)] {
        std::fs::write(path(name), pem).unwrap();
    }
    let arguments = ConnectionArguments {
        host: Some("127.0.0.1".to_owned()),
        port: Some(broker.tls_port.into()),
        ca_file: Some(path("ca.pem")),
        ..Default::default()
    };
    let environment = |name: &str| match name {
        "AMQP_TLS" => Some("true".to_owned()),
        "AMQP_CERT_FILE" => Some(path("cert.pem").display().to_string()),
        "AMQP_KEY_FILE" => Some(path("key.pem").display().to_string()),
        _ => None,
    };
    let config = arguments.load_from(environment, Path::new("no-such-file")).unwrap();
    assert_eq!(config.get_connection_url(), format!("amqps://127.0.0.1:{}/", broker.tls_port));
    let manager = ConnectionManager::new(config);
    manager.connect(soon()).await.unwrap();
    assert!(manager.check_health(soon()).await.is_healthy());
    manager.disconnect().await;
}
