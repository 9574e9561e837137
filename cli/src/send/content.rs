//! Content of a catalogue file, read once before it is sent: its hash, its form, and the
//! establishment of its first item. The file is read in blocks.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use sha2::{Digest as _, Sha256};

use crate::args::Form;
use crate::exit::{Explain as _, Failure};

/// Bytes of a file that are read at a time.
const BLOCK: usize = 256 * 1024;
/// Number of bytes of inflated text that suffice to find the format and establishment of gzip
/// content. Of other content, the first [`BLOCK`] bytes are used.
const HEAD: usize = 64 * 1024;

/// Size, hash, format and first establishment of a catalogue file, found by reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// Number of bytes that will be sent.
    pub(crate) bytes: u64,
    /// SHA-256 of the bytes that will be sent, in hex.
    pub(crate) sha256: String,
    /// Format of the content once it is inflated.
    pub(crate) form: Form,
    /// True if the bytes are gzip.
    pub(crate) is_gzip: bool,
    /// CNPJ of the first item, without punctuation; `None` if it could not be found.
    pub(crate) establishment: Option<String>,
}

impl Content {
    /// Returns the name of the group of files that must arrive in order: the CNPJ of their
    /// establishment, or an empty text if it is not known.
    pub(crate) fn group(&self) -> String {
        self.establishment.clone().unwrap_or_default()
    }

    /// Returns the media type and the content encoding for a request whose body is this content.
    pub(crate) const fn media_type(&self) -> (&'static str, Option<&'static str>) {
        match (self.form, self.is_gzip) {
            (Form::Array, false) => ("application/json", None),
            (Form::Array, true) => ("application/gzip", None),
            (Form::Lines, false) => ("application/x-ndjson", None),
            (Form::Lines, true) => ("application/x-ndjson", Some("gzip")),
        }
    }

    /// Returns the media type of the content in an upload, for which gzip is declared separately.
    pub(crate) const fn inner_type(&self) -> &'static str {
        match self.form {
            Form::Array => "application/json",
            Form::Lines => "application/x-ndjson",
        }
    }

    /// Reads a catalogue file to its end. `name` is the file's name in error messages. `given`
    /// takes precedence over the format that the first bytes show. `read` is called with the number
    /// of bytes read so far.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a catalogue.
    pub(crate) fn of(
        path: &Path,
        name: &str,
        given: Option<Form>,
        mut read: impl FnMut(u64),
    ) -> Result<Self, Failure> {
        let explain = || format!("read {name}");
        let mut file = File::open(path).or_explain(explain)?;
        let (mut hash, mut bytes, mut head) = (Sha256::new(), 0_u64, Vec::new());
        let mut block = vec![0; BLOCK];
        loop {
            let length = file.read(&mut block).or_explain(explain)?;
            let Some(part) = block.get(..length).filter(|part| !part.is_empty()) else { break };
            hash.update(part);
            bytes = bytes.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
            let room = BLOCK.saturating_sub(head.len()).min(length);
            head.extend_from_slice(part.get(..room).unwrap_or_default());
            read(bytes);
        }
        let sha256 = hex::encode(hash.finalize());
        let is_gzip = head.starts_with(&[0x1f, 0x8b]);
        let text = if is_gzip { inflated(&head, name)? } else { head };
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&text);
        let form = form_of(text, name, given)?;
        Ok(Self { bytes, sha256, form, is_gzip, establishment: establishment(text) })
    }
}

/// Inflates the beginning of gzip content, about 64 KiB of text. `name` is for the error message.
fn inflated(head: &[u8], name: &str) -> Result<Vec<u8>, Failure> {
    let mut gzip = MultiGzDecoder::new(head);
    let (mut text, mut block) = (Vec::new(), vec![0; HEAD]);
    while text.len() < HEAD {
        match gzip.read(&mut block) {
            Ok(0) => break,
            Ok(length) => text.extend_from_slice(block.get(..length).unwrap_or_default()),
            // The head may end in the middle of the stream.
            Err(_) if !text.is_empty() => break,
            Err(error) => {
                return Err(Failure::refused(format!("{name} is not the gzip that it begins as"))
                    .why(error.to_string())
                    .next("write the file again, and check it with `gzip --test`"));
            }
        }
    }
    Ok(text)
}

/// Returns the format of decoded content: the one that is `given`, or else the one that the first
/// character shows. Empty content is refused, and, if no format is given, content that is no
/// catalogue. `name` is for the error message.
fn form_of(text: &[u8], name: &str, given: Option<Form>) -> Result<Form, Failure> {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    let refused = |what: &str, why: &str, next: &str| {
        Err(Failure::refused(format!("{name} {what}")).why(why).next(next))
    };
    match (first, given) {
        (None, _) => refused(
            "is empty",
            "a catalogue without products is `[]`",
            "write the file again: the export may have failed",
        ),
        (Some(_), Some(given)) => Ok(given),
        (Some(b'['), None) => Ok(Form::Array),
        (Some(b'{'), None) => Ok(Form::Lines),
        (Some(0xff | 0xfe), None) => {
            refused("is not UTF-8", "its first bytes are those of UTF-16", "save it as UTF-8")
        }
        (Some(b'P'), None) if text.starts_with(b"PK") => refused(
            "is a ZIP or a spreadsheet",
            "a catalogue is JSON",
            "export JSON, and compress it with gzip if it is large",
        ),
        (Some(_), None) => refused(
            "is no catalogue",
            "it begins neither as an array ([) nor as an object a line ({); CSV is not accepted",
            "export JSON, or say --format if the file is JSON all the same",
        ),
    }
}

/// Finds the CNPJ of the first item, without punctuation; `None` if there is none. Leading zeros
/// are added, because a CNPJ that is written as a number lacks them.
fn establishment(text: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"\"cnpj\"";
    let at = text.windows(NAME.len()).position(|window| window.eq_ignore_ascii_case(NAME))?;
    let rest = text.get(at.checked_add(NAME.len())?..)?;
    let mut rest = rest.iter().copied().skip_while(u8::is_ascii_whitespace);
    if rest.next() != Some(b':') {
        return None;
    }
    let mut rest = rest.skip_while(u8::is_ascii_whitespace).peekable();
    let is_text = rest.next_if_eq(&b'"').is_some();
    let ends = move |byte: &u8| if is_text { *byte != b'"' } else { byte.is_ascii_digit() };
    let value = rest.take(40).take_while(ends).filter(u8::is_ascii_alphanumeric);
    let value: String = value.map(|byte| char::from(byte.to_ascii_uppercase())).collect();
    (!value.is_empty()).then(|| format!("{value:0>14}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn looked_at(bytes: &[u8], given: Option<Form>) -> Result<Content, Failure> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let mut last = 0;
        let content = Content::of(file.path(), "a.json", given, |read| last = read);
        if !bytes.is_empty() {
            assert_eq!(last, u64::try_from(bytes.len()).unwrap());
        }
        content
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(text).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn the_first_bytes_say_what_a_file_is() {
        let array = b"\xef\xbb\xbf \r\n[{\"CNPJ\": \"05.927.228/0001-45\", \"SHOPID\": 1}]";
        let lines = b"{\"shopid\": 1, \"cnpj\" : 5927228000145}\n";
        for (bytes, form, is_gzip, media_type) in [
            (array.to_vec(), Form::Array, false, ("application/json", None)),
            (gzip(array), Form::Array, true, ("application/gzip", None)),
            (lines.to_vec(), Form::Lines, false, ("application/x-ndjson", None)),
            (gzip(lines), Form::Lines, true, ("application/x-ndjson", Some("gzip"))),
        ] {
            let content = looked_at(&bytes, None).unwrap();
            assert_eq!((content.form, content.is_gzip), (form, is_gzip));
            assert_eq!(content.media_type(), media_type);
            assert_eq!(content.sha256, hex::encode(Sha256::digest(&bytes)));
            assert_eq!(content.establishment.as_deref(), Some("05927228000145"));
        }
    }

    #[test]
    fn what_is_said_wins_over_the_first_bytes() {
        assert_eq!(looked_at(b"[1]\n[2]\n", Some(Form::Lines)).unwrap().form, Form::Lines);
        assert_eq!(looked_at(b"x", Some(Form::Array)).unwrap().form, Form::Array);
    }

    #[test]
    fn what_is_no_catalogue_is_refused_before_it_is_sent() {
        for (bytes, word) in [
            (&b""[..], "is empty"),
            (b" \r\n", "is empty"),
            (b"CNPJ;SHOPID\n1;2\n", "is no catalogue"),
            (b"\xff\xfe[\0", "is not UTF-8"),
            (b"PK\x03\x04", "ZIP"),
            (b"\x1f\x8b\x08no gzip", "gzip"),
        ] {
            let failure = looked_at(bytes, None).unwrap_err();
            assert!(failure.what.contains(word) && failure.exit.code() == 6, "{failure}");
        }
    }

    #[test]
    fn a_file_of_many_blocks_is_hashed_whole() {
        let mut bytes = vec![b' '; 3 * BLOCK + 17];
        bytes[0] = b'[';
        let content = looked_at(&bytes, None).unwrap();
        assert_eq!(content.sha256, hex::encode(Sha256::digest(&bytes)));
        assert_eq!((content.bytes, content.establishment), (u64::try_from(bytes.len()).unwrap(), None));
        // Only the beginning of a long gzip is inflated.
        let noise: Vec<u8> =
            (0..400_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let long = gzip(&[b"[", noise.as_slice()].concat());
        assert!(long.len() > BLOCK);
        assert_eq!(looked_at(&long, None).unwrap().form, Form::Array);
    }

    #[test]
    fn an_establishment_that_cannot_be_found_is_none() {
        for text in ["[]", "{\"CNPJ\"}", "{\"CNPJ\": null}", "{\"CNPJ\": \"\"}", "{\"CNPJ\""] {
            assert_eq!(establishment(text.as_bytes()), None, "{text}");
        }
        assert_eq!(establishment(b"{\"Cnpj\":\"12.ABC.345/01DE-35\"}").as_deref(), Some("12ABC34501DE35"));
    }
}
