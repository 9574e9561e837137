//! PEM files that a configuration names.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};

use crate::TlsConfig;
use crate::config::faults::Faults;

/// A file, with the name of the setting that gives its path.
pub(crate) type Named = (String, PathBuf);

pub(crate) struct TlsFiles {
    pub(crate) authorities: Option<Named>,
    pub(crate) certificate: Option<Named>,
    pub(crate) key: Option<Named>,
}

impl TlsFiles {
    /// Reads the files if TLS is on, and notes their faults. Their contents are never shown.
    pub(crate) fn read(self, is_on: bool, faults: &mut Faults) -> Option<TlsConfig> {
        if !is_on {
            for (place, _) in [self.authorities, self.certificate, self.key].into_iter().flatten() {
                faults.push(place, "is of no use without tls");
            }
            return None;
        }
        match (&self.certificate, &self.key) {
            (Some((place, _)), None) => faults.push(place, "needs key_file, the certificate's private key"),
            (None, Some((place, _))) => faults.push(place, "needs cert_file, the key's certificate"),
            (Some(_), Some(_)) | (None, None) => {}
        }
        let read = |named: &Option<Named>, faults: &mut Faults| {
            let (place, path) = named.as_ref()?;
            read_file(place, path, faults)
        };
        let trust_store = read(&self.authorities, faults);
        let certificate = read(&self.certificate, faults);
        let key = read(&self.key, faults);
        let mut config = TlsConfig { trust_store, key_store: None };
        let has_authorities =
            config.trust_store.is_some() && check(self.authorities.as_ref(), &config, faults);
        if let (Some(certificate), Some(key)) = (certificate, key) {
            let (certificate, key) = (certificate.expose_secret(), key.expose_secret());
            config.key_store = Some(SecretString::from(format!("{certificate}\n{key}")));
            // Authorities that cannot be used are a fault that was noted before.
            if has_authorities || self.authorities.is_none() {
                check(self.certificate.as_ref(), &config, faults);
            }
        }
        Some(config)
    }
}

fn read_file(place: &str, path: &Path, faults: &mut Faults) -> Option<SecretString> {
    match std::fs::read_to_string(path) {
        Ok(text) => Some(SecretString::from(text)),
        Err(error) => {
            faults.push(place, format!("names `{}`, which cannot be read: {error}", path.display()));
            None
        }
    }
}

/// True if the material can be used, or if `named` gave none of it; otherwise the fault is noted at
/// that setting.
fn check(named: Option<&Named>, config: &TlsConfig, faults: &mut Faults) -> bool {
    let (Some((place, _)), Err(why)) = (named, config.check()) else { return true };
    faults.push(place, format!("cannot be used: {why}"));
    false
}
