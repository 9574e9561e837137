//! TLS with rustls: the server's certificate and its host name are verified, always.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::{ConfigError, Pem};

/// Certificates of the authorities of Amazon RDS and Aurora databases, in PEM form.
/// `scripts/rds-authorities.sh` renews them.
const RDS: &str = include_str!("../certificates/rds.pem");

/// Creates a TLS connector that verifies the server: against `ca` if it is given, otherwise against
/// the authorities that the system trusts and those of RDS.
pub(crate) fn connector(ca: Option<&Pem>) -> Result<MakeRustlsConnect, ConfigError> {
    let roots = match ca {
        Some(ca) => private(ca)?,
        None => public()?,
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

/// Returns the certificate authorities that the system trusts, and those of RDS, which systems do
/// not include.
fn public() -> Result<RootCertStore, ConfigError> {
    let mut roots = private(&Pem(RDS.to_owned()))?;
    // A system's bundle may hold certificates of kinds that are not supported.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Ok(roots)
}

fn not_empty(roots: RootCertStore) -> Result<RootCertStore, ConfigError> {
    if roots.is_empty() { Err(ConfigError::Certificates("there is none".into())) } else { Ok(roots) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authorities_of_rds_are_trusted_besides_the_system_s() {
        let of_rds = private(&Pem(RDS.to_owned())).unwrap();
        // One for each kind of key in each region.
        assert_eq!(of_rds.len() % 3, 0);
        let names: Vec<_> = RDS.lines().filter_map(|line| line.strip_prefix("# ")).collect();
        assert_eq!(names.len(), of_rds.len());
        for region in ["us-east-1", "sa-east-1", "eu-west-1"] {
            for key in ["RSA2048", "RSA4096", "ECC384"] {
                assert!(names.contains(&&*format!("Amazon RDS {region} Root CA {key} G1")), "{region} {key}");
            }
        }
        let public = public().unwrap();
        assert!(of_rds.roots.iter().all(|root| public.roots.contains(root)));
    }
}
