//! TLS by rustls: trusts the system's roots or the target's own, and presents a client certificate
//! if the target has one.

use std::io;

use lapin::tcp::{RustlsConnector, RustlsConnectorConfig};
use mq::BrokerError;
use rustls::{AlertDescription as Alert, CertificateError, InvalidMessage};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::{ExposeSecret as _, SecretString};

use crate::config::TlsConfig;

/// Builds the TLS connector for a connection.
///
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
    built.map_err(|error| {
        let why = self::error(&error).and_then(why_no_client).unwrap_or("the certificates cannot be used");
        BrokerError::rejected(why).caused_by(error)
    })
}

/// Returns the TLS error within an I/O error, which may be nested several times; `None` if there is
/// none.
pub(crate) fn error(error: &io::Error) -> Option<&rustls::Error> {
    let inner = error.get_ref()?;
    inner.downcast_ref::<rustls::Error>().or_else(|| self::error(inner.downcast_ref::<io::Error>()?))
}

/// True if the server does not speak TLS, for example because the port is for plain AMQP.
pub(crate) fn is_plain(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType))
}

/// Returns the cause of a failed handshake in words that continue a sentence about the broker's
/// address; `None` if the caller cannot act on it.
pub(crate) fn why(error: &rustls::Error) -> Option<&'static str> {
    use CertificateError as Why;
    Some(match error {
        rustls::Error::InvalidCertificate(why) => match why {
            Why::Expired | Why::ExpiredContext { .. } => {
                "whose certificate is not valid here: it has expired"
            }
            Why::NotValidYet | Why::NotValidYetContext { .. } => {
                "whose certificate is not valid here: it is not valid yet"
            }
            Why::Revoked => "whose certificate is not valid here: it was revoked",
            Why::UnknownIssuer => {
                "whose certificate is not valid here: the trust store does not have its authority"
            }
            Why::NotValidForName | Why::NotValidForNameContext { .. } => {
                "whose certificate is not valid here: its alternative names lack this host"
            }
            Why::Other(other) => by_name(&other.to_string()),
            _ => "whose certificate is not valid here",
        },
        rustls::Error::InvalidMessage(_) => "where something else than TLS may be spoken",
        rustls::Error::PeerIncompatible(_)
        | rustls::Error::AlertReceived(Alert::ProtocolVersion | Alert::InsufficientSecurity) => {
            "which does not agree with this client on a version or a cipher of TLS"
        }
        // A broker that requires a client certificate may report nothing more specific than this.
        rustls::Error::AlertReceived(Alert::HandshakeFailure) => {
            "which does not agree with this client on a version or a cipher of TLS, or on its certificate"
        }
        rustls::Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied,
        ) => "which does not take this client's certificate, or wants one",
        _ => return None,
    })
}

/// Returns an explanation of a certificate verifier's error, of which the TLS library gives only
/// the name.
fn by_name(error: &str) -> &'static str {
    if error.contains("CaUsedAsEndEntity") {
        "whose certificate is not valid here: it is an authority's (CA:TRUE), and a broker needs one of its own"
    } else if error.contains("UnsupportedCertVersion") {
        "whose certificate is not valid here: it is not of X.509 version 3"
    } else {
        "whose certificate is not valid here"
    }
}

fn why_no_client(error: &rustls::Error) -> Option<&'static str> {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            Some("the private key of the key store does not belong to its certificate")
        }
        rustls::Error::InvalidCertificate(CertificateError::Other(other))
            if other.to_string().contains("UnsupportedCertVersion") =>
        {
            Some("the certificate of the key store is not of X.509 version 3")
        }
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[test]
    fn a_handshake_that_fails_is_explained_by_its_cause() {
        let other =
            |name: &'static str| CertificateError::Other(OtherError(Arc::new(io::Error::other(name))));
        let said: Vec<_> = [
            CertificateError::Expired,
            CertificateError::NotValidYet,
            CertificateError::Revoked,
            CertificateError::UnknownIssuer,
            CertificateError::NotValidForName,
            CertificateError::BadSignature,
            other("CaUsedAsEndEntity"),
            other("UnsupportedCertVersion { .. }"),
        ]
        .into_iter()
        .map(|why| self::why(&rustls::Error::InvalidCertificate(why)).unwrap())
        .collect();
        assert!(said.iter().all(|why| why.starts_with("whose certificate is not valid here")), "{said:?}");
        let distinct: std::collections::BTreeSet<_> = said.iter().collect();
        assert_eq!(distinct.len(), said.len(), "{said:?}");
        assert_eq!(why(&rustls::Error::InvalidCertificate(other("something new"))), Some(by_name("")));
        let nested =
            io::Error::other(io::Error::other(rustls::Error::InvalidCertificate(CertificateError::Expired)));
        assert!(error(&nested).and_then(why).is_some_and(|why| why.ends_with("it has expired")));
        assert!(error(&io::Error::other("no TLS")).is_none());
    }
}
