//! Reading what a target's references point to.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws::Sdk;
use aws_sdk_secretsmanager::error::DisplayErrorContext;
use mq::{Access, Credentials, Deadline, Endpoint, SecretRef, Tls};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

/// How long a secret is used before it is read again; a rotated one takes effect within this time.
const REMEMBERED: Duration = Duration::from_secs(300);

/// Secrets Manager and Parameter Store behind a cache.
#[derive(Debug)]
pub struct Secrets {
    secrets_manager: aws_sdk_secretsmanager::Client,
    parameter_store: aws_sdk_ssm::Client,
    remembered: Mutex<HashMap<SecretRef, (Instant, Secret)>>,
}

/// A value and the name of its version.
#[derive(Clone, Debug)]
struct Secret {
    value: SecretString,
    version: String,
}

/// A reference that leads nowhere, or to something that this function may not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret {0} cannot be read")]
pub struct Unreadable(SecretRef);

/// The JSON form that Secrets Manager gives to database credentials.
#[derive(Deserialize)]
struct UserAndPassword {
    username: Option<String>,
    password: String,
}

impl Secrets {
    pub fn new(sdk: &Sdk) -> Self {
        Self {
            secrets_manager: aws_sdk_secretsmanager::Client::new(sdk.standard()),
            parameter_store: aws_sdk_ssm::Client::new(sdk.standard()),
            remembered: Mutex::default(),
        }
    }

    /// Reads everything that `endpoint` refers to.
    pub(crate) async fn access(&self, endpoint: &Endpoint, deadline: Deadline) -> Result<Access, Unreadable> {
        let (key_store_ref, trust_store_ref) = match &endpoint.tls {
            Tls::Off => (None, None),
            Tls::On { key_store_ref, trust_store_ref, .. } => {
                (key_store_ref.as_ref(), trust_store_ref.as_ref())
            }
        };
        let password = self.optional(endpoint.password_ref.as_ref(), deadline).await?;
        let key_store = self.optional(key_store_ref, deadline).await?;
        let trust_store = self.optional(trust_store_ref, deadline).await?;
        let versions = [&password, &key_store, &trust_store];
        let secret_version =
            versions.map(|secret| secret.as_ref().map_or("", |secret| secret.version.as_str())).join(":");
        Ok(Access {
            endpoint: endpoint.clone(),
            credentials: password.and_then(|secret| credentials(endpoint.user.as_deref(), &secret.value)),
            trust_store: trust_store.map(|secret| secret.value),
            key_store: key_store.map(|secret| secret.value),
            secret_version,
        })
    }

    async fn optional(
        &self,
        reference: Option<&SecretRef>,
        deadline: Deadline,
    ) -> Result<Option<Secret>, Unreadable> {
        match reference {
            Some(reference) => self.secret(reference, deadline).await.map(Some),
            None => Ok(None),
        }
    }

    async fn secret(&self, reference: &SecretRef, deadline: Deadline) -> Result<Secret, Unreadable> {
        if let Some(secret) = self.recall(reference) {
            return Ok(secret);
        }
        let read = match reference {
            SecretRef::SecretsManager(name) => deadline.run(self.read_secret(name)).await,
            SecretRef::ParameterStore(name) => deadline.run(self.read_parameter(name)).await,
        };
        let secret = read.unwrap_or_else(|_| Err("the deadline passed".to_owned())).map_err(|error| {
            tracing::error!(event_type = "secret.unreadable", reference = %reference, error, "a secret cannot be read");
            Unreadable(reference.clone())
        })?;
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.retain(|_, (since, _)| since.elapsed() < REMEMBERED);
        remembered.insert(reference.clone(), (Instant::now(), secret.clone()));
        Ok(secret)
    }

    async fn read_secret(&self, name: &str) -> Result<Secret, String> {
        let output = self.secrets_manager.get_secret_value().secret_id(name).send().await;
        let output = output.map_err(|error| DisplayErrorContext(error).to_string())?;
        let value = output.secret_string.ok_or("the secret is binary")?;
        Ok(Secret { value: value.into(), version: output.version_id.unwrap_or_default() })
    }

    async fn read_parameter(&self, name: &str) -> Result<Secret, String> {
        let output = self.parameter_store.get_parameter().name(name).with_decryption(true).send().await;
        let output = output.map_err(|error| DisplayErrorContext(error).to_string())?;
        let parameter = output.parameter.ok_or("the parameter is empty")?;
        let value = parameter.value.ok_or("the parameter is empty")?;
        Ok(Secret { value: value.into(), version: parameter.version.to_string() })
    }

    fn recall(&self, reference: &SecretRef) -> Option<Secret> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered
            .get(reference)
            .filter(|(since, _)| since.elapsed() < REMEMBERED)
            .map(|(_, secret)| secret.clone())
    }
}

/// A secret is a password, or a JSON object with `password` and perhaps `username`; the target's own user wins.
fn credentials(user: Option<&str>, secret: &SecretString) -> Option<Credentials> {
    let pair: Option<UserAndPassword> = serde_json::from_str(secret.expose_secret()).ok();
    let (username, password) = match pair {
        Some(pair) => (pair.username, pair.password.into()),
        None => (None, secret.clone()),
    };
    let user = user.map(str::to_owned).or(username)?;
    Some(Credentials { user, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(user: Option<&str>, secret: &str) -> Option<(String, String)> {
        let found = credentials(user, &secret.to_owned().into())?;
        Some((found.user, found.password.expose_secret().to_owned()))
    }

    #[test]
    fn a_secret_is_a_password_or_a_pair() {
        assert_eq!(pair(Some("app"), "s3cret"), Some(("app".to_owned(), "s3cret".to_owned())));
        let json = r#"{"username":"rotated","password":"s3cret"}"#;
        assert_eq!(pair(None, json), Some(("rotated".to_owned(), "s3cret".to_owned())));
        assert_eq!(pair(Some("app"), json), Some(("app".to_owned(), "s3cret".to_owned())));
        assert_eq!(pair(None, "s3cret"), None);
    }
}
