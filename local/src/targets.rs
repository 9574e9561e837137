//! Target profiles and secrets that the user gives to the local stack at its start.
//!
//! In a directory, `qm1.json` is the profile `qm1`: its item in the access table without the key.
//! Below `secrets/`, the file `secrets/mq/qm1` is the secret `secret://mq/qm1`. A file that is not
//! UTF-8 becomes a binary secret, such as a key repository. So no secret is on a command line.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use mq::{InlineTargets, Profile, ProfileName, SecretRef, Target};
use serde_json::Value;
use uuid::Uuid;

use crate::failure::{Explain as _, Failure};

/// Settings that the user gave to the stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// Path of IBM MQ's client library; `None` for the stand-in's.
    pub(crate) ibm_mq_library: Option<PathBuf>,
    pub(crate) targets: Targets,
    /// Random ending of the API keys if the user gave targets, since the names of the keys are
    /// public and each key can reach the targets.
    key_ending: Option<String>,
}

/// Target profiles and secrets that the user gave, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets {
    pub(crate) profiles: BTreeMap<String, Value>,
    pub(crate) secrets: BTreeMap<String, Secret>,
}

/// Content of a secret: text or binary.
#[derive(Clone)]
pub(crate) enum Secret {
    Text(String),
    Binary(Vec<u8>),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Given {
    /// Checks the settings that the user gave, and reads the files of targets.
    ///
    /// # Errors
    /// If the library is no file with an absolute path, or the directory of targets is invalid.
    pub(crate) fn read(ibm_mq_library: Option<PathBuf>, directory: Option<&Path>) -> Result<Self, Failure> {
        // A variable that is set to nothing is not set.
        let ibm_mq_library = ibm_mq_library.filter(|path| !path.as_os_str().is_empty());
        if let Some(path) = &ibm_mq_library
            && !(path.is_absolute() && path.is_file())
        {
            return Err(Failure::new(format!(
                "IBM_MQ_LIBRARY has to be the absolute path of libmqm_r.so, and {} is not a file.",
                path.display()
            )));
        }
        let directory = directory.filter(|path| !path.as_os_str().is_empty());
        let targets = directory.map(Targets::read).transpose()?.unwrap_or_default();
        let key_ending = directory.map(|_| Uuid::new_v4().simple().to_string());
        Ok(Self { ibm_mq_library, targets, key_ending })
    }

    /// Returns the API key with this name: the name itself, with the random ending if there is one.
    pub(crate) fn api_key(&self, name: &str) -> String {
        self.key_ending.as_ref().map_or_else(|| name.to_owned(), |ending| format!("{name}-{ending}"))
    }
}

impl Targets {
    fn read(directory: &Path) -> Result<Self, Failure> {
        let mut targets = Self::default();
        for path in files(directory)? {
            let is_profile = path.extension().is_some_and(|extension| extension == "json");
            if let (true, Some(name)) = (is_profile, path.file_stem().and_then(|name| name.to_str()))
                && !name.starts_with('.')
            {
                targets.profiles.insert(name.to_owned(), profile(&path, name)?);
            }
        }
        let secrets = directory.join("secrets");
        if secrets.exists() {
            targets.read_secrets(&secrets, "")?;
        }
        Ok(targets)
    }

    fn read_secrets(&mut self, directory: &Path, prefix: &str) -> Result<(), Failure> {
        for path in files(directory)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = format!("{prefix}{name}");
            if path.is_dir() {
                self.read_secrets(&path, &format!("{name}/"))?;
                continue;
            }
            SecretRef::try_from(format!("secret://{name}")).map_err(|_| {
                Failure::new(format!("{} is not a name that a secret can have.", path.display()))
            })?;
            self.secrets.insert(name, secret(&path)?);
        }
        Ok(())
    }
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let explain = || format!("read the directory {}", directory.display());
    let entries = fs::read_dir(directory).or_explain(explain)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>();
    paths.or_explain(explain)
}

fn profile(path: &Path, name: &str) -> Result<Value, Failure> {
    let explain = || format!("read the target profile {}", path.display());
    ProfileName::try_from(name.to_owned())
        .map_err(|error| Failure::new(format!("{} names no profile: the name {error}.", path.display())))?;
    let text = content(path).or_explain(explain)?;
    let profile: Profile = attempt::malformed::from_slice(&text).or_explain(explain)?;
    let allowed = InlineTargets::default();
    Target::resolve(Some(&profile), None, allowed.of("")).or_explain(explain)?;
    attempt::malformed::from_slice(&text).or_explain(explain)
}

/// Reads a regular file. Anything else is an error, because a pipe would block the start.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_file() {
        fs::read(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"))
    }
}

fn secret(path: &Path) -> Result<Secret, Failure> {
    let explain = || format!("read the secret {}", path.display());
    let mode = fs::metadata(path).or_explain(explain)?.permissions().mode();
    if mode & 0o077 != 0 {
        let path = path.display();
        return Err(Failure::new(format!("{path} is a secret that others can read: chmod 600 {path}")));
    }
    // Editors end a text with a line feed, which no password has.
    Ok(match String::from_utf8(content(path).or_explain(explain)?) {
        Ok(text) => Secret::Text(text.trim_end_matches(['\r', '\n']).to_owned()),
        Err(binary) => Secret::Binary(binary.into_bytes()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a directory with these files. Only the present user can read them.
    fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        directory
    }

    const PROFILE: &[u8] = br#"{"target": {"queueManager": "QM1", "channel": "APP.SVRCONN",
        "connName": "mq.example.com(1414)", "auth": {"passwordRef": "secret://mq/qm1"}}, "queues": ["*"]}"#;

    #[test]
    fn profiles_and_secrets_have_the_names_of_their_files() {
        let files: [(&str, &[u8]); 4] = [
            ("qm1.json", PROFILE),
            ("README", b"not a profile"),
            ("secrets/mq/qm1", b"{\"username\": \"app\", \"password\": \"x\"}\n"),
            ("secrets/mq/keys.p12", &[0x30, 0x82, 0xFF]),
        ];
        let directory = directory(&files);
        let targets = Given::read(None, Some(directory.path())).unwrap().targets;
        assert_eq!(targets.profiles.keys().collect::<Vec<_>>(), ["qm1"]);
        assert_eq!(targets.profiles["qm1"]["target"]["queueManager"], "QM1");
        assert_eq!(targets.secrets.keys().collect::<Vec<_>>(), ["mq/keys.p12", "mq/qm1"]);
        let text = "{\"username\": \"app\", \"password\": \"x\"}";
        assert!(matches!(&targets.secrets["mq/qm1"], Secret::Text(found) if found == text));
        assert!(matches!(&targets.secrets["mq/keys.p12"], Secret::Binary(found) if found.len() == 3));
    }

    #[test]
    fn nobody_knows_the_keys_of_a_stack_that_reaches_targets_of_the_user_s() {
        let directory = directory(&[("qm1.json", PROFILE)]);
        let key = || Given::read(None, Some(directory.path())).unwrap().api_key("local-dev-key-a");
        let (first, second) = (key(), key());
        assert!(
            first != second
                && first.strip_prefix("local-dev-key-a-").is_some_and(|ending| ending.len() == 32)
        );
        assert_eq!(Given::read(None, None).unwrap().api_key("local-dev-key-a"), "local-dev-key-a");
    }

    fn refused(files: &[(&str, &[u8])]) -> String {
        let directory = directory(files);
        Given::read(None, Some(directory.path())).unwrap_err().to_string()
    }

    #[test]
    fn a_profile_that_no_request_could_use_is_refused_with_its_file_and_member() {
        let unknown = refused(&[("qm1.json", br#"{"target": {"chanel": "A"}}"#)]);
        assert!(unknown.contains("qm1.json") && unknown.contains("/target/chanel"), "{unknown}");
        let incomplete = refused(&[("qm1.json", br#"{"target": {"queueManager": "QM1"}}"#)]);
        assert!(incomplete.contains("is required"), "{incomplete}");
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let directory = directory(&[("secrets/mq/qm1", b"s3cret")]);
        let path = directory.path().join("secrets/mq/qm1");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = Given::read(None, Some(directory.path())).unwrap_err().to_string();
        assert!(refused.contains("chmod 600") && !refused.contains("s3cret"), "{refused}");
        assert!(self::refused(&[("secrets/mq/a b", b"x")]).contains("a b"));
    }

    #[test]
    fn a_library_that_is_not_there_is_refused_before_anything_starts() {
        for path in ["/no/such/libmqm_r.so", "libmqm_r.so"] {
            assert!(Given::read(Some(path.into()), None).is_err(), "{path}");
        }
        assert!(Given::read(Some(PathBuf::new()), None).unwrap().ibm_mq_library.is_none());
        let there = tempfile::NamedTempFile::new().unwrap();
        assert!(Given::read(Some(there.path().to_owned()), None).unwrap().ibm_mq_library.is_some());
    }
}
