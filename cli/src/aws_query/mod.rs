//! Client for AWS services whose SDK crates are not part of this program. It returns responses as a
//! tree of XML elements (Query protocol) or as JSON.

mod error;
mod stack;
mod xml;

use aws_config::SdkConfig;
use aws_smithy_http_client::proxy::ProxyConfig;
use runtime::Actions;
use serde_json::{Map, Value, json};
use url::form_urlencoded;

pub(crate) use error::{AwsError, AwsErrorKind};
pub(crate) use stack::Stack;
pub(crate) use xml::Node;

/// Client for AWS services in one region that speak the Query protocol or JSON 1.1.
#[derive(Debug)]
pub(crate) struct AwsQuery {
    actions: Actions,
    region: String,
}

impl AwsQuery {
    /// Creates a client, and sends no request yet.
    pub(crate) fn new(config: &SdkConfig) -> Self {
        let region = config.region().map(ToString::to_string).unwrap_or_default();
        Self { actions: Actions::through(config, ProxyConfig::from_env()), region }
    }

    /// Returns the AWS region that the client calls.
    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Calls an action of an AWS service with the Query protocol, and returns the root element of
    /// the response. `service` is the first part of the service's host name, such as `monitoring`.
    ///
    /// # Errors
    /// If no response arrives, it cannot be parsed, or it reports that the call failed.
    pub(crate) async fn query(
        &self,
        service: &str,
        action: &str,
        params: &[(&str, &str)],
    ) -> Result<Node, AwsError> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", action).append_pair("Version", version(service));
        let form = form.extend_pairs(params).finish();
        let answer = self.actions.query(service, form).await;
        let answer = answer.map_err(|error| AwsError::of(service, action, &error))?;
        std::str::from_utf8(&answer)
            .ok()
            .and_then(Node::parse)
            .ok_or_else(|| AwsError::unreadable(service, action))
    }

    /// Calls an action as [`Self::query`] does, and returns the items of `list` on the first `most`
    /// pages of its response. The returned flag is false if there are more pages.
    ///
    /// # Errors
    /// Returns the errors of [`Self::query`].
    pub(crate) async fn pages(
        &self,
        service: &str,
        action: &str,
        params: &[(&str, &str)],
        list: &str,
        most: usize,
    ) -> Result<(Vec<Node>, bool), AwsError> {
        let (mut found, mut next) = (Vec::new(), String::new());
        for _ in 0..most {
            let mut params = params.to_vec();
            if !next.is_empty() {
                params.push(("NextToken", next.as_str()));
            }
            let answer = self.query(service, action, &params).await?;
            found.extend(answer.list(list).cloned());
            // EC2 writes its name another way.
            let tokens = ["NextToken", "nextToken"].map(|name| answer.text_of(name));
            next = tokens.concat();
            if next.is_empty() {
                return Ok((found, true));
            }
        }
        Ok((found, false))
    }

    /// Reads the events of a log group that match a filter pattern, from the time `since`
    /// (milliseconds since 1970) on, and passes each page to `take`. Returns false if there are
    /// more than `most` pages.
    ///
    /// # Errors
    /// Returns the errors of [`Self::json`].
    pub(crate) async fn log_events(
        &self,
        group: &str,
        since: i64,
        pattern: &str,
        most: usize,
        mut take: impl FnMut(&[Value]),
    ) -> Result<bool, AwsError> {
        let mut asked = Map::from_iter([
            ("logGroupName".to_owned(), json!(group)),
            ("startTime".to_owned(), json!(since)),
            ("filterPattern".to_owned(), json!(pattern)),
        ]);
        for _ in 0..most {
            let body = Value::Object(asked.clone());
            let page = self.json("logs", "Logs_20140328.FilterLogEvents", &body).await?;
            take(page.get("events").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default());
            match page.get("nextToken").and_then(Value::as_str) {
                Some(token) => asked.insert("nextToken".to_owned(), json!(token)),
                None => return Ok(true),
            };
        }
        Ok(false)
    }

    /// Calls an action of an AWS service with the protocol JSON 1.1, and returns the response.
    /// `target` is the action's full name, such as `Logs_20140328.FilterLogEvents`.
    ///
    /// # Errors
    /// If no response arrives, it cannot be parsed, or it reports that the call failed.
    pub(crate) async fn json(&self, service: &str, target: &str, body: &Value) -> Result<Value, AwsError> {
        let action = target.rsplit_once('.').map_or(target, |(_, action)| action);
        let answer = self.actions.json(service, target, body).await;
        let answer = answer.map_err(|error| AwsError::of(service, action, &error))?;
        if answer.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer).map_err(|_| AwsError::unreadable(service, action))
    }
}

/// Returns the API version that calls of this AWS service by the Query protocol have to state.
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

/// AWS clients that the tests of other modules use.
#[cfg(test)]
pub(crate) mod examples {
    use aws_config::Region;
    use aws_credential_types::Credentials;
    use aws_credential_types::provider::SharedCredentialsProvider;
    use test_support::http_server::Server;

    use super::*;

    /// Creates a client that calls a test's server.
    pub(crate) fn client(server: &Server) -> AwsQuery {
        let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, None, "test");
        let config = SdkConfig::builder()
            .region(Region::new("sa-east-1"))
            .endpoint_url(server.url())
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        AwsQuery::new(&config)
    }
}

#[cfg(test)]
mod tests {
    use test_support::http_server::{self, Server};

    use super::*;

    /// Starts a server that expects a request with the body `asked`, and responds with `answer`.
    /// Also returns a client for it.
    async fn client(asked: &'static str, status: u16, answer: &'static str) -> (AwsQuery, Server) {
        let server = Server::start(move |request| async move {
            let is_expected = request.body() == asked;
            Some(http_server::response(if is_expected { status } else { 418 }, answer))
        })
        .await;
        (examples::client(&server), server)
    }

    #[tokio::test]
    async fn a_query_is_a_form_and_its_answer_a_tree() {
        let xml = "<R xmlns=\"urn:x\"><vpcSet><item><vpcId>vpc-1</vpcId></item></vpcSet></R>";
        let asked = "Action=DescribeVpcs&Version=2016-11-15&VpcId.1=vpc-1+%26";
        let (client, _server) = client(asked, 200, xml).await;
        let root = client.query("ec2", "DescribeVpcs", &[("VpcId.1", "vpc-1 &")]).await.unwrap();
        assert_eq!(root.list("vpcSet").next().unwrap().text_of("vpcId"), "vpc-1");
    }

    #[tokio::test]
    async fn a_missing_right_is_told_from_other_failures() {
        let denied = "<Response><Errors><Error><Code>UnauthorizedOperation</Code>\
<Message>no &amp; no</Message></Error></Errors></Response>";
        let asked = "Action=DescribeAlarms&Version=2010-08-01";
        let (monitoring, _server) = client(asked, 403, denied).await;
        let error = monitoring.query("monitoring", "DescribeAlarms", &[]).await.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (AwsErrorKind::Denied, "no & no"));
        assert_eq!(error.permission(), "cloudwatch:DescribeAlarms");
        let other = r#"{"__type":"com.amazonaws#ResourceNotFoundException","message":"gone"}"#;
        let (secrets, _server) = client("{}", 400, other).await;
        let error = secrets.json("secretsmanager", "secretsmanager.DescribeSecret", &json!({})).await;
        let error = error.unwrap_err();
        assert_eq!((error.kind, error.code.as_str()), (AwsErrorKind::Other, "ResourceNotFoundException"));
        assert_eq!(
            error.to_string(),
            "secretsmanager:DescribeSecret failed: ResourceNotFoundException: gone"
        );
    }

    #[tokio::test]
    async fn an_answer_of_another_form_is_a_failure() {
        let asked = "Action=ListTopics&Version=2010-03-31";
        let (client, _server) = client(asked, 200, "<R><A></R>").await;
        let error = client.query("sns", "ListTopics", &[]).await.unwrap_err();
        assert_eq!(error.code, "unreadable answer");
    }
}
