//! What a tool needs to look behind the API, as lines of `NAME=value`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::failure::{Explain as _, Failure};

pub(crate) type Variables = Vec<(&'static str, String)>;

/// There while the stack can be used, and removed when dropped.
#[derive(Debug)]
pub(crate) struct EnvFile {
    path: PathBuf,
}

impl EnvFile {
    /// Appears at once and complete, and is readable by its owner only, since it holds the broker's
    /// password.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn publish(path: PathBuf, variables: &Variables) -> Result<Self, Failure> {
        let explain = || format!("write {}", path.display());
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(directory).or_explain(explain)?;
        for (name, value) in variables {
            writeln!(file, "{name}={value}").or_explain(explain)?;
        }
        file.persist(&path).or_explain(explain)?;
        Ok(Self { path })
    }

    /// Removes what a killed supervisor left: it describes a stack that is gone.
    pub(crate) fn forget(path: &Path) {
        let _missing = std::fs::remove_file(path);
    }
}

impl Drop for EnvFile {
    fn drop(&mut self) {
        Self::forget(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_there_only_while_it_holds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("env");
        let variables = vec![("BASE_URL", "http://127.0.0.1:1".to_owned()), ("AWS_REGION", "r".to_owned())];
        let file = EnvFile::publish(path.clone(), &variables).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "BASE_URL=http://127.0.0.1:1\nAWS_REGION=r\n");
        drop(file);
        assert!(!path.exists());
    }
}
