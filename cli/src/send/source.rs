//! Files to send. Standard input is written to a temporary file, which is then sent.

use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::load::FileStamp;
use crate::exit::{Exit, Explain as _, Failure};
use crate::input;

/// Maximum number of bytes of a file that can be sent: S3's limit for one PUT request.
pub(crate) const MAX_FILE: u64 = 5_000_000_000;

/// File to send, or the temporary file with standard input.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// Name of the file in output and messages.
    pub(crate) name: String,
    /// Temporary file that standard input was written to; `None` for a named file. It is removed
    /// when this value is dropped.
    _spool: Option<TempPath>,
}

impl Source {
    /// Creates the source for a file.
    pub(crate) fn file(path: &Path) -> Self {
        Self { path: path.to_owned(), name: path.display().to_string(), _spool: None }
    }

    /// Creates the source for a file or, if the path is `-`, for standard input, which is written
    /// to a temporary file.
    ///
    /// # Errors
    /// If standard input is too large, or the file system fails.
    pub(crate) async fn open(path: &Path) -> Result<Self, Failure> {
        if !input::is_stdin(path) {
            return Ok(Self::file(path));
        }
        let explain = || "keep standard input in a temporary file".to_owned();
        let (file, spool) = NamedTempFile::new().or_explain(explain)?.into_parts();
        let mut file = tokio::fs::File::from_std(file);
        let mut input = tokio::io::stdin().take(MAX_FILE.saturating_add(1));
        let bytes = tokio::io::copy(&mut input, &mut file).await.or_explain(explain)?;
        file.flush().await.or_explain(explain)?;
        if bytes > MAX_FILE {
            return Err(Failure::refused("standard input is too large")
                .why(format!("a catalogue has at most {MAX_FILE} bytes as it is sent")));
        }
        Ok(Self { path: spool.to_path_buf(), name: "standard input".to_owned(), _spool: Some(spool) })
    }

    /// Returns the file's size and the time of its last change, which show later whether the file
    /// has changed.
    ///
    /// # Errors
    /// If there is no such file, or it is too large.
    pub(crate) async fn stamp(&self) -> Result<FileStamp, Failure> {
        let metadata = tokio::fs::metadata(&self.path).await.or_explain(|| format!("read {}", self.name))?;
        if !metadata.is_file() {
            return Err(Failure::new(Exit::Error, format!("{} is no file", self.name))
                .next("name the files in it, or watch it: integrahub send --watch DIRECTORY"));
        }
        if metadata.len() > MAX_FILE {
            return Err(Failure::refused(format!("{} is too large", self.name))
                .why(format!("a catalogue has at most {MAX_FILE} bytes as it is sent"))
                .next("compress it with gzip"));
        }
        Ok(FileStamp::of(&metadata))
    }
}

/// Builds the failure of a file that changed while it was read or sent.
pub(crate) fn changed(name: &str) -> Failure {
    Failure::new(Exit::Temporary, format!("{name} changed while it was read"))
        .why("something still writes to it")
        .next("run the same command again when the file is complete")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_files_of_a_size_that_the_contract_allows_are_sent() {
        let directory = tempfile::tempdir().unwrap();
        let failure = Source::file(directory.path()).stamp().await.unwrap_err();
        assert!(failure.what.contains("no file"), "{failure}");
        assert!(Source::file(&directory.path().join("none")).stamp().await.is_err());
        let path = directory.path().join("large");
        std::fs::File::create(&path).unwrap().set_len(MAX_FILE + 1).unwrap();
        assert_eq!(Source::file(&path).stamp().await.unwrap_err().exit, Exit::Refused);
        let contract = include_str!("../../../openapi.yaml");
        assert!(contract.contains(&format!(
            "content_length: {{type: integer, format: int64, minimum: 1, maximum: {MAX_FILE}"
        )));
    }
}
