//! Uploads to S3 and downloads from it by signed URLs, for catalogues, message bodies and reports.
//! These requests carry no API key.

mod pace;

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_smithy_types::body::SdkBody;
use bytes::BytesMut;
use http::{Method, Request};
use http_body_util::channel::{Channel, Sender};
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

use self::pace::Pace;
use crate::api::http::{self as client, Http, HttpError};
use crate::api::{Api, Call, Refusal};
use crate::exit::{Exit, Failure, chain};

/// Time limit of an upload: enough for the largest file that S3 takes in one request, on a slow
/// line.
const UPLOAD: Duration = Duration::from_secs(12 * 60 * 60);
/// Time without progress after which an upload has failed.
const STALL: Duration = Duration::from_secs(120);
/// Interval at which an upload's progress is checked.
const LOOK: Duration = Duration::from_secs(5);
/// Time limit for the response headers of a download from S3. The body may take longer.
const DOWNLOAD: Duration = Duration::from_secs(60);
/// Maximum number of bytes of a file that are read and sent at a time.
const BLOCK: usize = 256 * 1024;
/// Maximum number of bytes that are read of an error response from S3.
const MAX_ERROR: usize = 64 * 1024;

/// Text for an error response of S3 that has no error code.
const WITHOUT_CODE: &str = "without a code";

/// HTTP client that uploads files to S3 and downloads files from it.
#[derive(Debug)]
pub(crate) struct Storage {
    http: Http,
    pace: Option<Pace>,
}

/// Signed S3 URL from a response of the API, with the headers that a request to it must have.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Signed {
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) headers: std::collections::BTreeMap<String, String>,
}

/// Reason why a file was not uploaded to S3.
#[derive(Debug)]
pub(crate) enum PutError {
    /// The upload URL has expired.
    Expired,
    /// The attempt failed, but another may succeed. The text is the reason.
    Temporary(String),
    /// S3 refused the file because it differs from the announced one, or the rate limit makes the
    /// upload too slow.
    Refused(Failure),
}

impl PutError {
    /// Returns the reason of the failure as text if the upload may be tried again.
    ///
    /// # Errors
    /// If another attempt cannot succeed.
    pub(crate) fn or_refused(self) -> Result<String, Failure> {
        match self {
            Self::Refused(failure) => Err(failure),
            Self::Expired => Ok("the URL of the upload is not valid any more".to_owned()),
            Self::Temporary(what) => Ok(what),
        }
    }
}

/// Number of failed attempts of an upload, and the sum of the pauses after them. Each attempt needs
/// a new URL.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    number: u32,
    waited: Duration,
}

impl Attempts {
    /// Waits for the next attempt, and returns true; false at once if no time is left for it. The
    /// callback of `api` is told `what`, the reason of the last failure.
    pub(crate) async fn wait(&mut self, api: &Api, what: &str) -> bool {
        let Some(pause) = api.schedule().pause(self.number, None, self.waited, fastrand::f64()) else {
            return false;
        };
        api.tell(what, pause);
        tokio::time::sleep(pause).await;
        self.waited = self.waited.saturating_add(pause);
        self.number = self.number.saturating_add(1);
        true
    }
}

impl Storage {
    /// Creates a client without a rate limit.
    pub(crate) fn new() -> Self {
        Self { http: Http::new(UPLOAD), pace: None }
    }

    /// Returns the client with a rate limit for all its uploads together, in bytes per second.
    #[must_use]
    pub(crate) fn at_most(self, per_second: Option<NonZeroU64>) -> Self {
        let pace = per_second.map(Pace::new);
        Self { pace, ..self }
    }

    /// Uploads the first `length` bytes of a file. If the object exists already, the upload counts
    /// as done, because the signed URL admits only the announced content. `sent` is called with the
    /// number of bytes sent so far.
    ///
    /// # Errors
    /// If S3 did not confirm the object.
    pub(crate) async fn put(
        &self,
        signed: &Signed,
        path: &Path,
        length: u64,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), PutError> {
        if let Some(pace) = self.pace.as_ref().filter(|pace| length / pace.per_second > UPLOAD.as_secs()) {
            return Err(PutError::Refused(too_slow(pace)));
        }
        let (feeder, body) = Channel::<_, io::Error>::new(4);
        let mut request = Request::builder().method(Method::PUT).uri(&signed.url);
        for (name, value) in &signed.headers {
            if !name.eq_ignore_ascii_case("content-length") && !name.eq_ignore_ascii_case("host") {
                request = request.header(name, value);
            }
        }
        let request = request.header("content-length", length).body(SdkBody::from_body_1_x(body));
        let request = request.map_err(|error| PutError::Temporary(chain(&error)))?;

        let gone = AtomicU64::new(0);
        let progress = |bytes| {
            gone.store(bytes, Ordering::Relaxed);
            sent(bytes);
        };
        let feeding = async {
            feed(feeder, path, length, self.pace.as_ref(), &progress).await;
            pending::<Infallible>().await
        };
        let response = tokio::select! {
            response = self.http.send(request) => response.map_err(|error| PutError::Temporary(chain(&error)))?,
            never = feeding => match never {},
            () = stalled(&gone) => return Err(PutError::Temporary("the upload does not go on".to_owned())),
        };
        let status = response.status().as_u16();
        if matches!(status, 200..300 | 412) {
            return Ok(());
        }
        let text = client::collect(response.into_body(), MAX_ERROR).await.unwrap_or_default();
        Err(refused(status, &String::from_utf8_lossy(&text)))
    }

    /// Downloads a file, and returns its body as a stream.
    ///
    /// # Errors
    /// If the file cannot be downloaded.
    pub(crate) async fn get(&self, url: &str) -> Result<SdkBody, Failure> {
        let unavailable = |why: String| {
            Failure::new(Exit::Temporary, "the file cannot be downloaded")
                .why(why)
                .next("run the same command again")
        };
        let request = Request::get(url).body(SdkBody::empty());
        let request = request.map_err(|error| unavailable(chain(&error)))?;
        let response = tokio::time::timeout(DOWNLOAD, self.http.send(request)).await;
        let response = response.map_err(|_| unavailable("S3 does not answer".to_owned()))?;
        let response = response.map_err(|error| unavailable(chain(&error)))?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        let status = response.status().as_u16();
        let text = client::collect(response.into_body(), MAX_ERROR).await.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let (code, message) = parts(&text);
        Err(unavailable(format!("S3 answered {status} {code}: {message}")))
    }
}

/// Reads the first `length` bytes of a file, and passes them to `feeder` as an upload's body.
async fn feed(
    mut feeder: Sender<bytes::Bytes, io::Error>,
    path: &Path,
    length: u64,
    pace: Option<&Pace>,
    sent: &impl Fn(u64),
) {
    let size = pace.map_or(BLOCK, Pace::block);
    let fed = async {
        let mut file = File::open(path).await?.take(length);
        let mut total = 0_u64;
        loop {
            let mut block = BytesMut::with_capacity(size);
            let read = file.read_buf(&mut block).await?;
            if read == 0 {
                break;
            }
            let bytes = u64::try_from(read).unwrap_or(u64::MAX);
            if let Some(pace) = pace {
                pace.wait(bytes).await;
            }
            // Nobody takes it once the server has answered.
            if feeder.send_data(block.freeze()).await.is_err() {
                return Ok(());
            }
            total = total.saturating_add(bytes);
            sent(total);
        }
        if total == length { Ok(()) } else { Err(io::Error::other("the file became shorter")) }
    };
    if let Err(error) = fed.await {
        feeder.abort(error);
    }
}

/// Completes when the number of sent bytes, `gone`, has not changed for two minutes.
async fn stalled(gone: &AtomicU64) {
    let (mut last, mut since) = (gone.load(Ordering::Relaxed), Duration::ZERO);
    while since < STALL {
        tokio::time::sleep(LOOK).await;
        let now = gone.load(Ordering::Relaxed);
        since = if now == last { since.saturating_add(LOOK) } else { Duration::ZERO };
        last = now;
    }
}

/// Builds the failure of an upload that would exceed its time limit because of `--bwlimit`.
fn too_slow(pace: &Pace) -> Failure {
    let hours = UPLOAD.as_secs() / 3600;
    Failure::refused(format!("the upload would take more than {hours} hours, which is the longest time"))
        .why(format!("--bwlimit allows {} bytes a second", pace.per_second))
        .next("raise --bwlimit, and run the same command again")
}

/// Converts an error response of S3 into the error of an upload.
fn refused(status: u16, text: &str) -> PutError {
    let (code, message) = parts(text);
    let said = format!("S3 answered {status} {code}: {message}");
    match (status, code) {
        (403, "AccessDenied" | "ExpiredToken" | "RequestExpired") => PutError::Expired,
        // An answer without a code is that of a proxy.
        (403 | 400 | 411 | 413, _) if !matches!(code, "RequestTimeout" | WITHOUT_CODE) => PutError::Refused(
            Failure::refused("the file is not the one that was announced")
                .why(said)
                .next("let nothing write to the file while it is sent, and run the same command again"),
        ),
        _ => PutError::Temporary(said),
    }
}

/// Returns the code and the message in an XML error response of S3.
fn parts(text: &str) -> (&str, &str) {
    let between = |begin: &str, end: &str| {
        let (_, rest) = text.split_once(begin)?;
        Some(rest.split_once(end)?.0)
    };
    let code = between("<Code>", "</Code>").unwrap_or(WITHOUT_CODE);
    (code, between("<Message>", "</Message>").unwrap_or("without a message"))
}

/// Downloads the S3 object to which a path of the API redirects, as a stream. `what` names the file
/// in failures.
///
/// # Errors
/// If the API or S3 does not return the file.
pub(crate) async fn behind(api: &Api, path: &str, what: &str) -> Result<SdkBody, Refusal> {
    let redirect = api.send(&Call::get(path)).await?;
    let location = redirect
        .header("location")
        .ok_or_else(|| Failure::new(Exit::Error, format!("the API does not say where {what} is")))?;
    Ok(Storage::new().get(location).await?)
}

/// Passes the bytes of a response body to `take` as they arrive, in order.
///
/// # Errors
/// If the download breaks off, or `take` returns an error.
pub(crate) async fn each_part(
    mut body: SdkBody,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let broken = |error: HttpError| {
        Failure::new(Exit::Temporary, "the download broke off")
            .why(chain(&error))
            .next("run the same command again")
    };
    while let Some(part) = client::next(&mut body).await.map_err(broken)? {
        take(&part)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use test_support::http_server::{self, Server};

    use super::*;

    const EXPIRED: &str = "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>";
    const DIGEST: &str = "<Error><Code>BadDigest</Code><Message>The SHA256 …</Message></Error>";

    async fn put(
        status: u16,
        answer: &'static str,
        content: &[u8],
        length: u64,
    ) -> (Result<(), PutError>, Vec<u8>, u64) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let bodies = Arc::clone(&seen);
        let server = Server::start(move |request| {
            assert_eq!(request.headers()["x-amz-meta-batch-id"], "b");
            assert!(!request.headers().contains_key("x-api-key"));
            assert_eq!(
                request.headers()["content-length"].to_str().unwrap(),
                request.body().len().to_string()
            );
            *bodies.lock().unwrap() = request.into_body().to_vec();
            async move { Some(http_server::response(status, answer)) }
        })
        .await;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut file, content).unwrap();
        let headers = [("x-amz-meta-batch-id", "b"), ("content-length", "999"), ("host", "elsewhere")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let signed = Signed { url: format!("{}/object?X-Amz-Signature=1", server.url()), headers };
        let last = AtomicU64::new(0);
        let sent = |bytes| last.store(bytes, Ordering::Relaxed);
        let result = Storage::new().put(&signed, file.path(), length, &sent).await;
        let body = seen.lock().unwrap().clone();
        (result, body, last.into_inner())
    }

    #[tokio::test]
    async fn a_file_of_many_blocks_arrives_whole() {
        let content: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
        let (result, body, sent) = put(200, "", &content, 3_000_000).await;
        result.unwrap();
        assert!(body == content);
        assert_eq!(sent, 3_000_000);
    }

    #[tokio::test]
    async fn an_upload_that_cannot_end_in_time_is_refused() {
        let signed =
            Signed { url: "http://127.0.0.1:1/".to_owned(), headers: std::collections::BTreeMap::new() };
        let storage = Storage::new().at_most(NonZeroU64::new(1024));
        let put = storage.put(&signed, Path::new("/nowhere"), 50 << 20, &|_| ()).await;
        let Err(PutError::Refused(failure)) = put else { panic!("it is refused") };
        assert!(failure.next.unwrap().contains("--bwlimit"));
    }

    #[tokio::test]
    async fn an_object_that_is_there_counts_as_put() {
        put(412, "<Error><Code>PreconditionFailed</Code></Error>", b"x", 1).await.0.unwrap();
    }

    #[tokio::test]
    async fn faults_of_s3_are_told_apart() {
        assert!(matches!(put(403, EXPIRED, b"x", 1).await.0, Err(PutError::Expired)));
        let Err(PutError::Refused(failure)) = put(400, DIGEST, b"x", 1).await.0 else {
            panic!("it is refused")
        };
        assert!(failure.why.unwrap().contains("400 BadDigest"));
        assert!(matches!(put(503, "", b"x", 1).await.0, Err(PutError::Temporary(_))));
        assert!(matches!(put(403, "<html>", b"x", 1).await.0, Err(PutError::Temporary(_))), "a proxy");
    }

    #[tokio::test]
    async fn a_file_that_became_shorter_is_not_sent_as_whole() {
        let (result, body, _) = put(200, "", b"short", 6).await;
        assert!(matches!(result, Err(PutError::Temporary(_))), "{result:?}");
        assert!(body.is_empty());
    }
}
