//! Message bodies from options and files, grouped into produce requests.

use std::io::Write as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use crate::api::{Api, Call, Refusal};
use crate::args::Produce;
use crate::exit::{Exit, Explain as _, Failure};
use crate::input;
use crate::storage::{Attempts, Signed, Storage};

const BODIES: &str = "/messages/bodies";
/// Maximum number of bytes of a message body that can be uploaded.
const MAX_BODY: u64 = 32 * 1024 * 1024;
/// Maximum number of bytes of a message inside a request, as JSON. A request has at most 4 MB.
const MAX_INLINE: usize = 3_000_000;
/// Maximum number of bytes of all messages in one produce request, as JSON.
const PART_BYTES: usize = 3_000_000;
/// Maximum number of messages in one produce request.
const PART_COUNT: usize = 10_000;

/// Message to produce: inside the request, or with its body uploaded to S3 before.
#[derive(Debug)]
pub(super) enum Body {
    /// Small message that the request itself contains, as JSON.
    Inline(Value),
    /// Body of a message that is uploaded to S3 before the message is put, because it is too large
    /// for a request.
    Stored(Vec<u8>),
}

/// Reader of the messages to produce from options and files. It reads them as they are needed, and
/// groups them into requests.
pub(super) struct Parts {
    texts: std::vec::IntoIter<String>,
    files: std::vec::IntoIter<PathBuf>,
    by_line: bool,
    lines: Option<(String, Box<dyn AsyncBufRead + Unpin>)>,
    /// Message that did not fit into the last request, and begins the next one; `None` if there is
    /// none.
    left: Option<Body>,
}

impl Parts {
    pub(super) fn of(args: &Produce) -> Self {
        Self {
            texts: args.body.clone().into_iter(),
            files: args.files.clone().into_iter(),
            by_line: args.lines,
            lines: None,
            left: None,
        }
    }

    /// Returns the messages of the next request; `None` if there are no more. The same input is
    /// always grouped in the same way, so that the same command with the same key repeats the same
    /// requests.
    ///
    /// # Errors
    /// If a file cannot be read, or a message is too large.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Body>>, Failure> {
        let (mut part, mut bytes) = (Vec::new(), 0_usize);
        while part.len() < PART_COUNT {
            let body = match self.left.take() {
                Some(body) => Some(body),
                None => self.body().await?,
            };
            let Some(body) = body else { break };
            // What is uploaded goes alone: the bodies of a request have a limit together.
            let size = match &body {
                Body::Inline(message) => message.to_string().len(),
                Body::Stored(_) => PART_BYTES,
            };
            if !part.is_empty() && bytes.saturating_add(size) > PART_BYTES {
                self.left = Some(body);
                break;
            }
            bytes = bytes.saturating_add(size);
            part.push(body);
        }
        Ok((!part.is_empty()).then_some(part))
    }

    async fn body(&mut self) -> Result<Option<Body>, Failure> {
        if let Some(text) = self.texts.next() {
            return Ok(Some(of(text.into_bytes())));
        }
        loop {
            if let Some((name, lines)) = &mut self.lines {
                match line(name, lines).await? {
                    Some(line) => return Ok(Some(of(line))),
                    None => self.lines = None,
                }
            }
            let Some(path) = self.files.next() else { return Ok(None) };
            if !self.by_line {
                return Ok(Some(of(input::read(&path, MAX_BODY).await?)));
            }
            let name = path.display().to_string();
            let lines: Box<dyn AsyncBufRead + Unpin> = if input::is_stdin(&path) {
                Box::new(BufReader::new(tokio::io::stdin()))
            } else {
                let file = tokio::fs::File::open(&path).await.or_explain(|| format!("open {name}"))?;
                Box::new(BufReader::new(file))
            };
            self.lines = Some((name, lines));
        }
    }
}

/// Reads the next non-empty line of the file `name`, without its line end; `None` at the end of the
/// file.
async fn line(name: &str, lines: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Vec<u8>>, Failure> {
    loop {
        let mut line = Vec::new();
        let read = lines.take(MAX_BODY.saturating_add(1)).read_until(b'\n', &mut line).await;
        if read.or_explain(|| format!("read {name}"))? == 0 {
            return Ok(None);
        }
        if u64::try_from(line.len()).is_ok_and(|length| length > MAX_BODY) {
            return Err(Failure::refused(format!("a line of {name} is too large"))
                .why(format!("a message has at most {MAX_BODY} bytes")));
        }
        while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            line.pop();
        }
        if !line.is_empty() {
            return Ok(Some(line));
        }
    }
}

/// Builds a message from its body: as text if it is UTF-8, otherwise as base64. A message that is
/// too large for a request becomes [`Body::Stored`].
fn of(bytes: Vec<u8>) -> Body {
    let message = match String::from_utf8(bytes) {
        Ok(text) => json!({"bodyText": text}),
        Err(error) => {
            let bytes = error.into_bytes();
            if bytes.len() > MAX_INLINE / 4 * 3 {
                return Body::Stored(bytes);
            }
            json!({"bodyBase64": STANDARD.encode(bytes)})
        }
    };
    if message.to_string().len() <= MAX_INLINE {
        return Body::Inline(message);
    }
    match message {
        Value::Object(mut members) => match members.remove("bodyText") {
            Some(Value::String(text)) => Body::Stored(text.into_bytes()),
            _ => Body::Inline(members.into()),
        },
        other => Body::Inline(other),
    }
}

/// Uploads a message body to S3, and returns the API's response to the announcement of the upload.
///
/// # Errors
/// If the API or S3 does not accept the body.
pub(super) async fn upload(api: &Api, storage: &Storage, bytes: &[u8]) -> Result<Value, Refusal> {
    let explain = || "upload the body of a message".to_owned();
    let announcement = json!({"size": bytes.len(), "sha256": hex::encode(Sha256::digest(bytes))});
    let call = Call::read(BODIES, &announcement);
    let mut file = NamedTempFile::new().or_explain(explain)?;
    file.write_all(bytes).or_explain(explain)?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let mut attempts = Attempts::default();
    loop {
        let answer = api.send(&call).await?.json()?;
        let signed = Signed::deserialize(answer.get("upload").unwrap_or(&Value::Null)).or_explain(explain)?;
        let Err(error) = storage.put(&signed, file.path(), length, &|_| ()).await else {
            return Ok(answer);
        };
        let what = error.or_refused()?;
        if !attempts.wait(api, &what).await {
            return Err(Failure::new(Exit::Temporary, "the body of a message could not be uploaded")
                .why(what)
                .into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_text_bytes_or_an_upload() {
        assert!(matches!(of(b"a".to_vec()), Body::Inline(message) if message == json!({"bodyText": "a"})));
        assert!(matches!(of(vec![0xff]), Body::Inline(message) if message == json!({"bodyBase64": "/w=="})));
        assert!(matches!(of(vec![b'a'; MAX_INLINE - 100]), Body::Inline(_)));
        assert!(matches!(of(vec![b'a'; MAX_INLINE]), Body::Stored(bytes) if bytes.len() == MAX_INLINE));
        assert!(matches!(of(vec![b'"'; MAX_INLINE - 100]), Body::Stored(_)), "its escapes count");
        assert!(matches!(of(vec![0xff; MAX_INLINE]), Body::Stored(_)));
        assert!(matches!(of(vec![0xff; MAX_INLINE / 4 * 3 - 100]), Body::Inline(_)));
    }

    #[tokio::test]
    async fn a_part_is_never_larger_than_a_request() {
        let texts = vec![
            "x".repeat(1_400_000),
            "y".repeat(1_400_000),
            "z".repeat(1_400_000),
            "w".repeat(5_000_000),
            "v".to_owned(),
        ];
        let mut parts = Parts {
            texts: texts.into_iter(),
            files: Vec::new().into_iter(),
            by_line: false,
            lines: None,
            left: None,
        };
        let mut counts = Vec::new();
        while let Some(part) = parts.next().await.unwrap() {
            counts.push(part.len());
        }
        assert_eq!(counts, [2, 1, 1, 1], "what is uploaded goes alone");
    }
}
