//! Key set (JWKS) of the token issuer, fetched from its URL and cached.
//!
//! A request does not wait if the key of its token is in the cached set. An old set still serves
//! the request, and is fetched again meanwhile. A function that freezes after each request may
//! never finish such a fetch. So requests wait for a new set once the cached one is an hour old.
//! They also wait for the first set. If the cached set lacks their key, they wait for a new one at
//! most once a minute.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use attempt::Moment;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use http::StatusCode;
use http::header::ACCEPT;
use http_body_util::{BodyExt as _, Limited};
use jsonwebtoken::{Algorithm, DecodingKey};

use super::keys::{KeySet, KeySetError};
use super::settings::JwksUrl;

/// Age of the key set (JWKS) from which on it is fetched again, while requests still use it. A key
/// that the issuer withdrew works for this time.
const FRESH: Duration = Duration::from_secs(600);
/// Age of the key set (JWKS) from which on requests wait for a new one. If the issuer does not
/// answer, they use the old one.
const OVERDUE: Duration = Duration::from_secs(3_600);
/// Age of the key set (JWKS) from which on it is not used, even if the issuer does not answer.
const USABLE: Duration = Duration::from_secs(86_400);
/// Minimum time between two fetches of the key set, if one is cached.
const PAUSE: Duration = Duration::from_secs(60);
/// Minimum time between two fetches of the key set, if none is cached.
const PAUSE_WITHOUT: Duration = Duration::from_secs(5);
/// Time limit of fetching a key set.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum bytes of a key set (JWKS).
const LARGEST: usize = 256 * 1024;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Key set (JWKS) of the token issuer, fetched and cached.
#[derive(Debug)]
pub(super) struct Jwks(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    url: JwksUrl,
    known: Mutex<Known>,
    /// Lock that a request holds while it fetches the key set. Requests that waited for the lock
    /// find the set that was fetched.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Known {
    /// Key set that was fetched last, with the time at which its fetch began; `None` before the
    /// first successful fetch.
    set: Option<(Moment, Arc<KeySet>)>,
    /// Time at which the last fetch began, successful or not; `None` before the first fetch.
    tried: Option<Moment>,
}

/// Error if no key set of the token issuer is cached, and none could be fetched.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoKeys;

/// Reason why a key set could not be fetched.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("the request cannot be sent")]
    Request(#[source] Cause),
    #[error("there was no response")]
    Connection(#[source] Cause),
    #[error("there was no complete response within {} seconds", TIMEOUT.as_secs())]
    Late,
    #[error("the response has the status {0}")]
    Status(StatusCode),
    #[error("the response broke off, or has more than {LARGEST} bytes")]
    Body(#[source] Cause),
    #[error("the key set cannot be used")]
    Keys(#[from] KeySetError),
}

impl Jwks {
    pub(super) fn new(url: JwksUrl) -> Self {
        let (known, turn) = (Mutex::default(), Arc::default());
        Self(Arc::new(Shared { url, known, turn }))
    }

    /// Finds the public key with this id, if it may be used with this algorithm.
    ///
    /// # Errors
    /// If no key set is cached, and none could be fetched.
    pub(super) async fn key(&self, id: &str, algorithm: Algorithm) -> Result<Option<DecodingKey>, NoKeys> {
        let shared = &self.0;
        let Some((since, set)) = shared.usable() else {
            return Ok(shared.first().await?.find(id, algorithm));
        };
        if let Some(key) = set.find(id, algorithm)
            && since.age() < OVERDUE
        {
            // The turn is taken at once, so that who needs another key waits for this fetch.
            if since.age() >= FRESH
                && let Ok(turn) = Arc::clone(&shared.turn).try_lock_owned()
                && shared.begin(PAUSE)
            {
                let shared = Arc::clone(shared);
                tokio::spawn(async move {
                    shared.renew().await;
                    drop(turn);
                });
            }
            return Ok(Some(key));
        }
        let _turn = shared.turn.lock().await;
        if shared.begin(PAUSE) {
            shared.renew().await;
        }
        Ok(shared.usable().and_then(|(_, set)| set.find(id, algorithm)))
    }

    /// Sets the age of the cached key set, and of the last attempt to fetch it, to `by`, for tests.
    #[cfg(test)]
    pub(super) fn age(&self, by: Duration) {
        let before = Moment::on(std::time::Instant::now(), std::time::SystemTime::now() - by);
        let mut known = self.0.known();
        known.tried = Some(before);
        if let Some((since, _)) = &mut known.set {
            *since = before;
        }
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn usable(&self) -> Option<(Moment, Arc<KeySet>)> {
        self.known().set.clone().filter(|(since, _)| since.age() < USABLE)
    }

    /// Records that a fetch of the key set begins now. Returns false, and records nothing, if the
    /// last fetch began less than `pause` ago.
    fn begin(&self, pause: Duration) -> bool {
        let now = Moment::now();
        let mut known = self.known();
        if known.tried.is_some_and(|tried| tried.age_at(now) < pause) {
            return false;
        }
        known.tried = Some(now);
        true
    }

    /// Returns the key set when none is cached: fetches it, or waits until another request has
    /// fetched it.
    async fn first(&self) -> Result<Arc<KeySet>, NoKeys> {
        let _turn = self.turn.lock().await;
        if self.usable().is_none() && self.begin(PAUSE_WITHOUT) {
            self.renew().await;
        }
        self.usable().map(|(_, set)| set).ok_or(NoKeys)
    }

    /// Fetches the key set. If this fails, it is logged, and the cached set stays.
    async fn renew(&self) {
        let since = Moment::now();
        let fetched = tokio::time::timeout(TIMEOUT, self.fetch()).await;
        match fetched.unwrap_or(Err(FetchError::Late)) {
            Ok(set) => self.known().set = Some((since, Arc::new(set))),
            Err(error) => {
                let url = self.url.0.as_str();
                let error: &dyn std::error::Error = &error;
                tracing::error!(
                    event_type = "access.keys_unavailable",
                    url,
                    error,
                    "cannot fetch the keys of tokens from {url}: {error}"
                );
            }
        }
    }

    async fn fetch(&self) -> Result<KeySet, FetchError> {
        let request = http::Request::get(self.url.0.as_str()).header(ACCEPT, "application/json");
        let request = request.body(SdkBody::empty()).map_err(|error| FetchError::Request(Box::new(error)))?;
        let request = HttpRequest::try_from(request).map_err(|error| FetchError::Request(Box::new(error)))?;
        // One for each fetch: a connection that was kept would be dead after a freeze.
        let connector = Connector::builder().tls_provider(Provider::Rustls(CryptoMode::Ring)).build();
        let response = connector.call(request).await;
        let response = response.map_err(|error| FetchError::Connection(Box::new(error)))?;
        let response = response.try_into_http1x().map_err(|error| FetchError::Connection(Box::new(error)))?;
        // Redirects are not followed: they may lead anywhere.
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), LARGEST).collect().await.map_err(FetchError::Body)?;
        Ok(KeySet::read(&body.to_bytes())?)
    }
}
