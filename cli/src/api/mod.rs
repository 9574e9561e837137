//! Client of a deployment's API. Requests are bounded in time and size. Failed requests are retried
//! with the same idempotency key where that is safe.

mod call;
pub(crate) mod http;
mod list;
mod problem;
mod retry;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use ::http::{HeaderMap, HeaderValue, Method, Request};
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use url::Url;
use uuid::Uuid;

pub(crate) use self::call::call;
use self::http::{Http, HttpError};
pub(crate) use self::list::List;
use self::problem::Problem;
pub(crate) use self::problem::Refusal;
pub(crate) use self::retry::Schedule;
use crate::context::Context;
use crate::exit::{Explain as _, Failure};

/// Maximum number of bytes that are read of a response body. A response of Lambda has at most 6 MB.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// Time to wait for a response once the request is sent: more than the 30 s after which API Gateway
/// gives up.
const PATIENCE: Duration = Duration::from_secs(40);
/// Lowest upload speed, in bytes per second, with which a request still meets its time limit.
const SLOWEST: u64 = 16_000;
/// Time limit of a request with the largest body, at the minimum upload speed, including its
/// response.
const LONGEST: Duration = Duration::from_secs(1_200);
/// Default time after the first attempt of a request within which the last retry has to begin.
const TRIES: Duration = Duration::from_secs(60);

/// Callback before each retry of a request, with the reason of the failure and the pause before the
/// retry.
pub(crate) type OnRetry = Box<dyn Fn(&str, Duration) + Send + Sync>;

/// Client of a deployment's API, with the caller's credentials.
pub(crate) struct Api {
    http: Http,
    base: String,
    key: Option<HeaderValue>,
    source_of_key: String,
    program: String,
    schedule: Schedule,
    on_retry: OnRetry,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("base", &self.base).finish_non_exhaustive()
    }
}

/// Request to the API, with everything that is needed to send it again.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
    is_repeatable: bool,
}

impl Call {
    /// Creates a request with no body.
    pub(crate) fn of(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), headers: Vec::new(), body: Bytes::new(), is_repeatable: true }
    }

    /// Creates a `GET` request for a path.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::of(Method::GET, path)
    }

    /// Creates a `POST` request that changes nothing, such as a browse.
    pub(crate) fn read(path: impl Into<String>, body: &Value) -> Self {
        Self::of(Method::POST, path).body(body.to_string(), "application/json")
    }

    /// Creates a request that changes something; its idempotency key makes retries safe.
    pub(crate) fn change(path: impl Into<String>, key: &str, body: &Value) -> Self {
        Self::read(path, body).header("idempotency-key", key)
    }

    /// Adds a header to the request.
    #[must_use]
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body of the request and its content type.
    #[must_use]
    pub(crate) fn body(mut self, body: impl Into<Bytes>, content_type: &str) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    /// Declares that the request must not be retried.
    #[must_use]
    pub(crate) fn once(mut self) -> Self {
        self.is_repeatable = false;
        self
    }

    fn request(
        &self,
        base: &str,
        key: Option<&HeaderValue>,
        trace_id: &str,
    ) -> Result<Request<SdkBody>, HttpError> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(format!("{base}{}", self.path))
            .header("user-agent", concat!("integrahub/", env!("CARGO_PKG_VERSION")))
            .header("x-trace-id", trace_id);
        if let Some(key) = key {
            request = request.header("x-api-key", key);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(SdkBody::from(self.body.clone())).map_err(|error| HttpError::Request(Box::new(error)))
    }
}

/// HTTP response with its whole body.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Number of times that the request was sent, retries included.
    pub(crate) attempts: u32,
}

impl Answer {
    /// Returns the value of a response header, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns whether the response is a success or a redirect.
    pub(crate) const fn is_success(&self) -> bool {
        matches!(self.status, 200..400)
    }

    /// Returns whether the response is the stored result of an earlier request with the same
    /// idempotency key. False after a retry, because the result may then be that of this request's
    /// own first attempt.
    pub(crate) fn is_replay(&self) -> bool {
        self.attempts == 1 && self.headers.contains_key("idempotent-replay")
    }

    /// Parses the response's body as JSON.
    ///
    /// # Errors
    /// If the body is not JSON.
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        serde_json::from_slice(&self.body).or_explain(|| "read the API's answer".to_owned())
    }

    /// Returns the pause that the header `Retry-After` asks for; `None` without a valid one. A date
    /// in it is compared with the response's own `Date`.
    fn retry_after(&self) -> Option<Duration> {
        if let Ok(seconds) = self.header("retry-after")?.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let date = |name: &str| Some(rfc2822::parse(self.header(name)?).ok()?.timestamp());
        let pause = date("retry-after")?.duration_since(date("date").unwrap_or_else(Timestamp::now));
        // A date that is over is no pause.
        Some(Duration::try_from(pause).unwrap_or_default())
    }
}

impl Api {
    /// Creates a client for the API of a context.
    ///
    /// # Errors
    /// If the context has no address.
    pub(crate) fn of(context: &Context) -> Result<Self, Failure> {
        let url = context.url.as_ref().ok_or_else(|| {
            Failure::usage("the address of the API is not known")
                .why("there is no local stack here, and neither --url nor a context is given")
                .next("create a context: integrahub context create NAME --url URL --api-key-stdin")
        })?;
        let api = Self::at(url, context.api_key.as_ref(), Schedule::within(TRIES))?;
        let (source_of_key, program) = (context.source_of_key.clone(), context.program.clone());
        Ok(Self { source_of_key, program, ..api })
    }

    /// Creates a client for the API at this URL.
    ///
    /// # Errors
    /// If the API key cannot be sent as a header.
    pub(crate) fn at(url: &Url, key: Option<&SecretString>, schedule: Schedule) -> Result<Self, Failure> {
        let key = key.map(|key| {
            let header = HeaderValue::from_str(key.expose_secret());
            header.map_err(|_| Failure::usage("the API key has characters that no header can have"))
        });
        let mut key = key.transpose()?;
        if let Some(key) = &mut key {
            key.set_sensitive(true);
        }
        Ok(Self {
            http: Http::new(LONGEST),
            base: url.as_str().trim_end_matches('/').to_owned(),
            key,
            source_of_key: "nowhere".to_owned(),
            program: "integrahub".to_owned(),
            schedule,
            on_retry: Box::new(|_, _| {}),
        })
    }

    /// Returns the client with another total time for the retries of a request.
    #[must_use]
    pub(crate) fn trying_for(self, total: Duration) -> Self {
        Self { schedule: Schedule::within(total), ..self }
    }

    /// Returns the client with a callback that is called before each retry of a request.
    #[must_use]
    pub(crate) fn telling(self, on_retry: OnRetry) -> Self {
        Self { on_retry, ..self }
    }

    /// Returns the client if it has an API key, so that a command fails before it does useless
    /// work.
    ///
    /// # Errors
    /// If there is no API key.
    pub(crate) fn with_key(self) -> Result<Self, Failure> {
        if self.key.is_some() { Ok(self) } else { Err(keyless().failure) }
    }

    /// Returns the address of the API, without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Returns the program's name with the options that select the deployment and the API key.
    /// Suggested commands begin with it.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// Returns the retry schedule, so that the caller can retry larger work by the same rules.
    pub(crate) const fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// Reports a failed attempt to the client's callback. `what` is the reason, `pause` the time
    /// until the next attempt.
    pub(crate) fn tell(&self, what: &str, pause: Duration) {
        (self.on_retry)(what, pause);
    }

    /// Sends a request, and retries it until it succeeds, cannot succeed, or has no time left.
    /// Returns the successful response.
    ///
    /// # Errors
    /// If there is no API key, if the last response is not a success, or if no response arrived.
    pub(crate) async fn send(&self, call: &Call) -> Result<Answer, Refusal> {
        if self.key.is_none() {
            return Err(keyless());
        }
        let trace_id = Uuid::new_v4().to_string();
        let answer = self.attempts(call, &trace_id).await?;
        if answer.is_success() {
            return Ok(answer);
        }
        Err(Problem::of(&answer).refusal(&answer, &trace_id, &self.source_of_key))
    }

    /// Sends a request with the retries of [`Self::send`], but also without an API key, and returns
    /// a response of any status.
    ///
    /// # Errors
    /// If no response arrived.
    pub(crate) async fn exchange(&self, call: &Call) -> Result<Answer, Refusal> {
        self.attempts(call, &Uuid::new_v4().to_string()).await
    }

    /// Sends `GET` for a path as [`Self::send`] does, and returns the response's JSON.
    ///
    /// # Errors
    /// If [`Self::send`] fails, or the response's body is not JSON.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.send(&Call::get(path)).await?.json()
    }

    async fn attempts(&self, call: &Call, trace_id: &str) -> Result<Answer, Refusal> {
        let begin = Instant::now();
        let mut number = 0;
        loop {
            let (what, after, outcome) = match self.attempt(call, trace_id, number).await {
                Ok(answer) if answer.is_success() => return Ok(answer),
                Ok(answer) => {
                    let (reason, after) = (Problem::of(&answer).reason, answer.retry_after());
                    if !retry::may_succeed_later(answer.status, reason.as_deref(), after.is_some()) {
                        return Ok(answer);
                    }
                    (format!("{} {}", answer.status, reason.unwrap_or_default()), after, Ok(answer))
                }
                Err(error) => (error.to_string(), None, Err(error)),
            };
            let hopeless = matches!(outcome, Err(HttpError::Request(_))) || !call.is_repeatable;
            let pause = self.schedule.pause(number, after, begin.elapsed(), fastrand::f64());
            let Some(pause) = pause.filter(|_| !hopeless) else {
                return outcome
                    .map_err(|error| problem::unanswered(&error, &self.base, trace_id, begin.elapsed()));
            };
            self.tell(what.trim_end(), pause);
            tokio::time::sleep(pause).await;
            number = number.saturating_add(1);
        }
    }

    async fn attempt(&self, call: &Call, trace_id: &str, number: u32) -> Result<Answer, HttpError> {
        let request = call.request(&self.base, self.key.as_ref(), trace_id)?;
        let sending = Duration::from_secs(u64::try_from(call.body.len()).unwrap_or(u64::MAX) / SLOWEST);
        let response = tokio::time::timeout(PATIENCE.saturating_add(sending), self.http.send(request)).await;
        let response = response.map_err(|slow| HttpError::Connection(Box::new(slow)))??;
        let (parts, body) = response.into_parts();
        let body = http::collect(body, MAX_ANSWER).await?;
        let attempts = number.saturating_add(1);
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body, attempts })
    }
}

/// Builds the failure of a request that needs an API key if the context has none.
fn keyless() -> Refusal {
    Failure::usage("there is no API key")
        .why("neither INTEGRAHUB_API_KEY, --api-key-file nor the context has one")
        .next("ask the operator for one, and set INTEGRAHUB_API_KEY or name its file in --api-key-file")
        .into()
}

/// Appends query parameters to a path, percent-encoded.
pub(crate) fn with_query(path: &str, parameters: &[(&str, &str)]) -> String {
    if parameters.is_empty() {
        return path.to_owned();
    }
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    format!("{path}?{query}")
}
