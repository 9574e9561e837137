use std::fmt;

use serde::{Deserialize, Serialize};

/// Location of a secret: `secret://name` in Secrets Manager, `ssm://name` in Parameter Store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SecretRef {
    /// Name of a secret in Secrets Manager.
    SecretsManager(String),
    /// Name of a parameter in Parameter Store.
    ParameterStore(String),
}

impl SecretRef {
    /// Maximum length of a secret's name in bytes (Secrets Manager, `CreateSecret`).
    pub const MAX_NAME: usize = 512;
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SecretsManager(name) => write!(f, "secret://{name}"),
            Self::ParameterStore(name) => write!(f, "ssm://{name}"),
        }
    }
}

impl TryFrom<String> for SecretRef {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (scheme, name) = text.split_once("://").unwrap_or(("", ""));
        let allowed = |c: char| c.is_ascii_alphanumeric() || "/_+=.@-".contains(c);
        if name.is_empty() || name.len() > Self::MAX_NAME || !name.chars().all(allowed) {
            return Err("must be secret://name or ssm://name".to_owned());
        }
        match scheme {
            "secret" => Ok(Self::SecretsManager(name.to_owned())),
            "ssm" => Ok(Self::ParameterStore(name.to_owned())),
            _ => Err("must be secret://name or ssm://name".to_owned()),
        }
    }
}

impl From<SecretRef> for String {
    fn from(reference: SecretRef) -> Self {
        reference.to_string()
    }
}
