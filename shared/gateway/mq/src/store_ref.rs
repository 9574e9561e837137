use std::fmt;

use serde::{Deserialize, Serialize};

use crate::secret_ref::SecretRef;

/// Location of a key store or a trust store: a secret, or an object in S3.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum StoreRef {
    /// A secret, as `secret://name` or `ssm://name`.
    Secret(SecretRef),
    /// An object of S3, as `s3://bucket/key`; in profiles only.
    Object(ObjectRef),
}

/// Reference `s3://bucket/key`, with `?versionId=…` for one version of the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    bucket: String,
    key: String,
    version: Option<String>,
}

const FORM: &str = "must be secret://name, ssm://name, or s3://bucket/key and perhaps ?versionId=…";

impl ObjectRef {
    /// Maximum length in bytes of an object key and of a version id (Amazon S3, "Naming objects"
    /// and "Using versioning").
    const MAX: usize = 1024;

    /// Returns the name of the S3 bucket.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Returns the key of the S3 object.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the version id to read; `None` for the latest version.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Parses the text after `s3://` of a reference; `None` if it is malformed.
    fn parse(text: &str) -> Option<Self> {
        let (bucket, rest) = text.split_once('/')?;
        let (key, version) = match rest.split_once("?versionId=") {
            Some((key, version)) => (key, Some(version)),
            None => (rest, None),
        };
        let of_bucket = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        let of_key = |c: char| c.is_ascii_alphanumeric() || "/_+=.@-".contains(c);
        let of_version = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let fits = |text: &str| (1..=Self::MAX).contains(&text.len());
        let is_right = (3..=63).contains(&bucket.len())
            && bucket.chars().all(of_bucket)
            && fits(key)
            && key.chars().all(of_key)
            && version.is_none_or(|version| fits(version) && version.chars().all(of_version));
        is_right.then(|| Self {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            version: version.map(str::to_owned),
        })
    }
}

impl StoreRef {
    /// Returns the secret; `None` if the location is an object in S3.
    #[must_use]
    pub const fn secret(&self) -> Option<&SecretRef> {
        match self {
            Self::Secret(secret) => Some(secret),
            Self::Object(_) => None,
        }
    }

    /// True if the location is an object in S3.
    #[must_use]
    pub const fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)?;
        match &self.version {
            Some(version) => write!(f, "?versionId={version}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for StoreRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(secret) => secret.fmt(f),
            Self::Object(object) => object.fmt(f),
        }
    }
}

impl TryFrom<String> for StoreRef {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.strip_prefix("s3://") {
            Some(rest) => ObjectRef::parse(rest).map(Self::Object).ok_or_else(|| FORM.to_owned()),
            None => SecretRef::try_from(text).map(Self::Secret).map_err(|_| FORM.to_owned()),
        }
    }
}

impl From<StoreRef> for String {
    fn from(reference: StoreRef) -> Self {
        reference.to_string()
    }
}

impl From<SecretRef> for StoreRef {
    fn from(secret: SecretRef) -> Self {
        Self::Secret(secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<StoreRef, String> {
        StoreRef::try_from(text.to_owned())
    }

    #[test]
    fn a_store_is_a_secret_or_an_object_and_shows_as_it_was_written() {
        for text in [
            "secret://mq/keys",
            "ssm://mq/keys",
            "s3://acme-keys/mq/qm1/key.kdb",
            "s3://acme-keys/key.p12?versionId=3sL4kqtJlcpXroDTDmJ",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        let StoreRef::Object(object) = parse("s3://acme-keys/mq/key.p12?versionId=a.b_c-1").unwrap() else {
            panic!("an object")
        };
        assert_eq!(
            (object.bucket(), object.key(), object.version()),
            ("acme-keys", "mq/key.p12", Some("a.b_c-1"))
        );
    }

    #[test]
    fn other_texts_are_refused_with_the_form() {
        let long = format!("s3://acme-keys/{}", "k".repeat(1025));
        for text in [
            "s3://acme-keys",
            "s3://acme-keys/",
            "s3:///key",
            "s3://Acme/key",
            "s3://ab/key",
            "s3://acme-keys/a b",
            "s3://acme-keys/key?version=1",
            "s3://acme-keys/key?versionId=",
            "s3://acme-keys/key?versionId=a&b",
            &long,
            "file:///key.kdb",
            "secret://",
            "key.kdb",
        ] {
            assert_eq!(parse(text), Err(FORM.to_owned()), "{text}");
        }
    }
}
