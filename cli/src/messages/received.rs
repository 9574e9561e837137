//! Received messages, printed as each response arrives.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::format::Template;
use crate::api::Api;
use crate::args::ShowArgs;
use crate::exit::{Explain as _, Failure};
use crate::member::{plain, text};
use crate::output::{Format, Output};
use crate::storage;

/// Maximum number of messages in the single JSON document of `--output json`.
const MOST_AT_ONCE: u64 = 10_000;

const MESSAGE: &str = "integrahub.message.v1";
const MESSAGES: &str = "integrahub.messages.v1";

/// Message that a consume or browse returned, with its body as bytes.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) json: Value,
    pub(crate) body: Vec<u8>,
    pub(crate) queue: String,
    /// Number of the message among all that the command has received, counted from 1.
    pub(crate) number: u64,
}

impl Received {
    /// Returns the headers as text: `a=1,b=x`.
    pub(super) fn headers(&self) -> String {
        let headers = self.json.get("headers").and_then(Value::as_object);
        let shown = headers.into_iter().flatten().map(|(name, value)| format!("{name}={}", plain(value)));
        shown.collect::<Vec<_>>().join(",")
    }
}

/// Writer that prints received messages on standard output.
#[derive(Debug)]
pub(crate) struct Shown {
    template: Template,
    /// Messages received so far if the output is a single JSON document, which is written at the
    /// end; empty for other formats.
    kept: Vec<Value>,
    count: u64,
}

impl Shown {
    /// Creates the writer of a command that receives up to `most` messages.
    ///
    /// # Errors
    /// If the format cannot be used, or a single JSON document would have too many messages.
    pub(crate) fn begin(args: &ShowArgs, most: u64, out: &Output) -> Result<Self, Failure> {
        if out.format() == Format::Json && most > MOST_AT_ONCE {
            return Err(Failure::usage(format!("one JSON document has at most {MOST_AT_ONCE} messages"))
                .next("use --output ndjson, or --max"));
        }
        let template = Template::parse(args.format.as_deref().unwrap_or("%s\\n"))?;
        Ok(Self { template, kept: Vec::new(), count: 0 })
    }

    /// Returns the number of messages that the command has received so far.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Writes the messages of a response, or keeps them for a single JSON document at the end.
    ///
    /// # Errors
    /// If a body cannot be downloaded.
    pub(crate) async fn add(
        &mut self,
        api: &Api,
        answer: &mut Value,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let queue = text(answer, "target").rsplit_once(':').map_or("", |(_, queue)| queue).to_owned();
        let messages = answer.get_mut("messages").and_then(Value::as_array_mut).map(std::mem::take);
        for json in messages.unwrap_or_default() {
            self.count = self.count.saturating_add(1);
            match out.format() {
                Format::Json => self.kept.push(json),
                Format::Ndjson => out.json(MESSAGE, &json),
                Format::Text => {
                    let body = body(api, &json).await?;
                    let message = Received { json, body, queue: queue.clone(), number: self.count };
                    // The output remembers what it could not write.
                    let _remembered = self.template.show(&message, out);
                }
            }
        }
        out.flush();
        Ok(())
    }

    /// Ends the output. If the format is a single JSON document, writes it with `key`, the
    /// idempotency key of the command.
    pub(crate) fn end(self, key: Option<&str>, out: &mut Output) {
        if out.format() == Format::Json {
            let mut document = Map::new();
            document.insert("count".to_owned(), json!(self.count));
            document.insert("key".to_owned(), json!(key));
            document.insert("messages".to_owned(), Value::Array(self.kept));
            out.json(MESSAGES, &Value::Object(document));
        }
    }
}

/// Returns the body of a received message. A large body is downloaded from S3 by the URL in the
/// message.
async fn body(api: &Api, message: &Value) -> Result<Vec<u8>, Failure> {
    let Some(path) = message.get("bodyUrl").and_then(Value::as_str) else {
        return STANDARD
            .decode(text(message, "bodyBase64"))
            .or_explain(|| "decode the body of a message".to_owned());
    };
    let stored = storage::behind(api, path, "the body of a message").await?;
    let mut body = Vec::new();
    storage::each_part(stored, |part| {
        body.extend_from_slice(part);
        Ok(())
    })
    .await?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::memory::output;

    #[test]
    fn a_document_without_end_is_refused() {
        let (out, ..) = output(Format::Json, None);
        assert_eq!(Shown::begin(&ShowArgs::default(), MOST_AT_ONCE + 1, &out).unwrap_err().exit.code(), 2);
    }
}
