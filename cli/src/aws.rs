//! AWS clients of a deployment, and the names of its resources.

use std::error::Error;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::timeout::TimeoutConfig;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use url::Url;

use crate::api::http::connector;
use crate::aws_query::{AwsQuery, Stack};
use crate::context::Context;
use crate::exit::{Exit, Explain as _, Failure, chain};

/// Time limit of one AWS call with its retries. It is short, because a person waits for the
/// command.
const OPERATION: Duration = Duration::from_secs(30);
/// Time limit of a Lambda invocation, which is longer than the timeout of any function.
const INVOCATION: Duration = Duration::from_secs(180);
const CONNECT: Duration = Duration::from_secs(5);

/// Names of a deployment's AWS resources, from a context or from a stack's outputs. `None` stands
/// for an unknown name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Names {
    /// Name of the DynamoDB table of API keys and target profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) access_table: Option<String>,
    /// Name of the DynamoDB table of idempotency records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_table: Option<String>,
    /// Name of the Lambda function that administers establishments. A stack without the ingest has
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) establishments_function: Option<String>,
    /// Name of the log group of audit events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) audit_log_group: Option<String>,
}

impl Names {
    /// Returns whether no name is known.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// AWS clients and resource names of one deployment.
#[derive(Debug)]
pub(crate) struct Aws {
    config: SdkConfig,
    stack: Option<String>,
    names: Names,
    /// Outputs and parameters of the stack, or the reason why they cannot be read. CloudFormation
    /// is asked at most once.
    described: OnceCell<Result<Stack, Failure>>,
}

impl Aws {
    /// Creates the clients, and sends no request yet.
    ///
    /// # Errors
    /// If no region is known.
    pub(crate) async fn of(context: &Context) -> Result<Self, Failure> {
        let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT).operation_timeout(OPERATION).build();
        let mut loader =
            aws_config::defaults(BehaviorVersion::latest()).http_client(client()).timeout_config(timeouts);
        if let Some(region) = &context.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(profile) = &context.aws_profile {
            loader = loader.profile_name(profile);
        }
        if let Some(local) = &context.local {
            let variable = |name| local.variable(name).unwrap_or_default();
            let (id, secret) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"));
            loader = loader
                .endpoint_url(variable("AWS_ENDPOINT_URL"))
                .credentials_provider(Credentials::new(id, secret, None, None, "local stack"));
        }
        let config = loader.load().await;
        if config.region().is_none() {
            return Err(Failure::usage("the AWS region is not known").next(
                "say --region, set AWS_REGION, or keep it: integrahub context create NAME --region REGION",
            ));
        }
        let (stack, names) = (context.stack.clone(), context.names.clone());
        Ok(Self { config, stack, names, described: OnceCell::new() })
    }

    /// Returns a DynamoDB client with the context's credentials.
    pub(crate) fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.config)
    }

    /// Returns a client of Lambda, which waits until a function has done its work.
    pub(crate) fn lambda(&self) -> aws_sdk_lambda::Client {
        let timeouts =
            TimeoutConfig::builder().connect_timeout(CONNECT).operation_timeout(INVOCATION).build();
        aws_sdk_lambda::Client::new(&self.config.to_builder().timeout_config(timeouts).build())
    }

    /// Returns a client for AWS services without an SDK crate in this program, such as
    /// CloudFormation.
    pub(crate) fn query(&self) -> AwsQuery {
        AwsQuery::new(&self.config)
    }

    /// Returns the base URL of the deployed API.
    ///
    /// # Errors
    /// If the stack cannot be read, or has no such output.
    pub(crate) async fn url(&self) -> Result<Url, Failure> {
        let url = self.output("ApiUrl").await?.ok_or_else(|| self.missing("ApiUrl"))?;
        url.parse().or_explain(|| format!("read the output ApiUrl `{url}`"))
    }

    /// Returns the name of the access table.
    ///
    /// # Errors
    /// If the stack cannot be read, or has no such output.
    pub(crate) async fn access_table(&self) -> Result<String, Failure> {
        self.name(self.names.access_table.as_ref(), "AccessTableName").await
    }

    /// Returns the name of the table of idempotency records.
    ///
    /// # Errors
    /// If the stack cannot be read, or has no such output.
    pub(crate) async fn idempotency_table(&self) -> Result<String, Failure> {
        self.name(self.names.idempotency_table.as_ref(), "IdempotencyTableName").await
    }

    /// Returns the name of the function that administers establishments.
    ///
    /// # Errors
    /// If the stack cannot be read, or has no such output because it lacks the ingest.
    pub(crate) async fn establishments_function(&self) -> Result<String, Failure> {
        self.name(self.names.establishments_function.as_ref(), "EstablishmentsFunctionName").await
    }

    /// Returns the name of the log group of audit events.
    ///
    /// # Errors
    /// If the stack cannot be read, or has no such output.
    pub(crate) async fn audit_log_group(&self) -> Result<String, Failure> {
        self.name(self.names.audit_log_group.as_ref(), "AuditLogGroupName").await
    }

    /// Returns the resource names in the stack's outputs. A name without an output is `None`.
    ///
    /// # Errors
    /// If the stack cannot be read.
    pub(crate) async fn names(&self) -> Result<Names, Failure> {
        Ok(Names {
            access_table: self.output("AccessTableName").await?,
            idempotency_table: self.output("IdempotencyTableName").await?,
            establishments_function: self.output("EstablishmentsFunctionName").await?,
            audit_log_group: self.output("AuditLogGroupName").await?,
        })
    }

    async fn name(&self, known: Option<&String>, output: &str) -> Result<String, Failure> {
        match known {
            Some(name) => Ok(name.clone()),
            None => self.output(output).await?.ok_or_else(|| self.missing(output)),
        }
    }

    fn missing(&self, output: &str) -> Failure {
        let stack = self.stack.as_deref().unwrap_or_default();
        Failure::new(Exit::Error, format!("the stack `{stack}` has no output {output}"))
            .why("it is another stack, of an earlier version, or without that part")
            .next("name the right stack: --stack NAME")
    }

    async fn output(&self, name: &str) -> Result<Option<String>, Failure> {
        Ok(self.described().await?.outputs.get(name).cloned())
    }

    /// Returns the value of a parameter that the stack was deployed with; `None` if the stack has
    /// no such parameter.
    ///
    /// # Errors
    /// If the stack is not known, or cannot be read.
    pub(crate) async fn parameter(&self, name: &str) -> Result<Option<String>, Failure> {
        Ok(self.described().await?.parameters.get(name).cloned())
    }

    async fn described(&self) -> Result<&Stack, Failure> {
        self.described.get_or_init(|| self.describe()).await.as_ref().map_err(Clone::clone)
    }

    async fn describe(&self) -> Result<Stack, Failure> {
        let Some(name) = &self.stack else {
            return Err(Failure::usage("it is not known which deployment this is about")
                .why("no stack, no table and no context is given, and no local stack runs here")
                .next("integrahub context create prod --stack integrahub --region sa-east-1 --use"));
        };
        let attempt = format!("read the outputs of the stack `{name}`");
        let found = Stack::describe(&self.query(), name).await;
        found.map_err(|error| error.into_failure(&attempt))?.ok_or_else(|| {
            Failure::new(Exit::Error, format!("could not {attempt}"))
                .why("there is no stack of this name in this region")
                .next("name the right one: --stack NAME --region REGION")
        })
    }
}

/// Builds the HTTP client of the AWS clients.
fn client() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new().build_with_connector_fn(|settings, _| connector(settings.cloned()))
}

/// Error codes of AWS that mean invalid credentials or a missing permission. A retry does not help.
const DENIED: [&str; 12] = [
    "AccessDenied",
    "AccessDeniedException",
    "AuthFailure",
    "AuthorizationError",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "SignatureDoesNotMatch",
    "UnauthorizedOperation",
    "UnrecognizedClientException",
];
/// Error codes of AWS after which the same call may succeed later, such as throttling.
const TEMPORARY: [&str; 7] = [
    "InternalServerError",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
];

/// Returns whether an AWS error code means invalid credentials or a missing permission.
pub(crate) fn is_denied(code: &str) -> bool {
    DENIED.contains(&code)
}

/// Returns whether the same call may succeed later after this AWS error code, such as throttling.
pub(crate) fn is_temporary(code: &str) -> bool {
    TEMPORARY.contains(&code)
}

/// Converts the error of an AWS SDK call to the failure of a command; `attempt` completes the
/// sentence "could not …".
pub(crate) fn failed<E, R>(attempt: &str, error: &SdkError<E, R>) -> Failure
where
    E: Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug + 'static,
{
    let what = format!("could not {attempt}");
    if has_no_credentials(error) {
        return Failure::new(Exit::Denied, what)
            .why("there are no AWS credentials that can be used")
            .next("log in (aws sso login, aws configure), or name a profile: --aws-profile NAME");
    }
    let Some(service) = error.as_service_error() else {
        return Failure::new(Exit::Temporary, what)
            .why(chain(error))
            .next("try again; if it stays, check the network, the region and the proxy (HTTPS_PROXY)");
    };
    let code = service.code().unwrap_or("unknown error").to_owned();
    let message = service.message().unwrap_or_default().to_owned();
    let why = format!("{code}: {message}");
    if is_denied(&code) {
        return Failure::new(Exit::Denied, what)
            .why(why)
            .next("deploy/access-policy.json has the rights that the commands need");
    }
    let exit = if is_temporary(&code) { Exit::Temporary } else { Exit::Error };
    Failure::new(exit, what).why(why)
}

fn has_no_credentials(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source())
        .any(<dyn std::error::Error>::is::<CredentialsError>)
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::error::ErrorMetadata;
    use aws_sdk_dynamodb::operation::scan::ScanError;

    use super::*;

    fn service(code: &str) -> Failure {
        let error = ScanError::generic(ErrorMetadata::builder().code(code).message("because").build());
        failed("read the table", &SdkError::<_, ()>::service_error(error, ()))
    }

    #[test]
    fn the_exit_code_says_whether_trying_again_helps() {
        assert_eq!(service("AccessDeniedException").exit, Exit::Denied);
        assert_eq!(service("ThrottlingException").exit, Exit::Temporary);
        let other = service("ResourceNotFoundException");
        assert_eq!(other.exit, Exit::Error);
        assert_eq!(other.to_string(), "could not read the table\nResourceNotFoundException: because");
        let silent = SdkError::<ScanError, ()>::timeout_error("nothing came");
        assert_eq!(failed("read the table", &silent).exit, Exit::Temporary);
    }

    #[test]
    fn missing_credentials_are_named_as_such() {
        let error = SdkError::<ScanError, ()>::construction_failure(CredentialsError::not_loaded_no_source());
        let failure = failed("read the table", &error);
        assert_eq!(failure.exit, Exit::Denied);
        assert!(failure.next.unwrap().contains("aws sso login"));
    }

    #[tokio::test]
    async fn a_name_that_is_known_is_not_looked_up() {
        let names = Names { access_table: Some("table".to_owned()), ..Names::default() };
        let context = Context { region: Some("sa-east-1".to_owned()), names, ..Context::default() };
        let aws = Aws::of(&context).await.unwrap();
        assert_eq!(aws.access_table().await.unwrap(), "table");
        assert_eq!(aws.idempotency_table().await.unwrap_err().exit, Exit::Usage);
    }

    #[tokio::test]
    async fn a_stack_that_cannot_be_read_is_asked_once() {
        let context = Context { region: Some("sa-east-1".to_owned()), ..Context::default() };
        let mut aws = Aws::of(&context).await.unwrap();
        let refused = aws.parameter("TenantLimit").await.unwrap_err();
        aws.stack = Some("dev".to_owned());
        assert_eq!(aws.parameter("TargetLimit").await.unwrap_err(), refused);
    }
}
