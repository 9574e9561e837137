//! Calls of AWS services for which no SDK crate is compiled: signs a request, and returns the body
//! of the response. A service's SDK takes long to compile, also for a program that calls few of its
//! actions.

use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_credential_types::provider::error::CredentialsError;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningParams, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{HttpConnector as _, HttpConnectorSettings};
use aws_smithy_runtime_api::client::identity::Identity;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use backon::{ExponentialBuilder, Retryable as _};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use secrecy::SecretString;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Maximum length of an AWS response in bytes. Responses have less than 1 MB, except lists without
/// pages.
const LARGEST: usize = 16 * 1024 * 1024;
/// Time before the expiry of credentials at which new ones are fetched.
const MARGIN: Duration = Duration::from_secs(60);
/// Maximum number of characters of an error code, and of an error response without a message.
const SHOWN: usize = 200;

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
const JSON: &str = "application/x-amz-json-1.1";

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Reason why a call of an AWS action failed.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    /// Credentials are missing, or cannot be fetched.
    #[error("there are no credentials")]
    Credentials(#[from] CredentialsError),
    /// The request cannot be serialized or signed.
    #[error("the request cannot be made")]
    Request(#[source] Cause),
    /// The connection failed or broke off, or the response is too large. The service may have
    /// executed the action.
    #[error("the service did not answer")]
    Unanswered(#[source] Cause),
    /// The time limit of the attempt or of the call has passed. The service may have executed the
    /// action.
    #[error("the service did not answer in time")]
    TimedOut,
    /// The AWS service responded with an error.
    #[error("the service refused: {code}")]
    Refused {
        /// HTTP status of the AWS service's response.
        status: u16,
        /// Error code such as `AccessDeniedException`, or `status` with the HTTP status if the
        /// response has no code.
        code: String,
        /// Error message of the AWS service, which may quote the request.
        message: SecretString,
    },
}

/// Client of any AWS service, for actions that need no SDK crate. Region, credentials, endpoint,
/// timeouts and retries are those of an SDK configuration.
#[derive(Debug)]
pub struct Actions {
    http: Connector,
    config: SdkConfig,
    credentials: Mutex<Option<Credentials>>,
}

impl Actions {
    /// Creates a client. If a setting such as the region is missing, the calls fail.
    #[must_use]
    pub fn new(config: &SdkConfig) -> Self {
        Self::through(config, ProxyConfig::disabled())
    }

    /// Creates a client that connects through a proxy.
    #[must_use]
    pub fn through(config: &SdkConfig, proxy: ProxyConfig) -> Self {
        let mut settings = HttpConnectorSettings::builder();
        settings.set_connect_timeout(config.timeout_config().and_then(TimeoutConfig::connect_timeout));
        let http = Connector::builder()
            .connector_settings(settings.build())
            .proxy_config(proxy)
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .build();
        Self { http, config: config.clone(), credentials: Mutex::default() }
    }

    /// Calls an action in the AWS Query protocol. The URL-encoded `form` contains the action and
    /// its version. `service` is the first label of the host name, such as `monitoring`.
    ///
    /// # Errors
    /// If the service does not respond, or responds with an error.
    pub async fn query(&self, service: &str, form: String) -> Result<Bytes, ActionError> {
        self.call(service, &[("content-type", FORM)], form.into()).await
    }

    /// Calls an action in the AWS JSON 1.1 protocol. `target` is the value of `X-Amz-Target`, such
    /// as `Logs_20140328.PutLogEvents`.
    ///
    /// # Errors
    /// If the service does not respond, or responds with an error.
    pub async fn json(
        &self,
        service: &str,
        target: &str,
        body: &impl Serialize,
    ) -> Result<Bytes, ActionError> {
        let body = serde_json::to_vec(body).map_err(|error| ActionError::Request(error.into()))?;
        self.call(service, &[("content-type", JSON), ("x-amz-target", target)], body.into()).await
    }

    /// Calls an action. The call is retried as often as the configuration says, as long as the
    /// failure may be transient.
    async fn call(&self, service: &str, headers: &[(&str, &str)], body: Bytes) -> Result<Bytes, ActionError> {
        let limits = self.config.timeout_config();
        let for_attempt = limits.and_then(TimeoutConfig::operation_attempt_timeout).unwrap_or(Duration::MAX);
        let for_all = limits.and_then(TimeoutConfig::operation_timeout).unwrap_or(Duration::MAX);
        let attempt = || async {
            let sent = timeout(for_attempt, self.send(service, headers, body.clone())).await;
            sent.unwrap_or(Err(ActionError::TimedOut))
        };
        let calls = attempt.retry(self.pauses()).when(ActionError::may_pass);
        timeout(for_all, calls).await.unwrap_or(Err(ActionError::TimedOut))
    }

    fn pauses(&self) -> ExponentialBuilder {
        let retries = self.config.retry_config().cloned().unwrap_or_else(RetryConfig::standard);
        let further = retries.max_attempts().saturating_sub(1);
        ExponentialBuilder::new()
            .with_min_delay(retries.initial_backoff())
            .with_max_delay(retries.max_backoff())
            .with_max_times(usize::try_from(further).unwrap_or(usize::MAX))
            .with_jitter()
    }

    async fn send(&self, service: &str, headers: &[(&str, &str)], body: Bytes) -> Result<Bytes, ActionError> {
        let credentials = self.credentials().await?;
        let request = self.signed(service, headers, body, credentials).map_err(ActionError::Request)?;
        let answer = self.http.call(request).await;
        let answer = answer.map_err(|error| ActionError::Unanswered(error.into()))?;
        let status = answer.status();
        let read = Limited::new(answer.into_body(), LARGEST).collect().await;
        let body = read.map_err(ActionError::Unanswered)?.to_bytes();
        if status.is_success() { Ok(body) } else { Err(ActionError::refused(status.as_u16(), &body)) }
    }

    fn signed(
        &self,
        service: &str,
        headers: &[(&str, &str)],
        body: Bytes,
        credentials: Credentials,
    ) -> Result<HttpRequest, Cause> {
        let region: &str = self.config.region().map_or("", AsRef::as_ref);
        let address = match self.config.endpoint_url() {
            Some(endpoint) => format!("{}/", endpoint.trim_end_matches('/')),
            None => address(service, region),
        };
        // As AWS's SDKs write the name of the application.
        let app: Option<&str> = self.config.app_name().map(AsRef::as_ref);
        let agent = app.map_or_else(|| "integrahub".to_owned(), |app| format!("integrahub app/{app}"));
        let headers = headers.iter().copied().chain([("x-amz-user-agent", agent.as_str())]);
        let signable =
            SignableRequest::new("POST", address.as_str(), headers.clone(), SignableBody::Bytes(&body))?;
        let identity = Identity::from(credentials);
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(region)
            .name(service)
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()?;
        let params = SigningParams::from(params);
        let signed = sign(signable, &params)?;
        let request = headers
            .chain(signed.output().headers())
            .fold(Request::post(address.as_str()), |request, (name, value)| request.header(name, value));
        Ok(HttpRequest::try_from(request.body(SdkBody::from(body))?)?)
    }

    /// Returns the cached credentials, or fetches new ones if they are missing or expire soon.
    async fn credentials(&self) -> Result<Credentials, CredentialsError> {
        let mut known = self.credentials.lock().await;
        let until = SystemTime::now() + MARGIN;
        if let Some(credentials) = known.as_ref()
            && credentials.expiry().is_none_or(|expiry| expiry > until)
        {
            return Ok(credentials.clone());
        }
        let provider = self.config.credentials_provider();
        let provider = provider.ok_or_else(CredentialsError::not_loaded_no_source)?;
        Ok(known.insert(provider.provide_credentials().await?).clone())
    }
}

/// Returns the default endpoint of a service. China and the European Sovereign Cloud have their own
/// domains.
fn address(service: &str, region: &str) -> String {
    let suffix = match region.split('-').next() {
        Some("cn") => "amazonaws.com.cn",
        Some("eusc") => "amazonaws.eu",
        _ => "amazonaws.com",
    };
    format!("https://{service}.{region}.{suffix}/")
}

impl ActionError {
    /// True if an immediate retry may succeed.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Credentials(_) | Self::Request(_) => false,
            Self::Unanswered(_) | Self::TimedOut => true,
            Self::Refused { status, code, .. } => {
                *status == StatusCode::TOO_MANY_REQUESTS.as_u16()
                    || *status >= 500
                    || code.contains("Throttling")
                    || code == "RequestLimitExceeded"
            }
        }
    }

    /// Parses an error response in JSON or XML.
    fn refused(status: u16, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let (code, message) = from_json(body)
            .or_else(|| from_xml(&text))
            .unwrap_or_else(|| (format!("status {status}"), text.chars().take(SHOWN).collect()));
        Self::Refused { status, code: code.chars().take(SHOWN).collect(), message: message.into() }
    }
}

/// Parses an AWS error of the form `{"__type": "namespace#Code", "message": "…"}` to its code and
/// message; `None` for any other body.
fn from_json(body: &[u8]) -> Option<(String, String)> {
    let document: Value = serde_json::from_slice(body).ok()?;
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    let code = text("__type").or_else(|| text("code"))?;
    let code = code.rsplit_once('#').map_or(code, |(_, code)| code);
    let message = text("message").or_else(|| text("Message")).unwrap_or_default();
    Some((code.to_owned(), message.to_owned()))
}

/// Parses an AWS error in XML to its code and message, from its elements `<Code>` and `<Message>`
/// at any depth; `None` if there is no code.
fn from_xml(text: &str) -> Option<(String, String)> {
    let element = |name: &str| {
        let (_, rest) = text.split_once(format!("<{name}>").as_str())?;
        let (content, _) = rest.split_once("</")?;
        let references = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
        Some(references.iter().fold(content.to_owned(), |text, (from, to)| text.replace(from, to)))
    };
    Some((element("Code")?, element("Message").unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex as Lock};

    use aws_config::Region;
    use aws_credential_types::provider::SharedCredentialsProvider;
    use secrecy::ExposeSecret as _;
    use serde_json::json;
    use test_support::http_server::{self, Server};

    use super::*;

    type Seen = Arc<Lock<Vec<Request<Bytes>>>>;

    /// Starts a server that sends these responses, and a client that calls it.
    async fn client(answers: Vec<(u16, String)>) -> (Actions, Seen, Server) {
        let seen = Seen::default();
        let (requests, answers) = (Arc::clone(&seen), Arc::new(Lock::new(answers)));
        let server = Server::start(move |request| {
            let (requests, answers) = (Arc::clone(&requests), Arc::clone(&answers));
            async move {
                requests.lock().unwrap().push(request);
                let (status, body) = answers.lock().unwrap().remove(0);
                Some(http_server::response(status, body))
            }
        })
        .await;
        (Actions::new(&config(&server.url(), TimeoutConfig::disabled())), seen, server)
    }

    fn config(url: &str, limits: TimeoutConfig) -> SdkConfig {
        let credentials = Credentials::new("AKIDEXAMPLE", "secret", Some("session".to_owned()), None, "test");
        SdkConfig::builder()
            .region(Region::new("sa-east-1"))
            .endpoint_url(url)
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .timeout_config(limits)
            .retry_config(RetryConfig::standard().with_initial_backoff(Duration::from_millis(1)))
            .build()
    }

    #[tokio::test]
    async fn a_query_is_a_signed_form() {
        let (client, seen, _server) = client(vec![(200, "<R/>".to_owned())]).await;
        assert_eq!(client.query("ec2", "Action=DescribeVpcs".to_owned()).await.unwrap(), "<R/>");
        let seen = seen.lock().unwrap();
        assert_eq!(seen[0].body(), "Action=DescribeVpcs");
        let header = |name: &str| seen[0].headers()[name].to_str().unwrap();
        assert!(header("authorization").contains("/sa-east-1/ec2/aws4_request"));
        assert!(header("authorization").contains("SignedHeaders=content-type;host;x-amz-date"));
        assert_eq!((header("x-amz-security-token"), header("x-amz-user-agent")), ("session", "integrahub"));
    }

    #[tokio::test]
    async fn what_passes_by_itself_is_repeated_and_no_log_shows_the_message_of_another_failure() {
        let throttled = r#"{"__type":"com.amazonaws#ThrottlingException"}"#.to_owned();
        let denied = "<E><Code>AccessDenied</Code><Message>not &lt;you&gt;</Message></E>".to_owned();
        let answers = vec![(400, throttled), (503, String::new()), (502, "bad".to_owned()), (403, denied)];
        let (client, seen, _server) = client(answers).await;
        let error = client.json("ssm", "AmazonSSM.GetParameter", &json!({})).await.unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), seen.lock().unwrap().len()),
            ("the service refused: status 502", 3)
        );
        let error = client.query("sns", "Action=ListTopics".to_owned()).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("not"), "{error:?}");
        let ActionError::Refused { status: 403, code, message } = &error else { panic!("{error:?}") };
        assert_eq!((code.as_str(), message.expose_secret()), ("AccessDenied", "not <you>"));
        assert_eq!(seen.lock().unwrap().len(), 4);
    }

    #[tokio::test]
    async fn an_answer_that_is_too_large_is_not_kept() {
        let (client, _seen, _server) = client(vec![(200, " ".repeat(LARGEST + 1))]).await;
        let once = client.config.to_builder().retry_config(RetryConfig::disabled()).build();
        let client = Actions::new(&once);
        let error = client.query("ec2", String::new()).await.unwrap_err();
        assert!(matches!(error, ActionError::Unanswered(_)), "{error:?}");
    }

    #[tokio::test]
    async fn an_attempt_and_all_of_them_have_a_time_limit() {
        let server = Server::start(|_| std::future::pending()).await;
        let soon = Duration::from_millis(20);
        let limits = [
            TimeoutConfig::builder().operation_attempt_timeout(soon).build(),
            TimeoutConfig::builder().operation_timeout(soon).build(),
        ];
        for limits in limits {
            let client = Actions::new(&config(&server.url(), limits));
            let error = client.query("ec2", String::new()).await.unwrap_err();
            assert!(matches!(error, ActionError::TimedOut), "{error:?}");
        }
    }

    #[test]
    fn another_partition_has_another_domain() {
        assert_eq!(address("ec2", "cn-north-1"), "https://ec2.cn-north-1.amazonaws.com.cn/");
        assert_eq!(address("ssm", "eusc-de-east-1"), "https://ssm.eusc-de-east-1.amazonaws.eu/");
        assert_eq!(address("ssm", "sa-east-1"), "https://ssm.sa-east-1.amazonaws.com/");
    }
}
