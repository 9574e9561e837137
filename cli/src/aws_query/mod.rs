//! Calls to AWS services for which no SDK is compiled: a signed request, and its answer as a tree
//! of XML (the Query protocol) or as JSON.
//!
//! Some commands ask many services for little. The SDK of one of them, EC2's, would take longer to
//! compile than the whole program.

mod error;
mod stack;
mod xml;

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningParams, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::Value;
use tokio::sync::Mutex;
use url::form_urlencoded;

use crate::api::http::{Http, HttpError, collect};

pub(crate) use error::{AwsError, AwsErrorKind};
pub(crate) use stack::Stack;
pub(crate) use xml::Node;

/// Time of one attempt: a person waits for it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Largest answer. AWS sends less than 1 MB; a page of log events comes near it.
const LARGEST: usize = 16 * 1024 * 1024;
/// Attempts of a call that fails for a while.
const ATTEMPTS: u32 = 3;
/// Pause after the first attempt; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(300);
/// Time before their expiry at which credentials are fetched again.
const MARGIN: Duration = Duration::from_secs(60);

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
const JSON: &str = "application/x-amz-json-1.1";

/// A client of all services in one region.
#[derive(Debug)]
pub(crate) struct AwsQuery {
    http: Http,
    region: String,
    /// Address of every service, if they have one in common, as on the local stack.
    endpoint: Option<String>,
    provider: SharedCredentialsProvider,
    credentials: Mutex<Option<Credentials>>,
}

/// Request as it is signed and sent.
struct Outgoing<'a> {
    service: &'a str,
    action: &'a str,
    content_type: &'static str,
    /// Header that names the action of a JSON protocol.
    target: Option<&'a str>,
    body: Vec<u8>,
}

impl AwsQuery {
    /// Makes a client, and calls nothing yet.
    pub(crate) fn new(region: String, endpoint: Option<String>, provider: SharedCredentialsProvider) -> Self {
        Self { http: Http::new(PATIENCE), region, endpoint, provider, credentials: Mutex::new(None) }
    }

    /// Returns the region of the calls.
    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Calls an action of a service with the Query protocol, and returns the root of its answer.
    /// `service` is the first part of its host name, such as `ec2` or `monitoring`.
    ///
    /// # Errors
    /// There was no answer, it is none that was understood, or it says that the call failed.
    pub(crate) async fn query(
        &self,
        service: &str,
        action: &str,
        params: &[(&str, &str)],
    ) -> Result<Node, AwsError> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", action).append_pair("Version", version(service));
        form.extend_pairs(params);
        let body = form.finish().into_bytes();
        let answer = self.call(Outgoing { service, action, content_type: FORM, target: None, body }).await?;
        std::str::from_utf8(&answer)
            .ok()
            .and_then(Node::parse)
            .ok_or_else(|| AwsError::unreadable(service, action))
    }

    /// Calls an action of a service with the protocol JSON 1.1. `target` is its full name, such as
    /// `Logs_20140328.FilterLogEvents`.
    ///
    /// # Errors
    /// There was no answer, it is none that was understood, or it says that the call failed.
    pub(crate) async fn json(&self, service: &str, target: &str, body: &Value) -> Result<Value, AwsError> {
        let action = target.rsplit_once('.').map_or(target, |(_, action)| action);
        let body = body.to_string().into_bytes();
        let outgoing = Outgoing { service, action, content_type: JSON, target: Some(target), body };
        let answer = self.call(outgoing).await?;
        if answer.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer).map_err(|_| AwsError::unreadable(service, action))
    }

    /// Calls until there is an answer, or a failure that does not pass by itself.
    async fn call(&self, outgoing: Outgoing<'_>) -> Result<Bytes, AwsError> {
        let mut attempt = 0;
        loop {
            let error = match self.attempt(&outgoing).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            attempt += 1;
            if error.kind != AwsErrorKind::Temporary || attempt >= ATTEMPTS {
                return Err(error);
            }
            tokio::time::sleep(PAUSE.saturating_mul(2_u32.saturating_pow(attempt - 1))).await;
        }
    }

    async fn attempt(&self, outgoing: &Outgoing<'_>) -> Result<Bytes, AwsError> {
        let Outgoing { service, action, .. } = *outgoing;
        let unreachable = |error: &HttpError| AwsError::unreachable(service, action, error);
        let request = self.request(outgoing, self.credentials(service, action).await?)?;
        let sent = async {
            let response = self.http.send(request).await?;
            let status = response.status();
            Ok::<_, HttpError>((status, collect(response.into_body(), LARGEST).await?))
        };
        let (status, body) = tokio::time::timeout(PATIENCE, sent)
            .await
            .map_err(|slow| AwsError::unreachable(service, action, &slow))?
            .map_err(|error| unreachable(&error))?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        Err(AwsError::answered(service, action, status, &body))
    }

    /// Signs a request.
    fn request(
        &self,
        outgoing: &Outgoing<'_>,
        credentials: Credentials,
    ) -> Result<Request<SdkBody>, AwsError> {
        let Outgoing { service, action, content_type, target, .. } = *outgoing;
        let unusable = |why: &str| AwsError::unusable(service, action, why);
        let address = self.address(service);
        let headers = [Some(("content-type", content_type)), target.map(|target| ("x-amz-target", target))];
        let headers = headers.into_iter().flatten();
        let signable = SignableRequest::new(
            "POST",
            address.as_str(),
            headers.clone(),
            SignableBody::Bytes(&outgoing.body),
        )
        .map_err(|error| unusable(&error.to_string()))?;
        let identity = Identity::from(credentials);
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(service)
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| unusable(&error.to_string()))?;
        let params = SigningParams::from(params);
        let signed = sign(signable, &params).map_err(|error| unusable(&error.to_string()))?;
        let request = Request::post(address.as_str());
        let request = headers
            .chain(signed.output().headers())
            .fold(request, |request, (name, value)| request.header(name, value));
        request.body(SdkBody::from(outgoing.body.clone())).map_err(|error| unusable(&error.to_string()))
    }

    fn address(&self, service: &str) -> String {
        match &self.endpoint {
            Some(endpoint) => format!("{}/", endpoint.trim_end_matches('/')),
            None if self.region.starts_with("cn-") => {
                format!("https://{service}.{}.amazonaws.com.cn/", self.region)
            }
            None => format!("https://{service}.{}.amazonaws.com/", self.region),
        }
    }

    /// Returns credentials, which are fetched once and again shortly before they expire.
    async fn credentials(&self, service: &str, action: &str) -> Result<Credentials, AwsError> {
        let mut known = self.credentials.lock().await;
        let until = SystemTime::now() + MARGIN;
        if let Some(credentials) = known.as_ref()
            && credentials.expiry().is_none_or(|expiry| expiry > until)
        {
            return Ok(credentials.clone());
        }
        let fetched = self.provider.provide_credentials().await;
        let fetched = fetched.map_err(|error| AwsError::no_credentials(service, action, &error))?;
        Ok(known.insert(fetched).clone())
    }
}

/// Version of a service's Query protocol.
fn version(service: &str) -> &'static str {
    match service {
        "cloudformation" => "2010-05-15",
        "monitoring" => "2010-08-01",
        "rds" => "2014-10-31",
        "sns" => "2010-03-31",
        "sts" => "2011-06-15",
        // EC2's.
        _ => "2016-11-15",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex as Lock};

    use serde_json::json;
    use test_support::http_server::{self, Server};

    use super::*;

    type Seen = Arc<Lock<Vec<Request<Bytes>>>>;

    /// Starts a server with these answers, and a client of it.
    async fn client(answers: Vec<(u16, String)>) -> (AwsQuery, Seen, Server) {
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
        let credentials = Credentials::new("AKIDEXAMPLE", "secret", Some("session".to_owned()), None, "test");
        let provider = SharedCredentialsProvider::new(credentials);
        (AwsQuery::new("sa-east-1".to_owned(), Some(server.url()), provider), seen, server)
    }

    #[tokio::test]
    async fn a_query_is_a_signed_form_and_its_answer_a_tree() {
        let xml = "<R xmlns=\"urn:x\"><vpcSet><item><vpcId>vpc-1</vpcId></item></vpcSet></R>";
        let (client, seen, _server) = client(vec![(200, xml.to_owned())]).await;
        let root = client.query("ec2", "DescribeVpcs", &[("VpcId.1", "vpc-1 &")]).await.unwrap();
        assert_eq!(root.list("vpcSet").next().unwrap().text_of("vpcId"), "vpc-1");
        let seen = seen.lock().unwrap();
        assert_eq!(seen[0].body(), "Action=DescribeVpcs&Version=2016-11-15&VpcId.1=vpc-1+%26");
        let header = |name: &str| seen[0].headers()[name].to_str().unwrap();
        assert!(header("authorization").contains("/sa-east-1/ec2/aws4_request"));
        assert!(header("authorization").contains("SignedHeaders=content-type;host;x-amz-date"));
        assert_eq!(header("x-amz-security-token"), "session");
    }

    #[tokio::test]
    async fn json_names_its_action_in_a_header() {
        let (client, seen, _server) = client(vec![(200, r#"{"events":[]}"#.to_owned())]).await;
        let answer = client.json("logs", "Logs_20140328.FilterLogEvents", &json!({"limit": 1})).await;
        assert_eq!(answer.unwrap(), json!({"events": []}));
        let seen = seen.lock().unwrap();
        assert_eq!(seen[0].headers()["x-amz-target"], "Logs_20140328.FilterLogEvents");
        assert_eq!(seen[0].body(), r#"{"limit":1}"#);
    }

    #[tokio::test]
    async fn a_missing_right_is_told_from_other_failures() {
        let ec2 = "<Response><Errors><Error><Code>UnauthorizedOperation</Code>\
<Message>no &amp; no</Message></Error></Errors></Response>";
        let other = r#"{"__type":"com.amazonaws#ResourceNotFoundException","message":"gone"}"#;
        let (client, _seen, _server) = client(vec![(403, ec2.to_owned()), (400, other.to_owned())]).await;
        let error = client.query("monitoring", "DescribeAlarms", &[]).await.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (AwsErrorKind::Denied, "no & no"));
        assert_eq!(error.permission(), "cloudwatch:DescribeAlarms");
        let error = client.json("secretsmanager", "secretsmanager.DescribeSecret", &json!({})).await;
        let error = error.unwrap_err();
        assert_eq!((error.kind, error.code.as_str()), (AwsErrorKind::Other, "ResourceNotFoundException"));
        assert_eq!(
            error.to_string(),
            "secretsmanager:DescribeSecret failed: ResourceNotFoundException: gone"
        );
    }

    #[tokio::test]
    async fn a_call_that_is_throttled_is_repeated() {
        let throttled = "<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>";
        let answers = vec![(400, throttled.to_owned()), (200, "<R><A>1</A></R>".to_owned())];
        let (client, _seen, _server) = client(answers).await;
        let root = client.query("monitoring", "DescribeAlarms", &[]).await.unwrap();
        assert_eq!(root.text_of("A"), "1");
    }

    #[tokio::test]
    async fn an_answer_that_is_no_xml_is_a_failure() {
        let (client, _seen, _server) = client(vec![(200, "<R><A></R>".to_owned())]).await;
        let error = client.query("sns", "ListTopics", &[]).await.unwrap_err();
        assert_eq!(error.code, "unreadable answer");
    }

    #[test]
    fn a_region_of_china_has_another_domain() {
        let provider = SharedCredentialsProvider::new(Credentials::new("id", "secret", None, None, "test"));
        let client = AwsQuery::new("cn-north-1".to_owned(), None, provider);
        assert_eq!(client.address("ec2"), "https://ec2.cn-north-1.amazonaws.com.cn/");
    }
}
