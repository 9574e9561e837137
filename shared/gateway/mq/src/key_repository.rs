//! IBM MQ's key repository in a profile: its file, and the stash file or password that opens it.
//!
//! A key store or a trust store may be a secret of text, which also contains the stash file or the
//! password. If it is the file itself, in a binary secret or an object of S3, the profile also has
//! to name a stash file or a password. Only profiles name such files: an allow-list can grant a
//! request secrets, but no objects.

use serde::{Deserialize, Serialize};

use crate::secret_ref::SecretRef;
use crate::store_ref::StoreRef;
use crate::target::{BrokerKind, SslSpec, TargetError, TargetSpec};

/// Stash file or password, and certificate label, with which IBM MQ opens a key repository that the
/// profile names as a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRepositoryAccess {
    /// Reference to the stash file with the key store's password; `None` unless the profile names
    /// one.
    pub stash_ref: Option<StoreRef>,
    /// Reference to the key store's password, in place of a stash file; `None` unless the profile
    /// names one.
    pub password_ref: Option<SecretRef>,
    /// Label of the client's certificate in the key store; `None` if the profile names no
    /// certificate.
    pub certificate_label: Option<String>,
}

impl KeyRepositoryAccess {
    /// True if no stash file, no password and no label is set.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.stash_ref.is_none() && self.password_ref.is_none() && self.certificate_label.is_none()
    }
}

/// Returns an error if the request's `ssl` has a member that only a profile may set.
pub(crate) fn check_request(ssl: Option<&SslSpec>) -> Result<(), TargetError> {
    let Some(ssl) = ssl else { return Ok(()) };
    let is_object = |store: &Option<StoreRef>| store.as_ref().is_some_and(StoreRef::is_object);
    let objects = [
        ("/target/ssl/keyStoreRef", is_object(&ssl.key_store_ref)),
        ("/target/ssl/trustStoreRef", is_object(&ssl.trust_store_ref)),
    ];
    if let Some((pointer, _)) = objects.into_iter().find(|(_, is_object)| *is_object) {
        return Err(TargetError::invalid(pointer, "may be an object of S3 in profiles only"));
    }
    match opening_members(ssl).into_iter().find(|(_, is_there)| *is_there) {
        Some((pointer, _)) => Err(TargetError::invalid(pointer, "is allowed in profiles only")),
        None => Ok(()),
    }
}

/// Merges the request's `ssl` over the profile's. If the request names a store of its own, the
/// profile's stash file, password and label are dropped, since they belong to another store.
pub(crate) fn merge(base: SslSpec, over: SslSpec) -> SslSpec {
    let names_store = over.key_store_ref.is_some() || over.trust_store_ref.is_some();
    let opening = if names_store { SslSpec::default() } else { base.clone() };
    SslSpec {
        enabled: over.enabled.or(base.enabled),
        key_store_ref: over.key_store_ref.or(base.key_store_ref),
        trust_store_ref: over.trust_store_ref.or(base.trust_store_ref),
        cipher_spec: over.cipher_spec.or(base.cipher_spec),
        stash_ref: opening.stash_ref,
        store_password_ref: opening.store_password_ref,
        certificate_label: opening.certificate_label,
    }
}

/// Checks that the members of a profile's `ssl` that name or open a key repository are consistent
/// and suit the broker.
pub(crate) fn check_profile(base: &TargetSpec) -> Result<(), TargetError> {
    let Some(ssl) = &base.ssl else { return Ok(()) };
    let fault = |pointer: &str, detail: &str| {
        Err(TargetError::Profile(format!("names a key repository wrongly: {pointer} {detail}")))
    };
    let stores = [
        ("/target/ssl/keyStoreRef", ssl.key_store_ref.as_ref()),
        ("/target/ssl/trustStoreRef", ssl.trust_store_ref.as_ref()),
    ];
    let has_store = stores.iter().any(|(_, store)| store.is_some());
    let object = stores.into_iter().find(|(_, store)| store.is_some_and(StoreRef::is_object));
    let opening = opening_members(ssl).into_iter().find(|(_, is_there)| *is_there);
    let is_ibm_mq = base.broker.unwrap_or_default() == BrokerKind::IbmMq;
    if is_ibm_mq && stores.iter().all(|(_, store)| store.is_some()) {
        return fault("/target/ssl/trustStoreRef", "is beside keyStoreRef, and ibmmq has one key repository");
    }
    if is_ibm_mq && ssl.stash_ref.is_some() && ssl.store_password_ref.is_some() {
        return fault("/target/ssl/storePasswordRef", "is beside stashRef, and one of them opens the file");
    }
    match (base.broker.unwrap_or_default(), object, opening) {
        (BrokerKind::RabbitMq, Some((pointer, _)), _) => {
            fault(pointer, "must be a secret for rabbitmq, with PEM in it")
        }
        (BrokerKind::RabbitMq, None, Some((pointer, _))) => fault(pointer, "is for ibmmq only"),
        (BrokerKind::IbmMq, _, Some((pointer, _))) if !has_store => {
            fault(pointer, "goes with keyStoreRef or trustStoreRef only")
        }
        (BrokerKind::IbmMq, Some((pointer, _)), _)
            if ssl.stash_ref.is_none() && ssl.store_password_ref.is_none() =>
        {
            fault(pointer, "is an object of S3, which needs stashRef or storePasswordRef beside it")
        }
        _ => Ok(()),
    }
}

/// Lists the `ssl` members that open a key store, as JSON Pointers, each with true if it is set.
fn opening_members(ssl: &SslSpec) -> [(&'static str, bool); 3] {
    [
        ("/target/ssl/stashRef", ssl.stash_ref.is_some()),
        ("/target/ssl/storePasswordRef", ssl.store_password_ref.is_some()),
        ("/target/ssl/certificateLabel", ssl.certificate_label.is_some()),
    ]
}
