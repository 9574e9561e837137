//! TLS with rustls: the server's certificate and its host name are verified, always.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::{ConfigError, Pem};

/// What makes verified connections.
pub(crate) fn connector(ca: Option<&Pem>) -> Result<MakeRustlsConnect, ConfigError> {
    let roots = match ca {
        Some(ca) => private(ca)?,
        None => trusted_by_the_system()?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConfigError::Certificates(error.into()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn private(ca: &Pem) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.0.as_bytes()) {
        let certificate = certificate.map_err(|error| ConfigError::Certificates(error.into()))?;
        roots.add(certificate).map_err(|error| ConfigError::Certificates(error.into()))?;
    }
    not_empty(roots)
}

fn trusted_by_the_system() -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    // A system's bundle may hold certificates of kinds that are not supported.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    not_empty(roots)
}

fn not_empty(roots: RootCertStore) -> Result<RootCertStore, ConfigError> {
    if roots.is_empty() { Err(ConfigError::Certificates("there is none".into())) } else { Ok(roots) }
}
