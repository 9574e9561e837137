//! Address and credentials of the database, read from Secrets Manager.

use std::num::ParseIntError;

use aws_sdk_secretsmanager::Client;
use runtime::Environment;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use crate::config::{DatabaseConfig, Pem, TlsMode};
use crate::error::{DatabaseError, SecretFault};

/// Secret with the database's address and login, and the environment's settings that override it.
pub(crate) struct DatabaseSecret {
    client: Client,
    arn: String,
    host: Option<String>,
    port: Option<u16>,
    dbname: Option<String>,
    tls: TlsMode,
    ca_arn: Option<String>,
}

/// Content of the database's secret, as RDS writes it.
#[derive(Deserialize)]
struct Content {
    host: Option<String>,
    port: Option<Port>,
    dbname: Option<String>,
    username: String,
    password: SecretText,
}

/// Port in the database's secret, as a number or as text: RDS writes a number, and the editor of
/// the AWS console stores every value as text.
#[derive(Deserialize)]
#[serde(try_from = "NumberOrText")]
struct Port(u16);

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u16),
    Text(String),
}

impl TryFrom<NumberOrText> for Port {
    type Error = ParseIntError;

    fn try_from(port: NumberOrText) -> Result<Self, ParseIntError> {
        match port {
            NumberOrText::Number(port) => Ok(Self(port)),
            NumberOrText::Text(port) => port.trim().parse().map(Self),
        }
    }
}

/// Secret text that `Debug` does not show.
#[derive(Deserialize)]
#[serde(from = "String")]
struct SecretText(SecretString);

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl DatabaseSecret {
    pub(crate) fn from_environment(sdk: &runtime::Sdk) -> Result<Self, DatabaseError> {
        let mut environment = Environment::of_process();
        let text = |text: String| (!text.is_empty()).then_some(text);
        let secret = Self {
            client: Client::new(sdk.standard()),
            arn: environment.required("DATABASE_SECRET_ARN"),
            host: text(environment.optional("DATABASE_HOST", String::new())),
            port: Some(environment.optional("DATABASE_PORT", 0)).filter(|port| *port != 0),
            dbname: text(environment.optional("DATABASE_NAME", String::new())),
            tls: environment.optional("DATABASE_TLS", TlsMode::default()),
            ca_arn: text(environment.optional("DATABASE_CA_SECRET_ARN", String::new())),
        };
        environment.check()?;
        Ok(secret)
    }

    /// Reads the connection settings from the secret. They are not cached, since the secret may be
    /// rotated.
    pub(crate) async fn read(&self) -> Result<DatabaseConfig, DatabaseError> {
        let content = self.value(&self.arn).await?;
        let ca = match (&self.ca_arn, self.tls) {
            (Some(arn), TlsMode::VerifyFull) => Some(Pem(self.value(arn).await?.expose_secret().to_owned())),
            _ => None,
        };
        self.config(&content, ca)
    }

    fn config(&self, content: &SecretString, ca: Option<Pem>) -> Result<DatabaseConfig, DatabaseError> {
        let malformed = DatabaseError::SecretMalformed;
        let content: Content = attempt::malformed::from_slice(content.expose_secret().as_bytes())
            .map_err(|error| malformed(SecretFault::Form(error)))?;
        Ok(DatabaseConfig {
            host: self.host.clone().or(content.host).ok_or_else(|| malformed(SecretFault::NoHost))?,
            port: self.port.or(content.port.map(|port| port.0)).unwrap_or(5432),
            dbname: self.dbname.clone().or(content.dbname).ok_or_else(|| malformed(SecretFault::NoName))?,
            user: content.username,
            password: content.password.0,
            tls: self.tls.with(ca),
        })
    }

    async fn value(&self, arn: &str) -> Result<SecretString, DatabaseError> {
        let output = self.client.get_secret_value().secret_id(arn).send().await;
        let output = output.map_err(|error| {
            let error: aws_sdk_secretsmanager::Error = error.into();
            DatabaseError::SecretUnavailable(error.into())
        })?;
        output
            .secret_string
            .map(SecretString::from)
            .ok_or(DatabaseError::SecretMalformed(SecretFault::Binary))
    }
}

#[cfg(test)]
mod tests {
    use attempt::{Retry, Retryable as _};

    use super::*;

    async fn secret(host: Option<&str>, tls: TlsMode) -> DatabaseSecret {
        let sdk = runtime::Sdk::at("http://127.0.0.1:9", "us-east-1", "id", "key").await;
        DatabaseSecret {
            client: Client::new(sdk.standard()),
            arn: "arn".to_owned(),
            host: host.map(str::to_owned),
            port: None,
            dbname: None,
            tls,
            ca_arn: None,
        }
    }

    const CONTENT: &str = r#"{"engine":"postgres","host":"a.example","port":6543,"dbname":"catalog","username":"u","password":"hidden"}"#;

    #[tokio::test]
    async fn the_environment_overrides_what_the_secret_says() {
        let content = SecretString::from(CONTENT);
        let config = secret(None, TlsMode::VerifyFull).await.config(&content, None).unwrap();
        assert_eq!((config.host.as_str(), config.port), ("a.example", 6543));
        assert_eq!((config.dbname.as_str(), config.user.as_str()), ("catalog", "u"));
        assert_eq!(config.password.expose_secret(), "hidden");
        assert_eq!(config.tls, crate::config::Tls::VerifyFull { ca: None });
        let config = secret(Some("b.example"), TlsMode::Off).await.config(&content, None).unwrap();
        assert_eq!((config.host.as_str(), config.tls), ("b.example", crate::config::Tls::Off));
    }

    #[tokio::test]
    async fn a_port_may_be_a_text() {
        let content = CONTENT.replace("6543", "\"6543\"");
        let config = secret(None, TlsMode::Off).await.config(&SecretString::from(content), None).unwrap();
        assert_eq!(config.port, 6543);
    }

    #[tokio::test]
    async fn the_wrong_member_of_a_secret_is_named() {
        for (right, wrong, said) in [
            ("6543", "\"hidden\"", "/port: the value is not allowed"),
            ("\"u\"", "7", "/username: the value has the wrong type"),
            ("\"password\"", "\"passwort\"", "/: the member `password` is missing"),
        ] {
            let content = SecretString::from(CONTENT.replace(right, wrong));
            let error = secret(None, TlsMode::Off).await.config(&content, None).unwrap_err();
            let DatabaseError::SecretMalformed(SecretFault::Form(form)) = &error else { panic!("{error:?}") };
            assert_eq!(form.to_string(), said);
        }
    }

    #[tokio::test]
    async fn what_is_wrong_with_a_secret_is_said_without_its_content() {
        for content in [
            r#"{"host":"a.example","dbname":"catalog","username":"u","password":7,"x":"hidden"}"#,
            r#"{"host":"a.example","dbname":"catalog","username":"hidden"}"#,
            r#"{"dbname":"hidden","username":"u","password":"hidden"}"#,
            "hidden",
        ] {
            let secret = secret(None, TlsMode::VerifyFull).await;
            let error = secret.config(&SecretString::from(content), None).unwrap_err();
            assert!(matches!(error, DatabaseError::SecretMalformed(_)), "{content}");
            assert_eq!(error.retry(), Retry::AfterRepair, "{content}");
            assert!(!format!("{error} {error:?}").contains("hidden"), "{content}");
        }
    }

    #[tokio::test]
    async fn a_secret_that_cannot_be_read_is_tried_again() {
        let secret = secret(None, TlsMode::VerifyFull).await;
        let error = secret.read().await.unwrap_err();
        assert!(matches!(error, DatabaseError::SecretUnavailable(_)), "{error:?}");
        assert_eq!(error.retry(), Retry::Later);
        assert!(std::error::Error::source(&error).is_some(), "the log says why");
    }
}
