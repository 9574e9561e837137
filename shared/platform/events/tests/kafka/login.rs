//! Tests of logins under TLS. A proxy terminates TLS in front of the fake broker, which advertises
//! the proxy's address.

use std::sync::Arc;

use attempt::{Retry, Retryable as _};
use events::kafka::{Cluster, ProduceError, Producer, SecretFault};
use krafka::testing::FakeBroker;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use runtime::Sdk;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto};
use wiremock::matchers::header;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::support::{TIMEOUT, TOPIC, records, settings};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Issues a certificate for 127.0.0.1 with its key.
    fn certify(&self) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }
}

/// Starts a fake broker behind a TLS proxy. With `wants_certificate`, the proxy accepts only
/// clients that have a certificate of `authority`.
async fn behind_tls(authority: &Authority, wants_certificate: bool) -> (FakeBroker, String) {
    let broker = FakeBroker::start().await.unwrap();
    broker.create_topic(TOPIC, 2);
    let upstream = broker.bootstrap_servers();
    let (certificate, key) = authority.certify();
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = if wants_certificate {
        let mut roots = RootCertStore::empty();
        roots.add(authority.0.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (listener, port) = test_support::ports::listen().await;
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (acceptor, upstream) = (acceptor.clone(), upstream.clone());
            tokio::spawn(async move {
                let Ok(mut client) = acceptor.accept(client).await else { return };
                let mut broker = TcpStream::connect(upstream).await.unwrap();
                let _ended = copy_bidirectional(&mut client, &mut broker).await;
            });
        }
    });
    broker.with_state(|state| state.brokers[0].port = i32::from(port));
    (broker, format!("127.0.0.1:{port}"))
}

/// Creates a producer that reads its login from a fake Secrets Manager, which returns `secret`.
/// Also returns the fake, to keep it alive.
async fn producer(servers: &str, authentication: &str, secret: &serde_json::Value) -> (Producer, MockServer) {
    let secrets = MockServer::start().await;
    let content = serde_json::json!({"SecretString": secret.to_string()});
    Mock::given(header("x-amz-target", "secretsmanager.GetSecretValue"))
        .respond_with(ResponseTemplate::new(200).set_body_json(content))
        .mount(&secrets)
        .await;
    let sdk = Sdk::at(&secrets.uri(), "us-east-1", "id", "key").await;
    let cluster = Cluster::new(settings(servers, authentication), &sdk).with_timeout(TIMEOUT);
    (Producer::new(cluster), secrets)
}

fn identity(authority: &Authority, trusted: &Authority) -> serde_json::Value {
    let (certificate, key) = authority.certify();
    serde_json::json!({
        "certificate": certificate.pem(), "privateKey": key.serialize_pem(), "ca": trusted.0.pem(),
    })
}

#[tokio::test]
async fn a_certificate_of_the_secret_is_a_login() {
    let authority = Authority::new();
    let (broker, servers) = behind_tls(&authority, true).await;
    let (producer, _secrets) = producer(&servers, "mtls", &identity(&authority, &authority)).await;
    producer.send(records(0..10)).await.unwrap();
    assert_eq!(broker.all_records(TOPIC).unwrap().len(), 10);
}

#[tokio::test]
async fn a_certificate_of_another_authority_needs_repair() {
    let (ours, other) = (Authority::new(), Authority::new());
    let (broker, servers) = behind_tls(&ours, true).await;
    // The broker refuses the client's certificate, or the client the broker's.
    for secret in [identity(&other, &ours), identity(&ours, &other)] {
        let (producer, _secrets) = producer(&servers, "mtls", &secret).await;
        let error = producer.send(records(0..1)).await.unwrap_err();
        assert_eq!(error.retry(), Retry::AfterRepair, "{error:?}");
        assert!(error.to_string().contains(&servers), "{error}");
    }
    assert_eq!(broker.all_records(TOPIC).unwrap().len(), 0);
}

#[tokio::test]
async fn a_login_that_the_broker_refuses_needs_repair_and_the_password_is_not_shown() {
    let authority = Authority::new();
    let (broker, servers) = behind_tls(&authority, false).await;
    // The fake broker refuses SCRAM at once.
    broker.require_sasl_plain("u", "another");
    let secret = serde_json::json!({"username": "u", "password": "hidden", "ca": authority.0.pem()});
    let (producer, secrets) = producer(&servers, "scram", &secret).await;
    for _ in 0..2 {
        let error = producer.send(records(0..1)).await.unwrap_err();
        assert_eq!(error.retry(), Retry::AfterRepair, "{error:?}");
        assert!(!format!("{error:?}").contains("hidden"));
    }
    let asked = secrets.received_requests().await.unwrap().len();
    assert_eq!(asked, 2, "the secret is read again after a failure");
}

#[tokio::test]
async fn a_key_with_a_password_is_refused_with_what_to_do() {
    let authority = Authority::new();
    let mut secret = identity(&authority, &authority);
    secret["privateKeyPassword"] = "hidden".into();
    let (producer, _secrets) = producer("127.0.0.1:1", "mtls", &secret).await;
    let error = producer.send(records(0..1)).await.unwrap_err();
    assert_eq!(error.retry(), Retry::AfterRepair);
    let ProduceError::Connect(events::kafka::ConnectError::SecretMalformed(fault)) = error else {
        panic!("{error:?}")
    };
    assert!(matches!(fault, SecretFault::EncryptedKey), "{fault:?}");
}
