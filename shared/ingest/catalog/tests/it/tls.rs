use std::error::Error as _;

use attempt::Retryable as _;
use catalog::{Database, DatabaseConfig, DatabaseError, Pem, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use test_support::postgres::Cluster;

use crate::support::config;

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn verified(cluster: &Cluster, ca: &str, host: &str) -> Database {
    let tls = Tls::VerifyFull { ca: Some(Pem(ca.to_owned())) };
    Database::new(DatabaseConfig { host: host.to_owned(), tls, ..config(cluster) })
}

fn causes(error: &DatabaseError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

#[tokio::test]
async fn the_servers_certificate_and_name_are_verified() {
    let ca = authority();
    let key = KeyPair::generate().unwrap();
    // It is reached by 127.0.0.1 too, which the certificate does not name.
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
    let plain = Cluster::start(&[]).await;
    let certificate = plain.file("server.crt", &certificate.pem());
    let key = plain.file("server.key", &key.serialize_pem());
    let settings = [
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", certificate.display()),
        format!("ssl_key_file={}", key.display()),
    ];
    let cluster = Cluster::start(&settings.each_ref().map(String::as_str)).await;

    verified(&cluster, &ca.pem(), "localhost").ping().await.unwrap();
    for (database, reason) in [
        (verified(&cluster, &authority().pem(), "localhost"), "certificate"),
        (verified(&cluster, &ca.pem(), "127.0.0.1"), "certificate"),
        // The same certificate, but of a server that has no TLS at all.
        (verified(&plain, &ca.pem(), "localhost"), "TLS"),
    ] {
        let error = database.ping().await.unwrap_err();
        assert!(error.retry().is_transient() && causes(&error).contains(reason), "{}", causes(&error));
    }
    let error = verified(&cluster, "no certificate", "localhost").ping().await.unwrap_err();
    assert!(matches!(error, DatabaseError::Config(_)), "{error:?}");
}
