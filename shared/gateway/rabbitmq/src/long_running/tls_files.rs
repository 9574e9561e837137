//! PEM files that a configuration names.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};

use crate::TlsConfig;
use crate::config::faults::Faults;

/// Path of a file, with the name of the setting that gives it.
pub(crate) type Named = (String, PathBuf);

/// Reads the files with the authorities, the client certificate and its key. Records their faults,
/// which do not quote the files. `None` if TLS is off; each file is then a fault.
pub(crate) fn read(files: [Option<Named>; 3], is_on: bool, faults: &mut Faults) -> Option<TlsConfig> {
    if !is_on {
        for (place, _) in files.into_iter().flatten() {
            faults.push(place, "is of no use without tls");
        }
        return None;
    }
    match &files {
        [_, Some((place, _)), None] => faults.push(place, "needs key_file, the certificate's private key"),
        [_, None, Some((place, _))] => faults.push(place, "needs cert_file, the key's certificate"),
        [_, Some(_), Some(_)] | [_, None, None] => {}
    }
    let [trust_store, certificate, key] = files.each_ref().map(|named| {
        let (place, path) = named.as_ref()?;
        read_file(place, path, faults)
    });
    let [authorities, of_certificate, _] = &files;
    let mut config = TlsConfig { trust_store, key_store: None };
    let has_authorities = config.trust_store.is_some() && check(authorities.as_ref(), &config, faults);
    if let (Some(certificate), Some(key)) = (certificate, key) {
        let (certificate, key) = (certificate.expose_secret(), key.expose_secret());
        config.key_store = Some(SecretString::from(format!("{certificate}\n{key}")));
        // Authorities that cannot be used are a fault that was noted before.
        if has_authorities || authorities.is_none() {
            check(of_certificate.as_ref(), &config, faults);
        }
    }
    Some(config)
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

/// True if the certificates of `config` can be used, or no file is `named`. Otherwise records the
/// fault for the named setting.
fn check(named: Option<&Named>, config: &TlsConfig, faults: &mut Faults) -> bool {
    let (Some((place, _)), Err(why)) = (named, config.check()) else { return true };
    faults.push(place, format!("cannot be used: {why}"));
    false
}
