//! Error report of a payload: a gzip file that has one line for each item in error, a JSON object
//! with the item's text. This code does no I/O: the caller stores the parts of the file one after
//! the other.

use std::io::{self, Write as _};
use std::str::from_utf8;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use ingestion::product::{ItemError, ItemErrorCode};
use objects::PART;
use serde::Serialize;

/// Line of the error report, about one item. docs/batches.md describes its members.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    error: &'a ItemError,
    item: Option<&'a str>,
    /// Item in base64 if its bytes are not valid UTF-8; otherwise `None`, and `item` has the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    item_base64: Option<String>,
    item_truncated: bool,
}

/// Error report of a payload, compressed as it grows. Memory holds at most one part (5 MiB) of the
/// file, and the lines of the items that the cutter finds in one call.
#[derive(Debug)]
pub(crate) struct Report {
    gzip: GzEncoder<Vec<u8>>,
    line: Vec<u8>,
    lines: u64,
    /// First failure to write a line, and otherwise `Ok`. No failure is known to occur, since all
    /// writers are in memory.
    written: io::Result<()>,
}

impl Report {
    pub(crate) fn new() -> Self {
        let gzip = GzEncoder::new(Vec::new(), Compression::fast());
        Self { gzip, line: Vec::new(), lines: 0, written: Ok(()) }
    }

    /// Adds an item in error to the report. `text` is the whole item, or its first bytes if it is
    /// too large.
    pub(crate) fn add(&mut self, error: &ItemError, text: &[u8]) {
        self.lines = self.lines.saturating_add(1);
        if self.written.is_ok() {
            self.written = self.write(error, text);
        }
    }

    fn write(&mut self, error: &ItemError, text: &[u8]) -> io::Result<()> {
        let item_truncated = error.code == ItemErrorCode::ItemTooLarge;
        let item = readable(text, item_truncated);
        let item_base64 = item.is_none().then(|| STANDARD.encode(text));
        self.line.clear();
        serde_json::to_writer(&mut self.line, &Line { error, item, item_base64, item_truncated })?;
        self.line.push(b'\n');
        self.gzip.write_all(&self.line)
    }

    /// Takes the next part of the report's file; `None` until there are enough bytes for a full
    /// part.
    pub(crate) fn part(&mut self) -> Option<Vec<u8>> {
        let compressed = self.gzip.get_mut();
        (compressed.len() >= PART).then(|| std::mem::take(compressed))
    }

    /// Ends the report and returns the last part of its file; `None` if no item was added.
    pub(crate) fn finish(self) -> io::Result<Option<Vec<u8>>> {
        self.written?;
        let last = self.gzip.finish()?;
        Ok((self.lines > 0).then_some(last))
    }
}

/// Returns the bytes as text if they are UTF-8. Of a text that was cut off, an incomplete last
/// character is dropped.
fn readable(text: &[u8], is_cut_off: bool) -> Option<&str> {
    match from_utf8(text) {
        Ok(readable) => Some(readable),
        Err(error) if is_cut_off && error.error_len().is_none() => {
            from_utf8(text.get(..error.valid_up_to())?).ok()
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use ingestion::product::PartialKey;
    use serde_json::{Value, json};

    use super::*;

    fn error(code: ItemErrorCode) -> ItemError {
        ItemError {
            item_index: 3,
            byte_offset: 70,
            code,
            field: Some("PRICE".into()),
            detail: "no number".into(),
            key: PartialKey { shop_id: Some(1), ..PartialKey::default() },
        }
    }

    fn lines(gzip: &[u8]) -> Vec<Value> {
        let mut text = String::new();
        #[expect(clippy::disallowed_methods, reason = "the test made it itself")]
        GzDecoder::new(gzip).read_to_string(&mut text).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn an_item_is_reported_as_it_was_received() {
        let large = ItemErrorCode::ItemTooLarge;
        for (code, text, item, item_base64, item_truncated) in [
            (
                ItemErrorCode::FieldInvalid,
                &b"{\"PRICE\":\n \"x\"}"[..],
                json!("{\"PRICE\":\n \"x\"}"),
                None,
                false,
            ),
            (ItemErrorCode::MalformedJson, b"{\"a\":\"\xff\"}", Value::Null, Some("eyJhIjoi/yJ9"), false),
            (ItemErrorCode::MalformedJson, b"\xc3", Value::Null, Some("ww=="), false),
            (large, b"{\"a\":\"b\xc3", json!("{\"a\":\"b"), None, true),
            (large, b"\xff{", Value::Null, Some("/3s="), true),
        ] {
            let mut report = Report::new();
            report.add(&error(code), text);
            let mut expected = json!({
                "item_index": 3, "byte_offset": 70, "code": code, "field": "PRICE", "detail": "no number",
                "key": {"shopid": 1}, "item": item, "item_truncated": item_truncated,
            });
            if let Some(base64) = item_base64 {
                expected["item_base64"] = json!(base64);
            }
            assert_eq!(lines(&report.finish().unwrap().unwrap()), [expected]);
        }
    }

    #[test]
    fn a_payload_without_errors_has_no_report() {
        assert_eq!(Report::new().finish().unwrap(), None);
    }

    #[test]
    fn its_parts_are_one_file() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut report = Report::new();
        let (mut parts, mut file) = (0, Vec::new());
        for _ in 0..80 {
            let text: String = std::iter::repeat_with(|| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                char::from(b'#' + u8::try_from(state % 57).unwrap())
            })
            .take(200_000)
            .collect();
            report.add(&error(ItemErrorCode::FieldInvalid), text.as_bytes());
            if let Some(part) = report.part() {
                assert!(part.len() >= PART && part.len() < PART + 400_000);
                parts += 1;
                file.extend(part);
            }
        }
        file.extend(report.finish().unwrap().unwrap());
        assert!(parts > 1);
        assert_eq!(lines(&file).len(), 80);
    }
}
