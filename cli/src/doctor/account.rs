//! Checks of the AWS account: its credentials, and its concurrent executions of Lambda.

use aws_sdk_lambda::Client;
use aws_sdk_lambda::types::AccountLimit;

use super::kinds::{CONCURRENCY, CREDENTIALS};
use super::parameters::Parameters;
use super::report::{Check, Known, Unknown};
use super::stack::Resource;
use crate::aws::failed;
use crate::aws_query::{AwsError, AwsErrorKind, AwsQuery};

/// Minimum number of unreserved concurrent executions that AWS demands in each account.
const UNRESERVED: i64 = 100;
/// Number of concurrent executions that AWS allows a new account.
const NEW_ACCOUNT: i64 = 10;
/// Numbers of API functions that each reserve `PublicReservedConcurrency` executions: in every
/// deployment, additionally with load tests, and additionally with the ingest.
const PUBLIC: (i64, i64, i64) = (6, 1, 2);
/// Number of ingest queues (notifications, payloads, chunks) whose triggers each run up to
/// `UpsertConcurrency` executions.
const TRIGGERS: i64 = 3;

/// AWS identity whose credentials this program uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    account: String,
    arn: String,
    region: String,
}

/// Numbers of concurrent Lambda executions: those of the account, and those that the stack
/// reserves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Concurrency {
    /// Concurrency limit of the account: Lambda executions at once, of all functions together.
    pub(crate) limit: i64,
    /// Part of the account's limit that no function has reserved.
    pub(crate) unreserved: i64,
    /// Sum of the reserved concurrency of the stack's functions; 0 if none has any.
    pub(crate) reserved: i64,
}

/// Asks AWS for the account and the user or role that the credentials belong to.
pub(crate) async fn identity(client: &AwsQuery) -> Result<Identity, AwsError> {
    let answer = client.query("sts", "GetCallerIdentity", &[]).await?;
    Ok(Identity {
        account: answer.text_of("Account").to_owned(),
        arn: answer.text_of("Arn").to_owned(),
        region: client.region().to_owned(),
    })
}

/// Requests the concurrency limit of the account, and adds up the reserved concurrency of the
/// Lambda functions in `resources`.
pub(crate) async fn concurrency(client: &Client, resources: &Known<Vec<Resource>>) -> Known<Concurrency> {
    let settings = client.get_account_settings().send().await.map_err(|error| {
        Unknown::of_failure(&failed("read the account's limits", &error), "lambda:GetAccountSettings")
    })?;
    let limit = settings.account_limit();
    let mut found = Concurrency {
        limit: limit.map_or(0, |limit| limit.concurrent_executions().into()),
        unreserved: limit.and_then(AccountLimit::unreserved_concurrent_executions).unwrap_or(0).into(),
        reserved: 0,
    };
    let functions = resources.as_deref().unwrap_or_default();
    for function in functions.iter().filter(|resource| resource.kind == "AWS::Lambda::Function") {
        let asked = client.get_function_concurrency().function_name(&function.id).send().await;
        let reserved = asked.map_err(|error| {
            let failure = failed("read what a function reserves", &error);
            Unknown::of_failure(&failure, "lambda:GetFunctionConcurrency")
        })?;
        found.reserved += i64::from(reserved.reserved_concurrent_executions().unwrap_or(0));
    }
    Ok(found)
}

/// Checks that AWS accepted the credentials.
pub(crate) fn credentials(identity: &Result<Identity, AwsError>) -> Check {
    match identity {
        Ok(Identity { account, arn, region }) => {
            CREDENTIALS.ok(format!("account {account} in {region}, as {arn}"))
        }
        Err(error) => match error.kind {
            AwsErrorKind::Unreachable => CREDENTIALS
                .fail(error.to_string(), "check the network, the region and the proxy (HTTPS_PROXY)"),
            AwsErrorKind::NoCredentials | AwsErrorKind::Denied => CREDENTIALS.fail(
                error.to_string(),
                "log in (aws sso login, aws configure), or name a profile: --aws-profile NAME",
            ),
            AwsErrorKind::Temporary | AwsErrorKind::Other => CREDENTIALS.skip(&error.clone().into()),
        },
    }
}

/// Returns whether every AWS call would fail, because AWS cannot be reached or accepts no
/// credentials.
pub(crate) fn is_shut_out(identity: &Result<Identity, AwsError>) -> bool {
    let kinds = [AwsErrorKind::Unreachable, AwsErrorKind::NoCredentials, AwsErrorKind::Denied];
    identity.as_ref().is_err_and(|error| kinds.contains(&error.kind))
}

/// Returns the number of concurrent executions that a deployment with these parameters reserves.
fn reservation(parameters: &Parameters) -> i64 {
    let (every, with_load_tests, with_ingest) = PUBLIC;
    let mut functions = every;
    let mut reserved = parameters.number("MqAccessReservedConcurrency");
    if parameters.get("LoadTests") == "true" {
        functions += with_load_tests;
        reserved += parameters.number("LoadTestReservedConcurrency");
    }
    if parameters.has_ingest() {
        functions += with_ingest;
    }
    reserved + functions * parameters.number("PublicReservedConcurrency")
}

/// Checks whether the account has enough concurrent executions for a deployment with these
/// parameters. If `before` is true, the deployment is still to come.
pub(crate) fn executions(found: &Known<Concurrency>, parameters: &Parameters, before: bool) -> Check {
    let Concurrency { limit, unreserved, reserved } = match found {
        Ok(found) => *found,
        Err(unknown) => return CONCURRENCY.skip(unknown),
    };
    let raise = "ask for a higher quota \"Concurrent executions\" of Lambda in Service Quotas";
    let needed = reservation(parameters);
    let left = unreserved + reserved - needed;
    if before && needed > 0 && left < UNRESERVED {
        return CONCURRENCY.fail(
            format!(
                "the parameters reserve {needed} executions, which leaves {left} of {limit} unreserved; AWS refuses \
                 less than {UNRESERVED}"
            ),
            format!("reserve fewer (PublicReservedConcurrency, MqAccessReservedConcurrency, LoadTestReservedConcurrency), or {raise}"),
        );
    }
    let triggered = TRIGGERS * parameters.number("UpsertConcurrency");
    let free = if before { left } else { unreserved };
    if parameters.has_ingest() && triggered > free {
        return CONCURRENCY.warn(
            format!(
                "the ingest may run {triggered} executions at once, and {free} are unreserved: what exceeds them is \
                 throttled, which counts as an attempt"
            ),
            format!("lower UpsertConcurrency, or {raise}"),
        );
    }
    if limit <= NEW_ACCOUNT {
        return CONCURRENCY.warn(
            format!(
                "the account may run {limit} executions at once: five consumers that wait take all of them"
            ),
            raise,
        );
    }
    CONCURRENCY
        .ok(format!("{limit} at once, {unreserved} of them unreserved, {reserved} reserved by this stack"))
}

#[cfg(test)]
mod tests {
    use super::super::parameters::tests::parameters;
    use super::super::report::Status;
    use super::*;

    fn judged(found: Concurrency, pairs: &[(&str, &str)], before: bool) -> Check {
        executions(&Ok(found), &parameters(pairs), before)
    }

    const OLD: Concurrency = Concurrency { limit: 1000, unreserved: 900, reserved: 100 };
    const NEW: Concurrency = Concurrency { limit: 10, unreserved: 10, reserved: 0 };

    #[test]
    fn a_deployment_that_reserves_too_much_is_refused_by_aws() {
        assert_eq!(judged(OLD, &[], true).status, Status::Ok);
        let ingest = ("DatabaseSecretArn", "arn");
        let public = ("PublicReservedConcurrency", "120");
        // 6 functions take 720 of the 1,000; 9 would take 1,080.
        assert_eq!(judged(OLD, &[public], true).status, Status::Ok);
        let check = judged(OLD, &[public, ingest, ("LoadTests", "true")], true);
        assert_eq!(check.status, Status::Fail);
        assert!(
            check.detail.contains("reserve 1080") && check.detail.contains("-80 of 1000"),
            "{}",
            check.detail
        );
        assert_eq!(judged(NEW, &[("MqAccessReservedConcurrency", "1")], true).status, Status::Fail);
        assert_eq!(judged(OLD, &[public, ingest, ("LoadTests", "true")], false).status, Status::Ok);
    }

    #[test]
    fn a_new_account_is_warned_of() {
        assert_eq!(judged(NEW, &[], false).status, Status::Warn);
        let ingest = [("CreateDatabase", "true"), ("UpsertConcurrency", "10")];
        let check = judged(NEW, &ingest, true);
        assert!(check.status == Status::Warn && check.detail.contains("30 executions"), "{}", check.detail);
        let skipped = executions(&Err(Unknown::Denied("a:B".to_owned())), &Parameters::default(), true);
        assert_eq!(skipped.status, Status::Skip);
    }

    #[test]
    fn the_template_reserves_for_as_many_public_functions() {
        let template = include_str!("../../../template.yaml");
        let reserved =
            template.matches("ReservedConcurrentExecutions: !If [HasPublicReservedConcurrency,").count();
        assert_eq!(i64::try_from(reserved).unwrap(), PUBLIC.0 + PUBLIC.1 + PUBLIC.2);
    }

    #[test]
    fn credentials_that_do_not_work_fail() {
        let identity = Identity { account: "1".into(), arn: "arn".into(), region: "sa-east-1".into() };
        assert_eq!(credentials(&Ok(identity)).detail, "account 1 in sa-east-1, as arn");
        let error = AwsError {
            service: "sts".into(),
            action: "GetCallerIdentity".into(),
            kind: AwsErrorKind::Denied,
            code: "ExpiredToken".into(),
            message: String::new(),
        };
        let check = credentials(&Err(error));
        assert_eq!(check.status, Status::Fail);
        assert!(check.fix.unwrap().contains("aws sso login"));
    }
}
