//! Login of a Kafka cluster, read from Secrets Manager.

use aws_sdk_secretsmanager::Client;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use crate::kafka::{ConnectError, SecretFault};

/// Secret with a user and its password, in the form that MSK and Lambda's event source mapping
/// read.
#[derive(Deserialize)]
pub(crate) struct Login {
    pub(crate) username: String,
    pub(crate) password: SecretText,
    /// PEM of the certificate authorities to trust; `None` for those of the system.
    pub(crate) ca: Option<String>,
}

/// Secret with a client certificate and its key in PEM, in the form that Lambda's event source
/// mapping reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) private_key: SecretText,
    pub(crate) private_key_password: Option<SecretText>,
    pub(crate) ca: Option<String>,
}

/// Text in a secret, which `Debug` does not print.
#[derive(Deserialize)]
#[serde(from = "String")]
pub(crate) struct SecretText(SecretString);

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl SecretText {
    pub(crate) fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

/// Reads and parses a secret from Secrets Manager. It is not cached, because it may have changed.
pub(crate) async fn read<T: for<'de> Deserialize<'de>>(
    client: &Client,
    arn: &str,
) -> Result<T, ConnectError> {
    let output = client.get_secret_value().secret_id(arn).send().await;
    let output = output.map_err(|error| {
        let error: aws_sdk_secretsmanager::Error = error.into();
        ConnectError::SecretUnavailable(error.into())
    })?;
    let content = output
        .secret_string
        .map(SecretString::from)
        .ok_or(ConnectError::SecretMalformed(SecretFault::Binary))?;
    parse(&content)
}

fn parse<T: for<'de> Deserialize<'de>>(content: &SecretString) -> Result<T, ConnectError> {
    attempt::malformed::from_slice(content.expose_secret().as_bytes())
        .map_err(|error| ConnectError::SecretMalformed(SecretFault::Form(error)))
}

#[cfg(test)]
mod tests {
    use attempt::{Retry, Retryable as _};

    use super::*;

    #[test]
    fn the_secrets_of_lambda_s_mapping_are_read() {
        let login: Login = parse(&r#"{"username":"u","password":"p"}"#.to_owned().into()).unwrap();
        assert_eq!((login.username.as_str(), login.password.expose(), login.ca), ("u", "p", None));
        let identity = r#"{"certificate":"c","privateKey":"k","ca":"a"}"#;
        let identity: Identity = parse(&identity.to_owned().into()).unwrap();
        assert_eq!((identity.certificate.as_str(), identity.private_key.expose()), ("c", "k"));
        assert_eq!(identity.ca.as_deref(), Some("a"));
    }

    #[test]
    fn what_is_wrong_with_a_secret_is_said_without_its_content() {
        for content in [r#"{"username":"hidden"}"#, r#"{"username":"hidden","password":7}"#, "hidden"] {
            let Err(error) = parse::<Login>(&content.to_owned().into()) else { panic!("{content}") };
            assert!(matches!(error, ConnectError::SecretMalformed(_)), "{content}");
            assert_eq!(error.retry(), Retry::AfterRepair, "{content}");
            assert!(!format!("{error} {error:?}").contains("hidden"), "{content}");
        }
    }
}
