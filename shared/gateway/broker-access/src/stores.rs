//! Reads the trust store and the key store that a target's TLS settings name: texts, or the files
//! of an IBM MQ key repository.

use std::sync::Arc;

use mq::{BrokerKind, Endpoint, KeyFiles, StoreRef, Tls};

use broker::Deadline;
use secrecy::{SecretSlice, SecretString};

use crate::secrets::{Secret, SecretError, Secrets, Value};

/// Contents of the stores and key files that a target's TLS settings refer to.
#[derive(Default)]
pub(crate) struct Stores {
    pub(crate) trust_store: Option<SecretString>,
    pub(crate) key_store: Option<SecretString>,
    pub(crate) key_files: Option<KeyFiles>,
    /// Version ids of the stores, the stash file and the key repository's password, joined to one
    /// text.
    pub(crate) version: String,
}

/// References to the key store, trust store and stash file in an endpoint's TLS settings; `None`
/// for each that the settings do not name.
#[derive(Clone, Copy, Default)]
pub(crate) struct Files<'a> {
    key_store: Option<&'a StoreRef>,
    trust_store: Option<&'a StoreRef>,
    stash: Option<&'a StoreRef>,
}

impl<'a> Files<'a> {
    pub(crate) fn of(tls: &'a Tls) -> Self {
        match tls {
            Tls::Off => Self::default(),
            Tls::On { key_store_ref, trust_store_ref, opening, .. } => Self {
                key_store: key_store_ref.as_ref(),
                trust_store: trust_store_ref.as_ref(),
                stash: opening.stash_ref.as_ref(),
            },
        }
    }

    pub(crate) fn all(self) -> impl Iterator<Item = &'a StoreRef> {
        [self.key_store, self.trust_store, self.stash].into_iter().flatten()
    }
}

impl Secrets {
    pub(crate) async fn stores(
        &self,
        endpoint: &Endpoint,
        deadline: Deadline,
    ) -> Result<Stores, SecretError> {
        self.read_stores(endpoint, deadline).await.map_err(|unusable| SecretError::OfTls(Box::new(unusable)))
    }

    async fn read_stores(&self, endpoint: &Endpoint, deadline: Deadline) -> Result<Stores, SecretError> {
        let Tls::On { opening, .. } = &endpoint.tls else { return Ok(Stores::default()) };
        let files = Files::of(&endpoint.tls);
        // A file and its stash file are replaced together, so they are read together.
        if files.stash.is_some() && !files.all().all(|file| self.has(file)) {
            files.all().for_each(|file| self.forget(file));
        }
        let key_store = self.optional(files.key_store, deadline).await?;
        let trust_store = self.optional(files.trust_store, deadline).await?;
        let stash = self.optional(files.stash, deadline).await?;
        let password = self.text(opening.password_ref.as_ref(), deadline).await?;
        let versions = [&key_store, &trust_store, &stash]
            .map(|secret| secret.as_ref().map_or("", |secret| secret.version.as_str()));
        let password_version = password.as_ref().map_or("", |password| password.version.as_str());
        let version = [versions.join(":").as_str(), password_version].join(":");

        let stash = stash.zip(files.stash).map(|(stash, reference)| match stash.value {
            Value::Bytes(stash) => Ok(stash),
            Value::Text(_) => Err(SecretError::NoFile(reference.clone())),
        });
        let (key_store, key_file) = key_store.map(text_or_file).unwrap_or_default();
        let (trust_store, trust_file) = trust_store.map(text_or_file).unwrap_or_default();
        let file = key_file.zip(files.key_store).or(trust_file.zip(files.trust_store));
        let key_files = match (file, endpoint.broker) {
            (None, _) => None,
            (Some((_, reference)), BrokerKind::RabbitMq) => {
                return Err(SecretError::Binary(reference.clone()));
            }
            (Some((store, _)), BrokerKind::IbmMq) => Some(KeyFiles {
                store,
                stash: stash.transpose()?,
                password: password.map(|password| password.value),
                certificate_label: opening.certificate_label.clone(),
            }),
        };
        Ok(Stores { trust_store, key_store, key_files, version })
    }
}

fn text_or_file(secret: Secret) -> (Option<SecretString>, Option<Arc<SecretSlice<u8>>>) {
    match secret.value {
        Value::Text(text) => (Some(text), None),
        Value::Bytes(bytes) => (None, Some(bytes)),
    }
}
