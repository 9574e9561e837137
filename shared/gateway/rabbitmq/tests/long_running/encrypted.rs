//! Tests of AMQPS connections. The client always verifies the broker's certificate, by a private
//! authority if one is configured, and may have a certificate of its own. A proxy ends the TLS in
//! front of the broker.

use std::sync::Arc;

use rabbitmq::long_running::{ConnectionError, ConnectionManager, TlsConfig};
use secrecy::SecretString;
use test_support::ports;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::authority::Authority;
use crate::support::{arguments, load, soon, uri};

fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// Starts a TLS proxy in front of the broker, with a certificate of `authority` for the host
/// `name`. Returns its port. With `clients`, the proxy requires a client certificate that the
/// authority `clients` has issued.
async fn tls_front(authority: &Authority, name: &str, clients: Option<&Authority>) -> u16 {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = match clients {
        None => builder.unwrap().with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots.add(certificate(&clients.pem)).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.unwrap().with_client_cert_verifier(verifier.unwrap())
        }
    };
    let (chain, key) = authority.issue(name);
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = builder.with_single_cert(vec![certificate(&chain)], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (listener, port) = ports::listen().await;
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let broker = uri().authority;
                let mut server = TcpStream::connect((broker.host.as_str(), broker.port)).await.unwrap();
                if let Ok(mut client) = acceptor.accept(client).await {
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    port
}

async fn connect(port: u16, tls: TlsConfig) -> Result<(), ConnectionError> {
    let config = load(&arguments(port)).with_tls(tls);
    assert!(config.get_connection_url().starts_with("amqps://"));
    let manager = ConnectionManager::new(config);
    manager.connect(soon()).await?;
    assert!(manager.check_health(soon()).await.is_healthy());
    manager.disconnect().await;
    Ok(())
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_it_was_given() {
    let authority = Authority::new();
    let port = tls_front(&authority, "127.0.0.1", None).await;
    connect(port, authority.trusted()).await.unwrap();
}

#[tokio::test]
async fn a_certificate_of_nobody_known_or_for_another_host_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let port = tls_front(&authority, "127.0.0.1", None).await;
    for tls in [TlsConfig::default(), other.trusted()] {
        let error = connect(port, tls).await.unwrap_err();
        assert!(error.to_string().starts_with("no TLS connection"), "{error}");
    }
    let elsewhere = tls_front(&authority, "another.example", None).await;
    let error = connect(elsewhere, authority.trusted()).await.unwrap_err();
    assert!(error.to_string().starts_with("no TLS connection"), "{error}");
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_there_is_one() {
    let authority = Authority::new();
    let port = tls_front(&authority, "127.0.0.1", Some(&authority)).await;
    let (certificate, key) = authority.issue("a-client");
    let key_store = Some(SecretString::from(format!("{certificate}{key}")));
    connect(port, TlsConfig { key_store, ..authority.trusted() }).await.unwrap();
    connect(port, authority.trusted()).await.unwrap_err();

    let garbage = TlsConfig { key_store: Some(SecretString::from("no pem")), ..authority.trusted() };
    let error = connect(port, garbage).await.unwrap_err();
    assert!(error.to_string().contains("key store"), "{error}");
}
