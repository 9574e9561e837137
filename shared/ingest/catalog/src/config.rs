//! Connection settings of the database, and the verification of its identity.

use std::str::FromStr;

use secrecy::SecretString;
use tokio_postgres::config::Host;

/// Settings of a connection to PostgreSQL.
#[derive(Clone, Debug)]
pub struct DatabaseConfig {
    /// Host name of the database server. The server's certificate must be valid for it.
    pub host: String,
    /// Port of PostgreSQL, by default 5432.
    pub port: u16,
    /// Name of the database with the tables.
    pub dbname: String,
    /// PostgreSQL role to log in as.
    pub user: String,
    /// Password of the role. No `Debug` or error shows it.
    pub password: SecretString,
    /// Encryption of the connection, and the certificate authorities that verify the server.
    pub tls: Tls,
}

/// Encryption of a connection to PostgreSQL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// The connection is encrypted, and the server's certificate and host name are verified:
    /// against `ca` if it is given, otherwise against the authorities that the system trusts and
    /// those of Amazon RDS.
    #[expect(missing_docs, reason = "the variant's description names its field")]
    VerifyFull { ca: Option<Pem> },
    /// TLS is off, for a database on the same machine.
    #[default]
    Off,
}

/// Certificates of certificate authorities in PEM form, which verify the database server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pem(pub String);

/// Mode of encryption, from `DATABASE_TLS` or `sslmode`. Encryption without verification is not
/// offered, because it does not protect from an impostor of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TlsMode {
    #[default]
    VerifyFull,
    Off,
}

impl FromStr for TlsMode {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "verify-full" => Ok(Self::VerifyFull),
            "off" | "disable" => Ok(Self::Off),
            _ => Err(ConfigError::Tls),
        }
    }
}

impl TlsMode {
    pub(crate) fn with(self, ca: Option<Pem>) -> Tls {
        match self {
            Self::VerifyFull => Tls::VerifyFull { ca },
            Self::Off => Tls::Off,
        }
    }
}

/// Fault of the database's connection settings. Its text never shows the URL, which contains a
/// password.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum ConfigError {
    #[error("the database's URL is not of the form postgres://user:password@host:port/name")]
    Url(#[source] Option<Box<dyn std::error::Error + Send + Sync>>),
    #[error("the database's URL lacks its {0}")]
    Missing(&'static str),
    #[error("TLS is either verify-full or off")]
    Tls,
    #[error("the certificates that the database is verified against cannot be used")]
    Certificates(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl DatabaseConfig {
    /// Parses a URL such as `postgres://user:password@host:port/name?sslmode=verify-full`.
    /// `sslmode` is `verify-full` (the default), `disable` or `off`.
    ///
    /// # Errors
    /// If the URL is malformed, or lacks the host, the database's name, the user or the password.
    pub fn from_url(text: &str) -> Result<Self, ConfigError> {
        let (url, mode) = match text.split_once("?sslmode=") {
            Some((url, mode)) => (url, mode.parse()?),
            None => (text, TlsMode::default()),
        };
        if url.contains('?') {
            return Err(ConfigError::Url(None));
        }
        let parsed: tokio_postgres::Config =
            url.parse().map_err(|error: tokio_postgres::Error| ConfigError::Url(Some(error.into())))?;
        let host = match parsed.get_hosts() {
            [Host::Tcp(host)] => host.clone(),
            _ => return Err(ConfigError::Missing("host")),
        };
        let password = parsed.get_password().ok_or(ConfigError::Missing("password"))?;
        let password = std::str::from_utf8(password).map_err(|error| ConfigError::Url(Some(error.into())))?;
        Ok(Self {
            host,
            port: parsed.get_ports().first().copied().unwrap_or(5432),
            dbname: parsed.get_dbname().ok_or(ConfigError::Missing("name"))?.to_owned(),
            user: parsed.get_user().ok_or(ConfigError::Missing("user"))?.to_owned(),
            password: password.into(),
            tls: mode.with(None),
        })
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn a_url_is_read_with_its_escapes() {
        let config =
            DatabaseConfig::from_url("postgres://u%40x:p%2Fw%3A@db.example:6543/catalog?sslmode=disable")
                .unwrap();
        assert_eq!((config.host.as_str(), config.port), ("db.example", 6543));
        assert_eq!((config.user.as_str(), config.dbname.as_str()), ("u@x", "catalog"));
        assert_eq!(config.password.expose_secret(), "p/w:");
        assert_eq!(config.tls, Tls::Off);
    }

    #[test]
    fn without_a_word_about_tls_the_server_is_verified() {
        let config = DatabaseConfig::from_url("postgres://u:p@db.example/catalog").unwrap();
        assert_eq!((config.port, config.tls), (5432, Tls::VerifyFull { ca: None }));
    }

    #[test]
    fn whatever_else_is_refused_without_showing_the_password() {
        for url in [
            "db.example",
            "postgres://u:hidden@db.example/catalog?sslmode=require",
            "postgres://u:hidden@db.example/catalog?sslmode=prefer",
            "postgres://u:hidden@db.example/catalog?options=-c%20x=y",
            "postgres://u@db.example/catalog",
            "postgres://u:hidden@db.example",
            "mysql://u:hidden@db.example/catalog",
        ] {
            let error = DatabaseConfig::from_url(url).unwrap_err();
            assert!(!format!("{error:?} {error}").contains("hidden"), "{url}");
        }
    }
}
