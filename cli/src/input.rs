//! Reading of files and standard input into memory, up to a maximum size.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::exit::{Explain as _, Failure};

/// Maximum number of bytes of a document that a command reads, such as the body of a request.
const MAX_DOCUMENT: u64 = 4 * 1024 * 1024;
/// Maximum size that a YAML document may reach after its aliases are replaced: the number of its
/// values plus the bytes of their text. A document of up to 4 MiB without aliases stays below it,
/// since two bytes of text count as at most three.
const MAX_MEANING: usize = 8 * 1024 * 1024;

/// Returns whether the path means standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Reads a file, or standard input if the path is `-`, of at most `limit` bytes.
///
/// # Errors
/// If the file cannot be read, or is larger than the limit.
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
    within(content, path, limit)
}

/// Returns the content, or a failure if it is larger than `limit` bytes.
fn within(content: Vec<u8>, path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    if u64::try_from(content.len()).is_ok_and(|length| length <= limit) {
        return Ok(content);
    }
    Err(Failure::refused(format!("{} is too large", path.display()))
        .why(format!("it may have {limit} bytes")))
}

/// Reads a file with settings of the program; `None` if there is no such file.
///
/// # Errors
/// If the file cannot be read, or is larger than [`MAX_DOCUMENT`].
pub(crate) fn settings(path: &Path) -> Result<Option<String>, Failure> {
    let explain = || format!("read {}", path.display());
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.or_explain(explain)?,
    };
    let mut content = Vec::new();
    io::copy(&mut file.take(MAX_DOCUMENT.saturating_add(1)), &mut content).or_explain(explain)?;
    let content = within(content, path, MAX_DOCUMENT)?;
    Ok(Some(String::from_utf8_lossy(&content).into_owned()))
}

/// Reads a file or standard input (`-`) and parses it as YAML, of which JSON is a subset.
///
/// # Errors
/// If the document cannot be read, or does not have the form of `T`.
pub(crate) async fn document<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let text = read(path, MAX_DOCUMENT).await?;
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&text);
    let left = Cell::new(MAX_MEANING);
    let meaning = Meaning(&left).deserialize(serde_norway::Deserializer::from_slice(text));
    meaning.and_then(|()| serde_norway::from_slice(text)).map_err(|error| {
        Failure::usage(format!("{} cannot be used", path.display()))
            .why(error.to_string())
            .next("write it as YAML or JSON, in UTF-8")
    })
}

/// Visitor that refuses a YAML document whose aliases expand it beyond [`MAX_MEANING`]. The cell
/// has the size that may still follow: each value takes 1 plus the bytes of its text. The parser
/// limits the number of aliases, but not the size to which they expand.
#[derive(Clone, Copy)]
struct Meaning<'a>(&'a Cell<usize>);

impl Meaning<'_> {
    fn meet<E: Error>(self, text: &str) -> Result<(), E> {
        let left = self.0.get().checked_sub(text.len().saturating_add(1));
        self.0.set(left.ok_or_else(|| E::custom("its aliases stand for too much"))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Meaning<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Meaning<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.meet("")
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.meet("")
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<(), E> {
        self.meet("")
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.meet("")
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<(), E> {
        self.meet("")
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.meet("")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.meet("")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.meet("")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.meet(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.meet("")?;
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.meet("")?;
        while members.next_key_seed(self)?.is_some() {
            members.next_value_seed(self)?;
        }
        Ok(())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        let ((), value) = tagged.variant_seed(self)?;
        VariantAccess::newtype_variant_seed(value, self)
    }
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

    #[tokio::test]
    async fn aliases_stand_for_a_bounded_document() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.yaml");
        std::fs::write(&path, "a: &a {x: !t [1, -1, 1.5, ~, true]}\nb: *a").unwrap();
        assert_eq!(document::<Value>(&path).await.unwrap_err().exit.code(), 2, "JSON has no tags");
        std::fs::write(&path, "a: &a {x: [1, -1, 1.5, ~, true]}\nb: *a").unwrap();
        let value = json!({"x": [1, -1, 1.5, null, true]});
        assert_eq!(document::<Value>(&path).await.unwrap(), json!({"a": value, "b": value}));
        let long = "x".repeat(1024 * 1024);
        std::fs::write(&path, format!("a: &a {long}\nb: [{}]", "*a, ".repeat(100_000))).unwrap();
        let refused = document::<Value>(&path).await.unwrap_err();
        assert!(refused.why.as_ref().unwrap().contains("aliases"), "{refused}");
    }

    #[test]
    fn settings_are_bounded_and_may_be_absent() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("env");
        assert_eq!(settings(&path).unwrap(), None);
        std::fs::write(&path, "a").unwrap();
        assert_eq!(settings(&path).unwrap().as_deref(), Some("a"));
        File::create(&path).unwrap().set_len(MAX_DOCUMENT + 1).unwrap();
        assert_eq!(settings(&path).unwrap_err().exit.code(), 6);
    }
}
