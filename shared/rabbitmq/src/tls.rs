//! TLS by rustls: the system's roots or the target's own, and a client certificate where the target
//! has one.

use lapin::tcp::{RustlsConnector, RustlsConnectorConfig};
use mq::BrokerError;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::{ExposeSecret as _, SecretString};

use crate::config::TlsConfig;

/// # Errors
/// [`BrokerError::Rejected`] if the certificates cannot be used.
pub(crate) fn connector(config: &TlsConfig) -> Result<RustlsConnector, BrokerError> {
    let builder = match &config.trust_store {
        None => RustlsConnectorConfig::new_with_native_certs().map_err(|error| {
            BrokerError::rejected("the system's certificates cannot be read").caused_by(error)
        })?,
        Some(pem) => {
            let mut builder = RustlsConnectorConfig::default();
            builder.add_parsable_certificates(certificates(pem, "trust store")?);
            builder
        }
    };
    let built = match &config.key_store {
        None => builder.connector_with_no_client_auth(),
        Some(pem) => {
            let chain = certificates(pem, "key store")?;
            let key = PrivateKeyDer::from_pem_slice(pem.expose_secret().as_bytes())
                .map_err(|_| BrokerError::rejected("the key store holds no private key in PEM"))?;
            builder.connector_with_single_cert(chain, key)
        }
    };
    built.map_err(|error| BrokerError::rejected("the certificates cannot be used").caused_by(error))
}

fn certificates(pem: &SecretString, store: &str) -> Result<Vec<CertificateDer<'static>>, BrokerError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem.expose_secret().as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| BrokerError::rejected(format!("the {store} is not PEM")))?;
    if certificates.is_empty() {
        return Err(BrokerError::rejected(format!("the {store} holds no certificate in PEM")));
    }
    Ok(certificates)
}
