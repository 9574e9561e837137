//! Builds the connection parameters for IBM's client from a target and its secrets.

use std::sync::Arc;
use std::time::Duration;

use libmqm_sys::MQLONG;
use mq::{Access, BrokerError, Tls};
use secrecy::ExposeSecret as _;

use crate::key_repository::{KeyRepository, Malformed};
use crate::mqi::{ChannelTls, Login, Route};

/// Cipher specification for a target that names none. The client then negotiates the cipher with
/// the queue manager (IBM MQ 9.1.1 or later).
const ANY_CIPHER: &str = "ANY_TLS12_OR_HIGHER";

/// Maximum length in bytes of a user name that a client sends (MQ_CLIENT_USER_ID_LENGTH).
const LONGEST_USER: usize = libmqm_sys::MQ_CLIENT_USER_ID_LENGTH;
/// Maximum length in bytes of a password that a client sends (MQ_CSP_PASSWORD_LENGTH).
const LONGEST_PASSWORD: usize = libmqm_sys::MQ_CSP_PASSWORD_LENGTH;

/// Builds the parameters for connecting to a target. `application` is the name that administrators
/// see for the connection, and `heartbeat` the interval of heartbeats to request.
///
/// # Errors
/// If the target is incomplete, or its key repository cannot be used.
pub(crate) fn login(access: &Access, application: &str, heartbeat: Duration) -> Result<Login, BrokerError> {
    let endpoint = &access.endpoint;
    let tls = match &endpoint.tls {
        Tls::Off => None,
        Tls::On { cipher_spec, .. } => {
            let cipher_spec = cipher_spec.clone().unwrap_or_else(|| ANY_CIPHER.to_owned());
            Some(ChannelTls { repository: Arc::new(key_repository(access)?), cipher_spec })
        }
    };
    if let (Some(_), Tls::On { cipher_spec: Some(_), .. }) = (&endpoint.ccdt_url, &endpoint.tls) {
        return Err(BrokerError::unsupported(
            "ssl.cipherSpec has no effect beside ccdtUrl: each channel of the table has its own",
        ));
    }
    let route = match (&endpoint.ccdt_url, &endpoint.channel) {
        (Some(url), _) => Route::Table { url: table(url)? },
        (None, Some(name)) => Route::Channel { name: name.clone() },
        (None, None) => {
            return Err(BrokerError::unsupported("IBM MQ needs target.channel beside connName"));
        }
    };
    Ok(Login {
        queue_manager: endpoint.queue_manager.clone(),
        route,
        credentials: credentials(access)?,
        application: application.to_owned(),
        heartbeat: seconds(heartbeat),
        tls,
    })
}

fn credentials(access: &Access) -> Result<Option<mq::Credentials>, BrokerError> {
    let Some(credentials) = &access.credentials else {
        return match &access.endpoint.user {
            // The client would send its own user instead of the requested one.
            Some(_) => Err(BrokerError::unsupported("IBM MQ needs a password (passwordRef) beside a user")),
            None => Ok(None),
        };
    };
    if credentials.user.len() > LONGEST_USER || credentials.password.expose_secret().len() > LONGEST_PASSWORD
    {
        let detail = format!(
            "IBM MQ takes a user of up to {LONGEST_USER} and a password of up to {LONGEST_PASSWORD} bytes"
        );
        return Err(BrokerError::authentication_failed(detail));
    }
    Ok(Some(credentials.clone()))
}

/// Returns the URL of a channel table if it has the scheme `file` or `https`, and an error
/// otherwise. The client would also accept other schemes.
fn table(url: &str) -> Result<String, BrokerError> {
    let is_known = ["file://", "https://"].iter().any(|scheme| url.starts_with(scheme));
    if is_known {
        Ok(url.to_owned())
    } else {
        Err(BrokerError::unsupported("ccdtUrl must begin with file:// or https://"))
    }
}

fn key_repository(access: &Access) -> Result<KeyRepository, BrokerError> {
    let Tls::On { key_store_ref, trust_store_ref, opening, .. } = &access.endpoint.tls else {
        return Err(BrokerError::unsupported("a key repository is for TLS only"));
    };
    let has_two_refs = key_store_ref.is_some() && trust_store_ref.is_some();
    let read = match (&access.key_files, &access.key_store, &access.trust_store) {
        (None, None, None) => {
            return Err(BrokerError::unsupported(
                "TLS with IBM MQ needs a key repository: name it in ssl.keyStoreRef or ssl.trustStoreRef",
            ));
        }
        (Some(files), None, None) if !has_two_refs => KeyRepository::of_files(files),
        (None, Some(secret), None) | (None, None, Some(secret)) if !has_two_refs => {
            match opening.is_empty() {
                true => KeyRepository::parse(secret),
                false => Err(Malformed::Opened),
            }
        }
        _ => {
            return Err(BrokerError::unsupported(
                "IBM MQ has one key repository for certificates and authorities: name it in ssl.keyStoreRef or \
                 ssl.trustStoreRef, not in both",
            ));
        }
    };
    read.map_err(|why| {
        BrokerError::authentication_failed(format!("the key repository cannot be used: {why}")).caused_by(why)
    })
}

fn seconds(duration: Duration) -> MQLONG {
    MQLONG::try_from(duration.as_secs()).unwrap_or(MQLONG::MAX)
}

#[cfg(test)]
mod tests {
    use mq::{Address, Credentials, Endpoint, KeyFiles, KeyRepositoryAccess, SecretRef};

    use super::*;

    fn access() -> Access {
        Access {
            endpoint: Endpoint {
                queue_manager: "QM1".to_owned(),
                channel: Some("DEV.APP.SVRCONN".to_owned()),
                addresses: vec![Address { host: "one".to_owned(), port: 1414 }],
                ..Endpoint::default()
            },
            credentials: Some(Credentials { user: "app".to_owned(), password: "s3cret".into() }),
            ..Access::default()
        }
    }

    fn tls(cipher_spec: Option<&str>) -> Tls {
        let cipher_spec = cipher_spec.map(str::to_owned);
        Tls::On { key_store_ref: None, trust_store_ref: None, cipher_spec, opening: Box::default() }
    }

    fn log_in(access: &Access) -> Result<Login, BrokerError> {
        login(access, "integrahub", Duration::from_secs(60))
    }

    fn refused(access: &Access) -> String {
        log_in(access).unwrap_err().to_string()
    }

    #[test]
    fn a_target_without_tls_has_a_channel_and_no_key_repository() {
        let login = log_in(&access()).unwrap();
        assert!(matches!(login.route, Route::Channel { name } if name == "DEV.APP.SVRCONN"));
        assert!(login.tls.is_none());
        assert_eq!(login.heartbeat, 60);
    }

    #[test]
    fn a_table_is_a_file_or_behind_https() {
        let mut access = access();
        for (url, fine) in [
            ("file:///opt/AMQCLCHL.TAB", true),
            ("https://ccdt.example/t.json", true),
            ("http://x/", false),
            ("ftp://x", false),
        ] {
            access.endpoint.ccdt_url = Some(url.to_owned());
            let is_table = log_in(&access).is_ok_and(|login| matches!(login.route, Route::Table { .. }));
            assert_eq!(is_table, fine, "{url}");
        }
    }

    #[test]
    fn a_table_has_the_cipher_specifications() {
        let mut access = access();
        access.endpoint.ccdt_url = Some("file:///opt/mqm/files/ccdt.json".to_owned());
        access.key_store = Some(r#"{"p12":"AQI=","password":"s3cret"}"#.into());
        access.endpoint.tls = tls(None);
        assert!(log_in(&access).is_ok());
        access.endpoint.tls = tls(Some("ANY_TLS13"));
        assert!(refused(&access).contains("ssl.cipherSpec"));
    }

    #[test]
    fn what_is_missing_in_a_target_is_said() {
        let mut without_channel = access();
        without_channel.endpoint.channel = None;
        assert!(refused(&without_channel).contains("target.channel"));
        let mut without_password = access();
        without_password.credentials = None;
        without_password.endpoint.user = Some("app".to_owned());
        assert!(refused(&without_password).contains("passwordRef"));
        let mut long = access();
        long.credentials = Some(Credentials { user: "app".to_owned(), password: "x".repeat(257).into() });
        assert!(refused(&long).contains("256 bytes"));
    }

    #[test]
    fn tls_has_one_key_repository_in_a_file_of_its_own() {
        let mut access = access();
        access.endpoint.tls = tls(None);
        assert!(refused(&access).contains("key repository"));
        access.trust_store = Some(r#"{"p12":"AQI=","password":"s3cret","certificateLabel":"app"}"#.into());
        let ChannelTls { repository, cipher_spec } = log_in(&access).unwrap().tls.unwrap();
        assert_eq!(cipher_spec, ANY_CIPHER);
        assert_eq!(repository.certificate_label.as_deref(), Some("app"));
        access.key_store = access.trust_store.clone();
        assert!(refused(&access).contains("not in both"));
        access.trust_store = None;
        access.key_store = Some("-----BEGIN".into());
        let error = log_in(&access).unwrap_err();
        assert!(matches!(error, BrokerError::AuthenticationFailed { .. }), "{error:?}");
        assert!(!error.to_string().contains("BEGIN"), "{error}");
    }

    #[test]
    fn a_file_is_opened_by_what_the_target_names_and_text_by_itself() {
        let mut access = access();
        let opening = KeyRepositoryAccess {
            certificate_label: Some("app".to_owned()),
            ..KeyRepositoryAccess::default()
        };
        let store = |name: &str| SecretRef::SecretsManager(name.to_owned()).into();
        access.endpoint.tls = Tls::On {
            key_store_ref: Some(store("mq/keys")),
            trust_store_ref: None,
            cipher_spec: None,
            opening: Box::new(opening.clone()),
        };
        access.key_files = Some(KeyFiles {
            store: Arc::new(b"\0CMS".to_vec().into()),
            stash: None,
            password: Some("s3cret".into()),
            certificate_label: opening.certificate_label.clone(),
        });
        let repository = log_in(&access).unwrap().tls.unwrap().repository;
        assert!(repository.password.is_some());
        assert_eq!(repository.certificate_label.as_deref(), Some("app"));
        let text = Access {
            key_files: None,
            key_store: Some(r#"{"p12":"AQI=","password":"s3cret"}"#.into()),
            ..access.clone()
        };
        assert!(refused(&text).contains("ssl.stashRef"));
        if let Tls::On { trust_store_ref, .. } = &mut access.endpoint.tls {
            *trust_store_ref = Some(store("mq/other"));
        }
        assert!(refused(&access).contains("not in both"));
    }
}
