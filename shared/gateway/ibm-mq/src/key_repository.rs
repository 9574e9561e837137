//! Parses an IBM MQ key repository from secrets or S3 objects, and writes its files for the client.
//!
//! A text secret is a JSON object: `{"kdb": "<base64>", "sth": "<base64>"}` for a CMS key database
//! with its stash file, or `{"p12": "<base64>", "password": "…"}` for a PKCS#12 one (MQ 9.3 or
//! later). Both may have a `certificateLabel`. A binary secret or an S3 object is the file itself,
//! and the target names its stash file or password.

use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mq::KeyFiles;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Secret {
    kdb: Option<String>,
    sth: Option<String>,
    p12: Option<String>,
    password: Option<String>,
    certificate_label: Option<String>,
}

/// Parsed IBM MQ key repository: the files to write, with the password and the certificate label.
pub(crate) struct KeyRepository {
    format: Format,
    files: Vec<(&'static str, Vec<u8>)>,
    pub(crate) password: Option<SecretString>,
    pub(crate) certificate_label: Option<String>,
    pub(crate) identity: Identity,
}

/// Digest of a key repository, including its password and label, to compare repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity([u8; 32]);

/// Reason why a secret or an object is not a key repository. The text does not quote the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("it is not a JSON object with kdb and sth, or p12 and password, and perhaps certificateLabel")]
    Json,
    #[error("it must have either kdb with sth or password, or p12 with password or sth")]
    Members,
    #[error("a file in it is not base64 with padding (RFC 4648, section 4)")]
    Base64,
    #[error("its certificateLabel is longer than 64 bytes")]
    Label,
    #[error("it is the file itself, which needs ssl.stashRef or ssl.storePasswordRef in the profile")]
    Closed,
    #[error(
        "it is text, which has what opens it in itself; ssl.stashRef, ssl.storePasswordRef and \
         ssl.certificateLabel go with a binary secret or an object of S3"
    )]
    Opened,
    #[error("it is {0}, and the client takes a CMS key database (.kdb) or PKCS#12 (.p12)")]
    Kind(&'static str),
    #[error("its stash file has {0} bytes, and the largest has 64 KiB")]
    Stash(usize),
}

impl KeyRepository {
    pub(crate) fn parse(secret: &SecretString) -> Result<Self, Malformed> {
        let Secret { kdb, sth, p12, password, certificate_label } =
            serde_json::from_str(secret.expose_secret()).map_err(|_| Malformed::Json)?;
        let decode = |text: String| STANDARD.decode(text).map_err(|_| Malformed::Base64);
        if certificate_label.as_ref().is_some_and(|label| label.len() > 64) {
            return Err(Malformed::Label);
        }
        if sth.is_none() && password.is_none() {
            return Err(Malformed::Members);
        }
        let (format, repository) = match (kdb, p12) {
            (Some(kdb), None) => (CMS, decode(kdb)?),
            (None, Some(p12)) => (PKCS_12, decode(p12)?),
            _ => return Err(Malformed::Members),
        };
        let stash = sth.map(decode).transpose()?;
        Ok(Self::of(format, repository, stash, password.map(SecretString::from), certificate_label))
    }

    /// Parses a key repository from the files of a target.
    ///
    /// # Errors
    /// If the store is not a key repository, has neither a stash file nor a password, or the stash
    /// file is too large.
    pub(crate) fn of_files(files: &KeyFiles) -> Result<Self, Malformed> {
        let KeyFiles { store, stash, password, certificate_label } = files;
        if stash.is_none() && password.is_none() {
            return Err(Malformed::Closed);
        }
        let store = store.expose_secret();
        let format = format_of(store)?;
        let stash = stash.as_ref().map(|stash| stash.expose_secret().to_vec());
        if let Some(stash) = stash.as_ref().filter(|stash| stash.len() > LARGEST_STASH) {
            return Err(Malformed::Stash(stash.len()));
        }
        Ok(Self::of(format, store.to_vec(), stash, password.clone(), certificate_label.clone()))
    }

    fn of(
        format: Format,
        repository: Vec<u8>,
        stash: Option<Vec<u8>>,
        password: Option<SecretString>,
        certificate_label: Option<String>,
    ) -> Self {
        let mut files = vec![(format.file, repository)];
        files.extend(stash.map(|stash| ("key.sth", stash)));
        let text = password.as_ref().map(SecretString::expose_secret);
        let identity = Identity::of(&files, text, certificate_label.as_deref());
        Self { format, files, password, certificate_label, identity }
    }

    /// Writes the files below `directory`, readable only by this user. Dropping the returned value
    /// removes them. Also removes files that ended processes have left there.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<Written> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        sweep(directory)?;
        let place = directory.join(format!("{}-{}", std::process::id(), hex::encode(self.identity.0)));
        DirBuilder::new().mode(0o700).create(&place)?;
        let written = Written { file: place.join(self.format.name), place };
        for (name, content) in &self.files {
            let path = written.place.join(name);
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(content)?;
        }
        Ok(written)
    }
}

/// Maximum size of a stash file in bytes, equal to the maximum of a secret. Stash files of IBM's
/// tools have less than 200 bytes.
const LARGEST_STASH: usize = 65_536;

/// Type of a key repository (CMS or PKCS#12), with its file's names for the client and on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format {
    /// File name that the client is given. For a CMS key database the name lacks `.kdb`, as clients
    /// before 9.3 require.
    name: &'static str,
    file: &'static str,
}

const CMS: Format = Format { name: "key", file: "key.kdb" };
const PKCS_12: Format = Format { name: "key.p12", file: "key.p12" };

/// Detects whether a file is a CMS or a PKCS#12 key repository by its content, since secrets and
/// objects need no file extension. PKCS#12 is DER or BER beginning with version 3 (RFC 7292,
/// section 4). The CMS format is unpublished, so any file that is not recognized as something else
/// counts as CMS, and the client reports if it cannot use it.
fn format_of(file: &[u8]) -> Result<Format, Malformed> {
    const OTHERS: [(&[u8], &str); 5] = [
        (b"\xFE\xED\xFE\xED", "a Java key store (JKS)"),
        (b"\xCE\xCE\xCE\xCE", "a Java key store (JCEKS)"),
        (b"PK\x03\x04", "a zip archive"),
        (b"PK\x05\x06", "an empty zip archive"),
        (b"\x1F\x8B", "a gzip archive"),
    ];
    if file.is_empty() {
        return Err(Malformed::Kind("empty"));
    }
    if let Some(text) = as_text(file) {
        return Err(Malformed::Kind(match text {
            _ if text.contains("-----BEGIN ") => "PEM",
            _ if text.starts_with('{') => "JSON, which has to be a secret of text",
            _ => "text",
        }));
    }
    if let Some((_, what)) = OTHERS.iter().find(|(start, _)| file.starts_with(start)) {
        return Err(Malformed::Kind(what));
    }
    let Some(rest) = file.strip_prefix(&[0x30]) else { return Ok(CMS) };
    let content = match rest.split_first() {
        // The length is in the lower bits, or the lower bits give the number of length bytes, which
        // is 0 if the length is indefinite.
        Some((length @ 0x80..=0x84, rest)) => rest.get(usize::from(length & 0x7F)..),
        Some((..0x80, rest)) => Some(rest),
        _ => None,
    };
    match content.is_some_and(|content| content.starts_with(&[2, 1, 3])) {
        true => Ok(PKCS_12),
        false => Err(Malformed::Kind("DER, but not PKCS#12")),
    }
}

/// Returns the content of a text file without byte order mark and leading white space; `None` if
/// the file is not text.
fn as_text(file: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(file).ok()?.trim_start_matches('\u{FEFF}').trim_start();
    let is_text = text.chars().all(|character| !character.is_control() || character.is_ascii_whitespace());
    is_text.then_some(text)
}

impl fmt::Debug for KeyRepository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRepository").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Identity {
    fn of(files: &[(&str, Vec<u8>)], password: Option<&str>, label: Option<&str>) -> Self {
        let mut digest = Sha256::new();
        let texts = [("password", password), ("label", label)];
        let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text?.as_bytes())));
        for (name, content) in files.iter().map(|(name, content)| (*name, content.as_slice())).chain(texts) {
            for part in [name.as_bytes(), content] {
                digest.update(part.len().to_be_bytes());
                digest.update(part);
            }
        }
        Self(digest.finalize().into())
    }
}

/// Files of a key repository on disk. Dropping the value removes them.
#[derive(Debug)]
pub(crate) struct Written {
    place: PathBuf,
    /// Path of the key repository in the form that the client expects: without `.kdb` for a CMS key
    /// database.
    pub(crate) file: PathBuf,
}

impl Drop for Written {
    fn drop(&mut self) {
        remove(&self.place);
    }
}

/// Removes a key repository's directory. A failure is only logged, since nothing depends on it.
fn remove(place: &Path) {
    if let Err(error) = fs::remove_dir_all(place) {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(
            event_type = "key_repository.not_removed",
            path = %place.display(),
            error,
            "cannot remove the key repository `{}` from disk",
            place.display()
        );
    }
}

/// Removes from `directory` the key repositories that ended processes have left, and all that this
/// process has written. The caller must ensure that no connection of this process uses one.
fn sweep(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.split_once('-')).map(|(process, _)| process);
        let Some(process) = process.and_then(|process| process.parse::<u32>().ok()) else { continue };
        if process == std::process::id() || !Path::new("/proc").join(process.to_string()).exists() {
            remove(&entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use super::*;

    fn parse(json: &str) -> Result<KeyRepository, Malformed> {
        KeyRepository::parse(&json.to_owned().into())
    }

    #[test]
    fn a_secret_is_a_key_database_or_a_pkcs_12_one() {
        let kdb = parse(r#"{"kdb":"AQI=","sth":"Aw==","certificateLabel":"app"}"#).unwrap();
        assert_eq!(kdb.files, [("key.kdb", vec![1, 2]), ("key.sth", vec![3])]);
        assert_eq!(kdb.certificate_label.as_deref(), Some("app"));
        let p12 = parse(r#"{"p12":"AQI=","password":"s3cret"}"#).unwrap();
        assert_eq!(p12.files, [("key.p12", vec![1, 2])]);
        assert!(p12.password.is_some());
        for (json, why) in [
            ("-----BEGIN CERTIFICATE-----", Malformed::Json),
            (r#"{"kdb":"AQI=","sth":"Aw==","more":1}"#, Malformed::Json),
            (r#"{"kdb":"AQI="}"#, Malformed::Members),
            (r#"{"kdb":"AQI=","p12":"AQI=","password":"x"}"#, Malformed::Members),
            (r#"{"password":"x"}"#, Malformed::Members),
            (r#"{"p12":"?","password":"x"}"#, Malformed::Base64),
        ] {
            assert_eq!(parse(json).err(), Some(why), "{json}");
        }
        let long = format!(r#"{{"p12":"AQI=","password":"x","certificateLabel":"{}"}}"#, "a".repeat(65));
        assert_eq!(parse(&long).err(), Some(Malformed::Label));
    }

    fn files(store: &[u8], stash: Option<&[u8]>, password: Option<&str>) -> KeyFiles {
        let file = |bytes: &[u8]| Arc::new(bytes.to_vec().into());
        KeyFiles {
            store: file(store),
            stash: stash.map(file),
            password: password.map(SecretString::from),
            certificate_label: Some("app".to_owned()),
        }
    }

    #[test]
    fn a_file_is_a_repository_with_a_stash_file_or_a_password() {
        let of = |store: &[u8], stash: Option<&[u8]>, password: Option<&str>| {
            KeyRepository::of_files(&files(store, stash, password))
        };
        let kdb = of(b"\0CMS", Some(&[3]), None).unwrap();
        assert_eq!(kdb.files, [("key.kdb", b"\0CMS".to_vec()), ("key.sth", vec![3])]);
        assert_eq!((kdb.format, kdb.certificate_label.as_deref()), (CMS, Some("app")));
        for header in [&[0x30, 5][..], &[0x30, 0x80], &[0x30, 0x81, 200], &[0x30, 0x82, 4, 210]] {
            let store = [header, &[2, 1, 3, 0x30, 0]].concat();
            let p12 = of(&store, None, Some("s3cret")).unwrap();
            assert_eq!((p12.format, &p12.files), (PKCS_12, &vec![("key.p12", store)]));
            assert_eq!(p12.password.unwrap().expose_secret(), "s3cret");
        }
        assert_eq!(of(b"\0CMS", None, None).err(), Some(Malformed::Closed));
        assert_eq!(of(b"\0CMS", Some(&[0; 65_537]), None).err(), Some(Malformed::Stash(65_537)));
    }

    #[test]
    fn a_file_of_another_kind_is_named() {
        for (file, what) in [
            (&b""[..], "empty"),
            (b"-----BEGIN CERTIFICATE-----", "PEM"),
            (br#"{"p12":"AQI="}"#, "JSON"),
            (b"\xFE\xED\xFE\xED\0\0\0\x02", "JKS"),
            (b"\xCE\xCE\xCE\xCE\0\0\0\x02", "JCEKS"),
            (b"PK\x03\x04", "zip"),
            (b"\x1F\x8B\x08", "gzip"),
            // A certificate in DER.
            (b"\x30\x82\x03\x00\x30\x82\x02\x00", "DER"),
            (b"\x30\x84\x03", "DER"),
            (b"\x30\x82", "DER"),
            (b"\xEF\xBB\xBF\n-----BEGIN CERTIFICATE-----\n", "PEM"),
            (b"Bag Attributes\n    friendlyName: app\n-----BEGIN PRIVATE KEY-----\n", "PEM"),
            (b"<Error><Code>NoSuchKey</Code></Error>", "text"),
            (b"PK\x05\x06\0\0", "zip"),
        ] {
            let error = KeyRepository::of_files(&files(file, Some(&[1]), None)).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains(".kdb"), "{error}");
        }
    }

    #[test]
    fn the_same_files_are_the_same_repository_however_they_came() {
        let json = parse(r#"{"kdb":"AENNUw==","sth":"Aw==","certificateLabel":"app"}"#).unwrap();
        let binary = KeyRepository::of_files(&files(b"\0CMS", Some(&[3]), None)).unwrap();
        assert_eq!(json.identity, binary.identity);
    }

    #[test]
    fn files_are_for_their_owner_alone_and_go_when_nobody_needs_them() {
        let directory = tempfile::tempdir().unwrap();
        let left = |process: u32| directory.path().join(format!("{process}-abc"));
        // Files of a process that has ended (numbers are below 2^22), and of one that runs.
        for process in [4_194_305, 1] {
            fs::create_dir(left(process)).unwrap();
        }
        // A file that belongs to another program does not prevent a connection.
        fs::write(directory.path().join("4194305-file"), "").unwrap();
        let written = parse(r#"{"kdb":"AQI=","sth":"Aw=="}"#).unwrap().write(directory.path()).unwrap();
        for (name, content) in [("key.kdb", vec![1, 2]), ("key.sth", vec![3])] {
            let file = written.file.with_file_name(name);
            assert_eq!(fs::read(&file).unwrap(), content);
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let place = written.file.parent().unwrap().to_owned();
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 2);
        assert_eq!((left(4_194_305).exists(), left(1).exists()), (false, true));
        drop(written);
        assert!(!place.exists());
    }

    #[test]
    fn repositories_differ_by_content_password_and_label() {
        let of = |json: &str| parse(json).unwrap().identity;
        let one = r#"{"p12":"AQI=","password":"a"}"#;
        assert_eq!(of(one), of(one));
        for other in [
            r#"{"p12":"AQM=","password":"a"}"#,
            r#"{"p12":"AQI=","password":"b"}"#,
            r#"{"p12":"AQI=","password":"a","certificateLabel":"app"}"#,
            r#"{"kdb":"AQI=","password":"a"}"#,
        ] {
            assert_ne!(of(one), of(other), "{other}");
        }
    }
}
