//! The file of contexts, `config.toml`, and the directory of the contexts' API keys.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use url::Url;

use super::LOCAL;
use crate::args;
use crate::aws;
use crate::directory::DirectoryVariables;
use crate::exit::{Explain as _, Failure};
use crate::input;

/// Version of the configuration file's format.
const VERSION: u32 = 1;
/// Name of the configuration file in its directory.
const FILE: &str = "config.toml";
/// Environment variables and directories that decide where the configuration file is.
const VARIABLES: DirectoryVariables = DirectoryVariables {
    purpose: "for contexts",
    own: "INTEGRAHUB_CONFIG_DIR",
    xdg: "XDG_CONFIG_HOME",
    windows: "APPDATA",
    home: ".config",
};
/// Name of the directory with the API keys of contexts, next to the configuration file.
const KEYS: &str = "keys";

/// Content of the configuration file: the contexts by name, and the name of the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contexts {
    directory: PathBuf,
    /// Name of the context for commands that name none; `None` if the user has not chosen one.
    pub(crate) current: Option<String>,
    all: BTreeMap<String, Settings>,
}

/// Settings of one context in the configuration file. `None` is a setting that was not given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Base URL of the deployment's API; `None` if neither an option nor a stack gave it.
    #[serde(default, deserialize_with = "address", skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<Url>,
    /// Name of the deployment's CloudFormation stack; `None` if the user named none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stack: Option<String>,
    /// AWS region of the stack; `None` for the default of the AWS configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) region: Option<String>,
    /// AWS profile with the credentials; `None` for the AWS SDK's default credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) aws_profile: Option<String>,
    /// Path of the file that holds the API key; `None` if a command prints the key, or there is
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Shell command that prints the API key; `None` if a file holds the key, or there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api_key_command: Option<String>,
    /// Names of the stack's tables, function and log group, as its outputs had them.
    #[serde(default, skip_serializing_if = "aws::Names::is_empty")]
    pub(crate) names: aws::Names,
}

/// Deserializes the base URL of an API by the rules of the option `--url`.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    let text = String::deserialize(deserializer)?;
    args::address(&text).map(Some).map_err(D::Error::custom)
}

/// Configuration file as it is stored on disk, with the version of its format.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    contexts: BTreeMap<String, Settings>,
}

impl Contexts {
    /// Reads the configuration file. A file that does not exist has no contexts.
    ///
    /// # Errors
    /// If the file cannot be read or parsed, or has another version, such as that of a newer
    /// program.
    pub(crate) fn read() -> Result<Self, Failure> {
        Self::read_from(VARIABLES.find(|name| std::env::var_os(name))?)
    }

    fn read_from(directory: PathBuf) -> Result<Self, Failure> {
        match input::settings(&directory.join(FILE))? {
            Some(text) => Self::parse(&text, directory),
            None => Ok(Self { directory, current: None, all: BTreeMap::new() }),
        }
    }

    /// Parses the text of the configuration file in `directory`.
    ///
    /// # Errors
    /// If the text has another form or another version than this program writes.
    pub(super) fn parse(text: &str, directory: PathBuf) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        // The error's own text quotes the line, which may be an address with a password.
        let wrong = |error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            Failure::usage(format!("{} cannot be used", directory.join(FILE).display()))
                .why(format!("line {}: {}", before.split('\n').count(), error.message()))
                .next("correct or remove the file")
        };
        let Versioned { version } = toml::from_str(text).map_err(wrong)?;
        if version != VERSION {
            return Err(Failure::usage(format!(
                "{} has the version {version}",
                directory.join(FILE).display()
            ))
            .why(format!("this program knows version {VERSION}"))
            .next("use the newer integrahub, or another directory in INTEGRAHUB_CONFIG_DIR"));
        }
        let stored: Stored = toml::from_str(text).map_err(wrong)?;
        Ok(Self { directory, current: stored.current, all: stored.contexts })
    }

    /// Replaces the configuration file atomically. Only its owner can read it.
    pub(super) fn write(&self) -> Result<(), Failure> {
        let stored = Stored { version: VERSION, current: self.current.clone(), contexts: self.all.clone() };
        let text = toml::to_string(&stored).or_explain(|| "write down the contexts".to_owned())?;
        write_private(&self.directory.join(FILE), text.as_bytes())
    }

    /// Returns the settings of a context.
    ///
    /// # Errors
    /// If there is no context of this name.
    pub(crate) fn get(&self, name: &str) -> Result<&Settings, Failure> {
        self.all.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.all.keys().map(String::as_str).chain([LOCAL]).collect();
            Failure::usage(format!("there is no context `{name}`"))
                .why(format!("there are: {}", names.join(", ")))
                .next(format!("create it: integrahub context create {name} --stack STACK --region REGION"))
        })
    }

    /// Returns the settings of a context, so that they can be changed. A missing context is added
    /// with empty settings.
    pub(super) fn entry(&mut self, name: &str) -> &mut Settings {
        self.all.entry(name.to_owned()).or_default()
    }

    /// Removes a context, and deletes the file in which this program keeps its API key, if there is
    /// one. The caller has to write the configuration file.
    ///
    /// # Errors
    /// If there is no such context, or the file system fails.
    pub(super) fn remove(&mut self, name: &str) -> Result<(), Failure> {
        self.get(name)?;
        self.all.remove(name);
        self.current.take_if(|current| current == name);
        let path = self.key_file(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).or_explain(|| format!("remove {}", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Returns every context with its name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Settings)> {
        self.all.iter().map(|(name, settings)| (name.as_str(), settings))
    }

    /// Returns the path of the file in which this program keeps the API key of a context.
    pub(super) fn key_file(&self, name: &str) -> PathBuf {
        self.directory.join(KEYS).join(name)
    }
}

/// Writes a file atomically, and creates the directories that are missing on its path. Only their
/// owner can read the file and enter the new directories.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let explain = || format!("write {}", path.display());
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory).or_explain(explain)?;
    // Its mode is 0600.
    let mut file = tempfile::NamedTempFile::new_in(directory).or_explain(explain)?;
    file.write_all(content).or_explain(explain)?;
    file.as_file().sync_all().or_explain(explain)?;
    file.persist(path).or_explain(explain)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_back_as_they_were_written() {
        let directory = tempfile::tempdir().unwrap();
        let mut contexts = Contexts::read_from(directory.path().join("new")).unwrap();
        contexts.entry("prod").stack = Some("integrahub".to_owned());
        contexts.entry("prod").names.access_table = Some("table".to_owned());
        contexts.current = Some("prod".to_owned());
        contexts.write().unwrap();
        assert_eq!(Contexts::read_from(directory.path().join("new")).unwrap(), contexts);
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_reads_the_files() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/keys/prod");
        write_private(&path, b"ihub_x").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn a_newer_file_is_refused_and_not_misread() {
        let refused = Contexts::parse("version = 2\nshape = \"new\"", "/nowhere".into()).unwrap_err();
        assert!(refused.what.contains("version 2"), "{refused}");
        let misspelt = Contexts::parse("version = 1\n[contexts.a]\nurll = \"x\"", "/nowhere".into());
        assert!(misspelt.unwrap_err().why.unwrap().contains("urll"));
    }

    #[test]
    fn an_address_in_the_file_follows_the_rules_of_the_option() {
        let url =
            |url| Contexts::parse(&format!("version = 1\n[contexts.a]\nurl = '{url}'"), "/nowhere".into());
        let read = url("https://a.test/x").unwrap();
        assert_eq!(read.get("a").unwrap().url, Some("https://a.test/x".parse().unwrap()));
        assert!(url("https://a.test/x?stage=y").unwrap_err().why.unwrap().contains("no `?`"));
        let with_password = url("https://user:hunter2@a.test").unwrap_err().why.unwrap();
        assert!(with_password.starts_with("line 3: an address has no user"), "{with_password}");
        assert!(!with_password.contains("hunter2"), "{with_password}");
    }
}
