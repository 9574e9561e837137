//! Files and standard input that are read into memory, within a bound.

use std::path::Path;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::exit::{Explain as _, Failure};

/// Longest document that is read, such as the body of a request.
const MAX_DOCUMENT: u64 = 4 * 1024 * 1024;

/// Returns whether the path means standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Reads a file, or standard input if the path is `-`, of at most `limit` bytes.
///
/// # Errors
/// Failure to read the file, or a file larger than the limit.
pub(crate) async fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    if is_stdin(path) {
        return bounded(tokio::io::stdin(), path, limit).await;
    }
    let file = tokio::fs::File::open(path).await.or_explain(|| format!("open {}", path.display()))?;
    bounded(file, path, limit).await
}

async fn bounded(source: impl AsyncRead + Unpin, path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    let read = source.take(limit.saturating_add(1)).read_to_end(&mut content).await;
    read.or_explain(|| format!("read {}", path.display()))?;
    if u64::try_from(content.len()).is_ok_and(|length| length <= limit) {
        return Ok(content);
    }
    Err(Failure::refused(format!("{} is too large", path.display()))
        .why(format!("it may have {limit} bytes")))
}

/// Reads a document of YAML, of which JSON is a part.
///
/// # Errors
/// Failure to read the document, or a document of another form.
pub(crate) async fn document<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let text = read(path, MAX_DOCUMENT).await?;
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&text);
    serde_norway::from_slice(text).map_err(|error| {
        Failure::usage(format!("{} cannot be used", path.display()))
            .why(error.to_string())
            .next("write it as YAML or JSON, in UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn a_document_is_yaml_or_json_and_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.yaml");
        for text in ["\u{feff}a: 1\nb: [x]\n", "{\"a\": 1, \"b\": [\"x\"]}"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(document::<Value>(&path).await.unwrap(), json!({"a": 1, "b": ["x"]}));
        }
        std::fs::write(&path, "a: [").unwrap();
        assert_eq!(document::<Value>(&path).await.unwrap_err().exit.code(), 2);
        assert_eq!(read(&path, 4).await.unwrap(), b"a: [");
        assert_eq!(read(&path, 3).await.unwrap_err().exit.code(), 6);
        assert!(read(&directory.path().join("none"), 3).await.is_err());
    }
}
