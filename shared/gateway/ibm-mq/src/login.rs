//! Builds the client's connection parameters from a target and its secrets.

use std::sync::Arc;
use std::time::Duration;

use libmqm_sys::MQLONG;
use mq::{Access, Address, BrokerError, Tls};
use secrecy::ExposeSecret as _;

use crate::key_repository::{KeyRepository, Malformed};
use crate::mqi::{ChannelTls, Login, Route};
use crate::tls::TlsLease;

/// Cipher specification for a target that names none: the client then negotiates one (MQ 9.1.1 or
/// later).
const ANY_CIPHER: &str = "ANY_TLS12_OR_HIGHER";

/// Maximum lengths of user and password that a client sends, in bytes (MQ_CLIENT_USER_ID_LENGTH,
/// MQ_CSP_PASSWORD_LENGTH).
const LONGEST_USER: usize = libmqm_sys::MQ_CLIENT_USER_ID_LENGTH;
const LONGEST_PASSWORD: usize = libmqm_sys::MQ_CSP_PASSWORD_LENGTH;

/// Connection parameters of a target, except the addresses of its hosts and the path of its key
/// repository.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    queue_manager: String,
    route: WantedRoute,
    credentials: Option<mq::Credentials>,
    application: String,
    heartbeat: MQLONG,
    tls: Option<WantedTls>,
}

#[derive(Clone, Debug)]
enum WantedRoute {
    Channel { name: String },
    Table { url: String },
}

#[derive(Clone, Debug)]
struct WantedTls {
    repository: Arc<KeyRepository>,
    cipher_spec: String,
}

impl Wanted {
    pub(crate) fn queue_manager(&self) -> &str {
        &self.queue_manager
    }

    /// Key repository that the connection needs, or `None` without TLS.
    pub(crate) fn key_repository(&self) -> Option<&KeyRepository> {
        self.tls.as_ref().map(|tls| &*tls.repository)
    }

    /// Connection parameters with the addresses of the hosts, unless a table has them, and with the
    /// path of the leased key repository.
    pub(crate) fn at(&self, hosts: &[Address], lease: Option<&TlsLease>) -> Login {
        let route = match &self.route {
            WantedRoute::Channel { name } => {
                Route::Channel { name: name.clone(), conn_name: Address::in_ibm_form(hosts) }
            }
            WantedRoute::Table { url } => Route::Table { url: url.clone() },
        };
        let tls = self.tls.as_ref().zip(lease).map(|(wanted, lease)| ChannelTls {
            is_joined: lease.is_joined,
            repository: lease.file.clone(),
            password: wanted.repository.password.clone(),
            cipher_spec: wanted.cipher_spec.clone(),
            certificate_label: wanted.repository.certificate_label.clone(),
        });
        Login {
            queue_manager: self.queue_manager.clone(),
            route,
            tls,
            credentials: self.credentials.clone(),
            application: self.application.clone(),
            heartbeat: self.heartbeat,
        }
    }
}

/// Builds the connection parameters of a target.
///
/// # Errors
/// If the target is incomplete, or its key repository cannot be used.
pub(crate) fn login(access: &Access, application: &str, heartbeat: Duration) -> Result<Wanted, BrokerError> {
    let endpoint = &access.endpoint;
    let tls = match &endpoint.tls {
        Tls::Off => None,
        Tls::On { cipher_spec, .. } => {
            let cipher_spec = cipher_spec.clone().unwrap_or_else(|| ANY_CIPHER.to_owned());
            Some(WantedTls { repository: Arc::new(key_repository(access)?), cipher_spec })
        }
    };
    if let (Some(_), Tls::On { cipher_spec: Some(_), .. }) = (&endpoint.ccdt_url, &endpoint.tls) {
        return Err(BrokerError::unsupported(
            "ssl.cipherSpec has no effect beside ccdtUrl: each channel of the table has its own",
        ));
    }
    let route = match (&endpoint.ccdt_url, &endpoint.channel) {
        (Some(url), _) => WantedRoute::Table { url: table(url)? },
        (None, Some(name)) => WantedRoute::Channel { name: name.clone() },
        (None, None) => {
            return Err(BrokerError::unsupported("IBM MQ needs target.channel beside connName"));
        }
    };
    Ok(Wanted {
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

/// Checks the URL of a channel table: a file or https. The client would also follow other schemes.
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
    use mq::{Credentials, Endpoint, KeyFiles, Opening, SecretRef};

    use super::*;
    use crate::tls::TlsInUse;

    fn access() -> Access {
        Access {
            endpoint: Endpoint {
                queue_manager: "QM1".to_owned(),
                channel: Some("DEV.APP.SVRCONN".to_owned()),
                addresses: [("one", 1414), ("fe80::1", 1415)]
                    .map(|(host, port)| Address { host: host.to_owned(), port })
                    .to_vec(),
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

    fn log_in(access: &Access) -> Result<Wanted, BrokerError> {
        login(access, "integrahub", Duration::from_secs(60))
    }

    fn refused(access: &Access) -> String {
        log_in(access).unwrap_err().to_string()
    }

    #[test]
    fn addresses_are_given_to_the_client_in_their_order() {
        let access = access();
        let login = log_in(&access).unwrap().at(&access.endpoint.addresses, None);
        let Route::Channel { name, conn_name } = login.route else { panic!("{:?}", login.route) };
        assert!(login.tls.is_none());
        assert_eq!((name.as_str(), conn_name.as_str()), ("DEV.APP.SVRCONN", "one(1414),fe80::1(1415)"));
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
            let login = log_in(&access);
            let is_table =
                login.is_ok_and(|wanted| matches!(wanted.at(&[], None).route, Route::Table { .. }));
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
        let wanted = log_in(&access).unwrap();
        let (directory, in_use) = (tempfile::tempdir().unwrap(), Arc::<TlsInUse>::default());
        let lease = || in_use.lease(wanted.key_repository().unwrap(), directory.path()).unwrap().unwrap();
        let (first, second) = (lease(), lease());
        let tls = wanted.at(&[], Some(&first)).tls.unwrap();
        assert_eq!(tls.cipher_spec, ANY_CIPHER);
        assert_eq!(tls.certificate_label.as_deref(), Some("app"));
        assert_eq!((&tls.repository, tls.is_joined), (&first.file, false));
        assert!(wanted.at(&[], Some(&second)).tls.unwrap().is_joined);
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
        let opening = Opening { certificate_label: Some("app".to_owned()), ..Opening::default() };
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
        let wanted = log_in(&access).unwrap();
        let repository = wanted.key_repository().unwrap();
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
