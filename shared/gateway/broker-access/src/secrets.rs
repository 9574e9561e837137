//! Reads the secrets to which a target refers, from Secrets Manager, Parameter Store and S3.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use attempt::Remembered;
use broker::Deadline;
use mq::{
    Access, Credentials, Endpoint, ObjectRef, PasswordOrigin, ProfileName, SecretRef, StoreRef, Target, Tls,
};
use runtime::{Actions, Sdk};
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::key_objects::{self, KeyObjectError, KeyObjects};
use crate::parameters;
use crate::stores::{Files, Stores};

/// Time for which a cached secret is used before it is read again. A secret that the broker refuses
/// is read again at once.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(300);
/// Maximum number of cached secrets, more than an execution environment may have connections.
/// Beyond it, a secret is read each time.
const MAX_REMEMBERED: usize = 100;
/// Maximum number of bytes of memory that cached secrets and key repositories take. Secrets Manager
/// allows 65,536 bytes for a secret.
pub(crate) const MEMORY: usize = MAX_REMEMBERED * 65_536 + key_objects::MEMORY;

/// Reader of the secrets of targets in Secrets Manager, Parameter Store and S3, with a cache.
#[derive(Debug)]
pub(crate) struct Secrets {
    secrets_manager: aws_sdk_secretsmanager::Client,
    /// Client for single AWS calls without a service's SDK. It calls `GetParameter` of Parameter
    /// Store.
    actions: Actions,
    key_objects: KeyObjects,
    remembered: Remembered<SecretRef, Secret>,
}

/// Value of a secret, with the id of its version.
#[derive(Clone, Debug)]
pub(crate) struct Secret {
    pub(crate) value: Value,
    pub(crate) version: String,
}

/// Value of a secret as it is stored: text or bytes.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(SecretString),
    Bytes(Arc<SecretSlice<u8>>),
}

/// Secret whose value is text, with the id of its version.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) value: SecretString,
    pub(crate) version: String,
}

/// Reason why a target's secrets cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The secret does not exist, or this function may not read it.
    #[error("the secret `{0}` cannot be read")]
    Unreadable(SecretRef),
    /// The secret is binary, but a password or PEM must be text.
    #[error("`{0}` is binary, and has to be text here")]
    Binary(StoreRef),
    /// The secret is a JSON object without the members of a login. It is not sent to a broker as a
    /// password.
    #[error("the secret `{0}` is a JSON object, and not one with the texts `password` and `username`")]
    NoLogin(SecretRef),
    /// The secret of a stash file is text, but a stash file is binary.
    #[error("`{0}` is text, and a stash file is binary")]
    NoFile(StoreRef),
    /// The key repository in S3 cannot be used.
    #[error("the object `{object}` {why}")]
    Object {
        /// S3 object that the target names.
        object: ObjectRef,
        /// Reason why the object cannot be used, worded as the end of a sentence about it.
        why: KeyObjectError,
    },
    /// The request names a password, but no user. The gateway sets no other user in its place,
    /// since that would send the password to the broker under another name, or log in as a user
    /// that the request did not name.
    #[error("neither the target nor the secret `{secret}` names a user")]
    NoUser {
        /// Reference to the secret that contains the password.
        secret: SecretRef,
        /// JSON Pointer to the target in the request's body.
        target: String,
    },
    /// The profile of this name has a password, but neither the profile nor the secret of the
    /// password names a user.
    #[error("neither the profile `{}` nor its secret names a user", .0.as_str())]
    NoUserInProfile(ProfileName),
    /// A secret for TLS (store, stash file or password of a key repository) cannot be used.
    #[error(transparent)]
    OfTls(Box<Self>),
}

impl SecretError {
    /// Returns the code with which a connection test reports this error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable(_) | Self::Binary(_) | Self::NoLogin(_) | Self::NoFile(_) => "SECRET_UNREADABLE",
            Self::Object { .. } => "OBJECT_UNREADABLE",
            Self::NoUser { .. } | Self::NoUserInProfile(_) => "USER_REQUIRED",
            Self::OfTls(unusable) => unusable.code(),
        }
    }

    /// Returns the name of the connection test's step that fails with this error.
    #[must_use]
    pub const fn step(&self) -> &'static str {
        if matches!(self, Self::OfTls(_)) { "tls" } else { "authenticate" }
    }
}

/// JSON form of a secret that contains a user and a password, as AWS stores database credentials in
/// Secrets Manager.
#[derive(Deserialize)]
struct UserAndPassword {
    username: Option<String>,
    password: String,
}

impl Secrets {
    pub(crate) fn new(sdk: &Sdk) -> Self {
        Self {
            secrets_manager: aws_sdk_secretsmanager::Client::new(sdk.standard()),
            actions: Actions::new(sdk.standard()),
            key_objects: KeyObjects::new(aws_sdk_s3::Client::new(&sdk.objects())),
            remembered: Remembered::new(REMEMBERED, MAX_REMEMBERED),
        }
    }

    /// Reads all secrets that `target` refers to, and returns what a broker's client needs to
    /// connect.
    pub(crate) async fn access(&self, target: &Target, deadline: Deadline) -> Result<Access, SecretError> {
        let endpoint = &target.endpoint;
        let password = self.text(endpoint.password_ref.as_ref(), deadline).await?;
        let credentials = login(endpoint, &target.password_origin, password.as_ref());
        // A secret that was corrected meanwhile takes effect with the next request.
        if let (Err(_), Some(reference)) = (&credentials, &endpoint.password_ref) {
            self.remembered.forget(reference);
        }
        let credentials = credentials?;
        let Stores { trust_store, key_store, key_files, version } = self.stores(endpoint, deadline).await?;
        let password_version = password.map(|password| password.version).unwrap_or_default();
        Ok(Access {
            endpoint: endpoint.clone(),
            credentials,
            trust_store,
            key_store,
            key_files,
            idle: target.idle_connections,
            limits: target.limits,
            secret_version: format!("{password_version}:{version}"),
        })
    }

    /// Reads again all secrets that `target` refers to, after the broker refused a login with
    /// `refused`. `None` if the secrets are unchanged or cannot be read.
    pub(crate) async fn renewed(
        &self,
        target: &Target,
        refused: &Access,
        deadline: Deadline,
    ) -> Option<Access> {
        for reference in secrets_of(&target.endpoint) {
            self.remembered.forget(reference);
        }
        for reference in Files::of(&target.endpoint.tls).all() {
            self.forget(reference);
        }
        let access = self.access(target, deadline).await.ok()?;
        (access.secret_version != refused.secret_version).then_some(access)
    }

    pub(crate) async fn optional(
        &self,
        reference: Option<&StoreRef>,
        deadline: Deadline,
    ) -> Result<Option<Secret>, SecretError> {
        match reference {
            Some(StoreRef::Secret(reference)) => self.secret(reference, deadline).await.map(Some),
            Some(StoreRef::Object(object)) => self.key_objects.read(object, deadline).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads a secret whose value has to be text; `None` without a reference.
    pub(crate) async fn text(
        &self,
        reference: Option<&SecretRef>,
        deadline: Deadline,
    ) -> Result<Option<Text>, SecretError> {
        let Some(reference) = reference else { return Ok(None) };
        let Secret { value, version } = self.secret(reference, deadline).await?;
        match value {
            Value::Text(value) => Ok(Some(Text { value, version })),
            Value::Bytes(_) => Err(SecretError::Binary(reference.clone().into())),
        }
    }

    pub(crate) fn has(&self, reference: &StoreRef) -> bool {
        match reference {
            StoreRef::Secret(reference) => self.remembered.get(reference).is_some(),
            StoreRef::Object(object) => self.key_objects.has(object),
        }
    }

    pub(crate) fn forget(&self, reference: &StoreRef) {
        match reference {
            StoreRef::Secret(reference) => self.remembered.forget(reference),
            StoreRef::Object(object) => self.key_objects.forget(object),
        }
    }

    async fn secret(&self, reference: &SecretRef, deadline: Deadline) -> Result<Secret, SecretError> {
        if let Some(secret) = self.remembered.get(reference) {
            return Ok(secret);
        }
        // Boxed: an order whose secrets are remembered needs no room for the calls.
        let read = match reference {
            SecretRef::SecretsManager(name) => deadline.run(Box::pin(self.read_secret(name))).await,
            SecretRef::ParameterStore(name) => {
                deadline.run(Box::pin(parameters::read(&self.actions, name))).await
            }
        };
        let secret = read.unwrap_or_else(|_| Err("the deadline passed".into())).map_err(|error| {
            let error: &(dyn Error + 'static) = &*error;
            tracing::error!(
                event_type = "secret.unreadable",
                reference = %reference,
                error,
                "cannot read secret `{reference}`: {error}"
            );
            SecretError::Unreadable(reference.clone())
        })?;
        self.remembered.put(reference.clone(), secret.clone());
        Ok(secret)
    }

    async fn read_secret(&self, name: &str) -> Result<Secret, Box<dyn Error + Send + Sync>> {
        let output = self.secrets_manager.get_secret_value().secret_id(name).send().await?;
        let value = match (output.secret_string, output.secret_binary) {
            (Some(text), _) => Value::Text(text.into()),
            (None, Some(bytes)) => Value::Bytes(Arc::new(bytes.into_inner().into())),
            (None, None) => return Err("the secret is empty".into()),
        };
        Ok(Secret { value, version: output.version_id.unwrap_or_default() })
    }
}

/// Lists the references of an endpoint to secrets that have to be text.
fn secrets_of(endpoint: &Endpoint) -> impl Iterator<Item = &SecretRef> {
    let store_password = match &endpoint.tls {
        Tls::Off => None,
        Tls::On { opening, .. } => opening.password_ref.as_ref(),
    };
    endpoint.password_ref.iter().chain(store_password)
}

/// Returns the user and password for an endpoint; `None` if the endpoint names no password. Fails
/// if the secret is no login, or no user is named.
fn login(
    endpoint: &Endpoint,
    origin: &PasswordOrigin,
    password: Option<&Text>,
) -> Result<Option<Credentials>, SecretError> {
    let (Some(secret), Some(reference)) = (password, &endpoint.password_ref) else { return Ok(None) };
    let found = credentials(endpoint.user.as_deref(), &secret.value);
    let found = found.map_err(|_| SecretError::NoLogin(reference.clone()))?;
    found.map(Some).ok_or_else(|| match origin {
        PasswordOrigin::Request { target } => {
            SecretError::NoUser { secret: reference.clone(), target: target.clone() }
        }
        PasswordOrigin::Profile(name) => SecretError::NoUserInProfile(name.clone()),
    })
}

/// Reads user and password from a secret: a JSON object with `password` and optionally `username`,
/// or any other text, which is the password. The target's own `user` takes precedence. `None` if
/// there is no user. Fails for a JSON object of another form; the error may quote the secret.
fn credentials(user: Option<&str>, secret: &SecretString) -> serde_json::Result<Option<Credentials>> {
    // Some editors write an invisible byte order mark before JSON.
    let text = secret.expose_secret();
    let json = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_object = json.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(json).is_ok();
    let (username, password) = if is_object {
        let pair: UserAndPassword = serde_json::from_str(json)?;
        (pair.username, pair.password.into())
    } else {
        (None, secret.clone())
    };
    let Some(user) = user.map(str::to_owned).or(username) else { return Ok(None) };
    Ok(Some(Credentials { user, password }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(user: Option<&str>, secret: &str) -> Option<(String, String)> {
        let found = credentials(user, &secret.to_owned().into()).unwrap()?;
        Some((found.user, found.password.expose_secret().to_owned()))
    }

    #[test]
    fn a_password_without_a_user_is_refused() {
        let reference = SecretRef::SecretsManager("local/rabbit".to_owned());
        let login_of = |origin: &PasswordOrigin, user: Option<&str>, secret: &str| {
            let endpoint = Endpoint {
                broker: mq::BrokerKind::RabbitMq,
                queue_manager: "/".to_owned(),
                user: user.map(str::to_owned),
                password_ref: Some(reference.clone()),
                ..Endpoint::default()
            };
            let secret = Text { value: secret.to_owned().into(), version: String::new() };
            login(&endpoint, origin, Some(&secret)).map(|login| login.map(|login| login.user))
        };
        let login = |user: Option<&str>, secret: &str| login_of(&PasswordOrigin::default(), user, secret);
        let refused = SecretError::NoUser { secret: reference.clone(), target: "/target".to_owned() };
        assert_eq!(login(None, "s3cret"), Err(refused.clone()));
        assert_eq!(login(None, r#"{"password":"s3cret"}"#), Err(refused));
        assert_eq!(login(Some("app"), "s3cret"), Ok(Some("app".to_owned())));
        assert_eq!(login(None, r#"{"username":"app","password":"s3cret"}"#), Ok(Some("app".to_owned())));
        let bare = PasswordOrigin::Request { target: String::new() };
        let refused = SecretError::NoUser { secret: reference.clone(), target: String::new() };
        assert_eq!(login_of(&bare, None, "s3cret"), Err(refused));
        let profile = PasswordOrigin::Profile("orders".to_owned().try_into().unwrap());
        let refused = login_of(&profile, None, "s3cret").unwrap_err();
        assert_eq!(refused.to_string(), "neither the profile `orders` nor its secret names a user");
    }

    #[test]
    fn a_secret_is_a_password_or_a_pair() {
        assert_eq!(pair(Some("app"), "s3cret"), Some(("app".to_owned(), "s3cret".to_owned())));
        let json = r#"{"username":"rotated","password":"s3cret"}"#;
        assert_eq!(pair(None, json), Some(("rotated".to_owned(), "s3cret".to_owned())));
        assert_eq!(pair(Some("app"), json), Some(("app".to_owned(), "s3cret".to_owned())));
        assert_eq!(pair(None, "s3cret"), None);
        let marked = format!("\u{feff}{json}");
        assert_eq!(pair(None, &marked), Some(("rotated".to_owned(), "s3cret".to_owned())));
        let more = r#" {"username":null,"password":"s3cret","engine":"mq","port":5671}"#;
        assert_eq!(pair(Some("app"), more), Some(("app".to_owned(), "s3cret".to_owned())));
        // Passwords that look like JSON, or nearly.
        for password in
            ["12345", "null", "\"s3cret\"", r#"["a","b"]"#, "{", "{s3cret}", "\u{feff}s3cret", "{}x"]
        {
            assert_eq!(pair(Some("app"), password), Some(("app".to_owned(), password.to_owned())));
        }
    }

    #[test]
    fn a_json_object_of_another_form_is_no_password() {
        for object in [
            r#"{"username":"u2","password":12345}"#,
            r#"{"Username":"u2","Password":"s3cret"}"#,
            r#"{"username":"u2"}"#,
            r#"{"username":2,"password":"s3cret"}"#,
            r#"{"password":"a","password":"b"}"#,
            r#"{"username":"a","username":"b","password":"c"}"#,
            r#"{"password":["s3cret"]}"#,
            " {}\n",
            "\u{feff}{}",
        ] {
            for user in [None, Some("app")] {
                assert!(credentials(user, &object.to_owned().into()).is_err(), "{object}");
            }
        }
        let reference = SecretRef::SecretsManager("local/rabbit".to_owned());
        let refused = SecretError::NoLogin(reference).to_string();
        assert!(refused.starts_with("the secret `secret://local/rabbit` is a JSON object"), "{refused}");
    }
}
