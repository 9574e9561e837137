//! Items in error of a batch, which were not loaded. They are read from the batch's file in S3 and
//! from a list of the API.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use serde_json::Value;

use super::{Batch, path};
use crate::api::{Api, List};
use crate::exit::{Exit, Explain as _, Failure};
use crate::storage;

/// Number of items in error on a page of the API's list, as the value of its query parameter.
const PAGE: &str = "1000";
/// Error code of items that the database rejected. The batch's file of items in error does not
/// contain such items.
const OF_THE_DATABASE: &str = "REJECTED_BY_DATABASE";
/// Maximum number of bytes of a line in a batch's file of items in error. A line has an item of up
/// to 256 KiB, escaped, and its error.
const MAX_LINE: usize = 4 * 1024 * 1024;

/// Passes each item in error of a batch to `take`, and returns their number. Items in the batch's
/// file come first, with their content. Items that only the API's list has follow.
///
/// # Errors
/// If the API or S3 does not return them, or if `take` fails.
pub(crate) async fn each(
    api: &Api,
    batch: &Batch,
    mut take: impl FnMut(Value) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut count = 0_u64;
    let mut counted = |item| {
        count = count.saturating_add(1);
        take(item)
    };
    let has_file = match &batch.errors_url {
        Some(url) => of_file(api, url, &mut counted).await?,
        None => false,
    };
    of_list(api, batch, has_file, &mut counted).await?;
    Ok(count)
}

/// Passes each item in a batch's file of items in error to `take`; returns false if the file has
/// been deleted.
async fn of_file(
    api: &Api,
    url: &str,
    take: &mut impl FnMut(Value) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let body = match storage::behind(api, url, "the file of the items in error").await {
        Ok(body) => body,
        Err(refusal) if refusal.is("ERRORS_FILE_NOT_FOUND") => return Ok(false),
        Err(refusal) => return Err(refusal.into()),
    };
    let mut lines = Inflating::default();
    storage::each_part(body, |part| lines.take(part, take)).await?;
    lines.end(take)?;
    Ok(true)
}

/// Reads the API's list of items in error page by page, and passes the items to `take`. If
/// `has_file` is true, only items that the database rejected are passed, because the batch's file
/// has all others.
async fn of_list(
    api: &Api,
    batch: &Batch,
    has_file: bool,
    take: &mut impl FnMut(Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if batch.items_failed == 0 {
        return Ok(());
    }
    let path = format!("{}/errors", path(&batch.batch_id));
    let list = List { path: &path, filters: vec![("limit", PAGE)], items: "errors", next: "next_cursor" };
    let counts =
        |item: &Value| !has_file || item.get("code").and_then(Value::as_str) == Some(OF_THE_DATABASE);
    list.each_page(api, |items| {
        items.into_iter().filter(counts).try_for_each(&mut *take)?;
        Ok(true)
    })
    .await
}

/// Decoder of a batch's file of items in error. It receives the file part by part, inflates it if
/// it is gzip, and splits it into lines.
#[derive(Debug, Default)]
struct Inflating {
    /// First bytes of the file, kept until there are enough to see whether the file is gzip; empty
    /// afterwards.
    head: Vec<u8>,
    gzip: Option<MultiGzDecoder<Vec<u8>>>,
    plain: Vec<u8>,
    is_decided: bool,
}

impl Inflating {
    fn take(
        &mut self,
        part: &[u8],
        take: &mut impl FnMut(Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.is_decided {
            self.write(part)?;
        } else {
            self.head.extend_from_slice(part);
            if self.head.len() < 2 {
                return Ok(());
            }
            self.decide()?;
        }
        self.lines(take)
    }

    fn decide(&mut self) -> Result<(), Failure> {
        self.is_decided = true;
        self.gzip = self.head.starts_with(&[0x1f, 0x8b]).then(|| MultiGzDecoder::new(Vec::new()));
        let head = std::mem::take(&mut self.head);
        self.write(&head)
    }

    fn write(&mut self, part: &[u8]) -> Result<(), Failure> {
        let written: io::Result<()> = match &mut self.gzip {
            Some(gzip) => gzip.write_all(part),
            None => self.plain.write_all(part),
        };
        written.or_explain(|| "inflate the file of the items in error".to_owned())
    }

    /// Passes the items in the complete lines that were received so far to `take`.
    fn lines(&mut self, take: &mut impl FnMut(Value) -> Result<(), Failure>) -> Result<(), Failure> {
        let text = match &mut self.gzip {
            Some(gzip) => gzip.get_mut(),
            None => &mut self.plain,
        };
        let Some(end) = text.iter().rposition(|&byte| byte == b'\n') else {
            if text.len() > MAX_LINE {
                return Err(Failure::new(
                    Exit::Error,
                    "the file of the items in error has a line without end",
                ));
            }
            return Ok(());
        };
        let rest = text.split_off(end.saturating_add(1));
        let whole = std::mem::replace(text, rest);
        whole.split(|&byte| byte == b'\n').try_for_each(|line| one(line, take))
    }

    fn end(mut self, take: &mut impl FnMut(Value) -> Result<(), Failure>) -> Result<(), Failure> {
        if !self.is_decided {
            self.decide()?;
        }
        if let Some(gzip) = &mut self.gzip {
            gzip.try_finish().or_explain(|| "inflate the file of the items in error".to_owned())?;
        }
        self.lines(take)?;
        let rest = self.gzip.map_or(Ok(self.plain), MultiGzDecoder::finish);
        let rest = rest.or_explain(|| "inflate the file of the items in error".to_owned())?;
        one(&rest, take)
    }
}

fn one(line: &[u8], take: &mut impl FnMut(Value) -> Result<(), Failure>) -> Result<(), Failure> {
    if line.is_empty() {
        return Ok(());
    }
    take(serde_json::from_slice(line).or_explain(|| "read a line of the items in error".to_owned())?)
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::json;
    use test_support::http_server::{self, Server};

    use super::*;
    use crate::api::Schedule;

    fn gzip(text: &str) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(text.as_bytes()).unwrap();
        gzip.finish().unwrap()
    }

    fn read(file: &[u8], part: usize) -> Result<Vec<Value>, Failure> {
        let mut items = Vec::new();
        let mut take = |item| {
            items.push(item);
            Ok(())
        };
        let mut lines = Inflating::default();
        for part in file.chunks(part) {
            lines.take(part, &mut take)?;
        }
        lines.end(&mut take)?;
        Ok(items)
    }

    #[test]
    fn lines_are_read_however_they_come() {
        let expected: Vec<Value> =
            (0..50).map(|index| json!({"item_index": index, "item": "x\ny"})).collect();
        let text: String = expected.iter().map(|item| format!("{item}\n")).collect();
        for file in [text.clone().into_bytes(), gzip(&text), gzip(text.trim_end())] {
            for part in [1, 7, file.len()] {
                assert_eq!(read(&file, part).unwrap(), expected, "in parts of {part}");
            }
        }
        assert_eq!(read(b"", 1).unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn a_file_that_breaks_off_is_an_error() {
        let file = gzip("{\"a\": 1}\n{\"a\": 2}\n");
        assert!(read(&file[..file.len() - 9], 5).is_err());
        assert!(read(b"{\"a\": ", 5).is_err());
    }

    #[tokio::test]
    async fn the_file_comes_first_and_then_what_the_database_refused() {
        let server = Server::start(|request| async move {
            let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default());
            let item = |index: u32, code: &str| json!({"item_index": index, "code": code});
            let answer = match (path.as_str(), query) {
                ("/v1/inovafarma/batches/b/errors.ndjson", _) => {
                    let mut redirect = http_server::response(303, "{}");
                    let host = request.headers()["host"].to_str().unwrap();
                    let location = format!("http://{host}/file").parse().unwrap();
                    redirect.headers_mut().insert("location", location);
                    redirect
                }
                ("/file", _) => {
                    assert!(!request.headers().contains_key("x-api-key"));
                    http_server::response(200, gzip(&format!("{}\n", item(0, "CNPJ_INVALID"))))
                }
                (_, "limit=1000") => {
                    let page = json!({"errors": [item(0, "CNPJ_INVALID"), item(1, "REJECTED_BY_DATABASE")],
                        "next_cursor": "c1"});
                    http_server::response(200, page.to_string())
                }
                (_, "limit=1000&cursor=c1") => {
                    let page = json!({"errors": [item(2, "REJECTED_BY_DATABASE")], "next_cursor": null});
                    http_server::response(200, page.to_string())
                }
                other => panic!("{other:?}"),
            };
            Some(answer)
        })
        .await;
        let key = "k".to_owned().into();
        let schedule = Schedule::within(std::time::Duration::from_secs(1));
        let api = Api::at(&server.url().parse().unwrap(), Some(&key), schedule).unwrap();
        let errors_url = Some("/v1/inovafarma/batches/b/errors.ndjson".to_owned());
        let mut batch = Batch { batch_id: "b".to_owned(), items_failed: 3, errors_url, ..Batch::default() };
        let indices = async |batch: &Batch| {
            let mut indices = Vec::new();
            let count = each(&api, batch, |item| {
                indices.push(item["item_index"].as_u64().unwrap());
                Ok(())
            });
            assert_eq!(count.await.unwrap(), u64::try_from(indices.len()).unwrap());
            indices
        };
        assert_eq!(indices(&batch).await, [0, 1, 2]);
        batch.errors_url = None;
        assert_eq!(indices(&batch).await, [0, 1, 2], "without a file the list has them all");
    }
}
