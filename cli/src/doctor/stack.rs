//! Checks of the CloudFormation stack: its state, and its outputs. Its resources are read here too.

use super::kinds::{OUTPUTS, STATE};
use super::report::{Check, Known, Unknown};
use crate::aws_query::{AwsQuery, Node, Stack};

/// Maximum number of pages of a stack's resources: a stack has at most 500, and a page 100.
const MOST_PAGES: usize = 10;
/// Names of the stack's outputs that this program and the API's users cannot do without.
const NEEDED: [&str; 4] = ["ApiUrl", "AccessTableName", "IdempotencyTableName", "MqAccessFunctionName"];

/// Resource of a CloudFormation stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// CloudFormation type of the resource, such as `AWS::CloudWatch::Alarm`.
    pub(crate) kind: String,
    /// Physical id of the resource: its name or id in its service.
    pub(crate) id: String,
}

/// Reads all resources of a CloudFormation stack.
pub(crate) async fn resources(client: &AwsQuery, name: &str) -> Known<Vec<Resource>> {
    let (action, asked, list) = ("ListStackResources", [("StackName", name)], "StackResourceSummaries");
    let (found, _) = client.pages("cloudformation", action, &asked, list, MOST_PAGES).await?;
    let resource = |item: &Node| Resource {
        kind: item.text_of("ResourceType").to_owned(),
        id: item.text_of("PhysicalResourceId").to_owned(),
    };
    Ok(found.iter().map(resource).collect())
}

/// Checks the state of a stack. If `before` is true, the deployment is still to come, and a stack
/// that does not exist is no fault.
pub(crate) fn state(stack: &Known<Option<Stack>>, before: bool) -> Check {
    let stack = match stack {
        Err(unknown) => return STATE.skip(unknown),
        Ok(None) if before => return STATE.ok("there is no stack of this name yet"),
        Ok(None) => {
            return STATE.fail(
                "there is no stack of this name in this region",
                "deploy it, or name the right one: --stack NAME --region REGION",
            );
        }
        Ok(Some(stack)) => stack,
    };
    let Stack { name, state, reason, .. } = stack;
    let said = if reason.is_empty() { state.clone() } else { format!("{state}: {reason}") };
    let delete = format!("aws cloudformation delete-stack --stack-name {name}");
    match state.as_str() {
        "CREATE_COMPLETE" | "UPDATE_COMPLETE" | "IMPORT_COMPLETE" => STATE.ok(format!("{name} is {state}")),
        "REVIEW_IN_PROGRESS" if before => STATE.ok("a change set waits, and nothing is deployed"),
        "UPDATE_ROLLBACK_COMPLETE" | "IMPORT_ROLLBACK_COMPLETE" => STATE.warn(
            said,
            "the last update was rolled back: the first failed event of the stack says why",
        ),
        "UPDATE_ROLLBACK_FAILED" => STATE.fail(
            said,
            format!(
                "aws cloudformation continue-update-rollback --stack-name {name}; if the database is away, with \
                 --resources-to-skip Migration"
            ),
        ),
        "ROLLBACK_COMPLETE" | "REVIEW_IN_PROGRESS" => {
            STATE.fail(said, format!("nothing is deployed, and no update is possible: {delete}, then deploy again"))
        }
        "ROLLBACK_FAILED" | "DELETE_FAILED" => {
            // AWS forces the deletion of a stack only after one that failed.
            let first = if state == "DELETE_FAILED" {
                String::new()
            } else {
                format!("{delete}; if that ends as DELETE_FAILED: ")
            };
            let fix = format!(
                "{first}{delete} --deletion-mode FORCE_DELETE_STACK, remove what stays (tables, buckets, a new \
                 database), then deploy again"
            );
            STATE.fail(said, fix)
        }
        other if other.ends_with("_IN_PROGRESS") => STATE.warn(said, "wait for its end, and look again"),
        _ => STATE.fail(said, "the first failed event of the stack says why"),
    }
}

/// Checks that an existing stack has the outputs that this program and the API's users need.
pub(crate) fn outputs(stack: &Known<Option<Stack>>) -> Check {
    let absent = Unknown::NotAsked("there is no stack that could have outputs".to_owned());
    let stack = match stack {
        Err(unknown) => return OUTPUTS.skip(unknown),
        Ok(None) => return OUTPUTS.skip(&absent),
        Ok(Some(stack)) => stack,
    };
    let missing: Vec<&str> = NEEDED.into_iter().filter(|&name| !stack.outputs.contains_key(name)).collect();
    if missing.is_empty() {
        return OUTPUTS.ok(format!("{} outputs", stack.outputs.len()));
    }
    OUTPUTS.fail(
        format!("{} has no output {}", stack.name, missing.join(", ")),
        "it is another stack, or of an earlier version: name the right one, or deploy this version",
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::report::Status;
    use super::*;

    pub(crate) fn stack(state: &str) -> Stack {
        let outputs = NEEDED.map(|name| (name.to_owned(), "x".to_owned()));
        Stack { name: "dev".to_owned(), state: state.to_owned(), outputs: outputs.into(), ..Stack::default() }
    }

    fn judged(state_of: &str, before: bool) -> Status {
        state(&Ok(Some(stack(state_of))), before).status
    }

    #[test]
    fn a_state_says_whether_requests_and_deployments_work() {
        for (of_stack, before, expected) in [
            ("UPDATE_COMPLETE", false, Status::Ok),
            ("UPDATE_ROLLBACK_COMPLETE", false, Status::Warn),
            ("UPDATE_IN_PROGRESS", false, Status::Warn),
            ("ROLLBACK_COMPLETE", true, Status::Fail),
            ("UPDATE_ROLLBACK_FAILED", false, Status::Fail),
            ("ROLLBACK_FAILED", false, Status::Fail),
            ("REVIEW_IN_PROGRESS", true, Status::Ok),
            ("REVIEW_IN_PROGRESS", false, Status::Fail),
            ("DELETE_COMPLETE", false, Status::Fail),
        ] {
            assert_eq!(judged(of_stack, before), expected, "{of_stack}");
        }
        assert_eq!(state(&Ok(None), true).status, Status::Ok);
        assert_eq!(state(&Ok(None), false).status, Status::Fail);
        assert_eq!(state(&Err(Unknown::Denied("a:B".to_owned())), false).status, Status::Skip);
    }

    #[test]
    fn a_deletion_is_forced_only_after_one_that_failed() {
        let fix = |of_stack| state(&Ok(Some(stack(of_stack))), false).fix.unwrap();
        let plain = "aws cloudformation delete-stack --stack-name dev;";
        assert!(fix("ROLLBACK_FAILED").starts_with(plain), "{}", fix("ROLLBACK_FAILED"));
        for of_stack in ["ROLLBACK_FAILED", "DELETE_FAILED"] {
            assert_eq!(fix(of_stack).matches("FORCE_DELETE_STACK").count(), 1);
        }
        assert!(!fix("DELETE_FAILED").contains(plain));
    }

    #[test]
    fn an_output_that_is_missing_is_named() {
        assert_eq!(outputs(&Ok(Some(stack("CREATE_COMPLETE")))).status, Status::Ok);
        let mut other = stack("CREATE_COMPLETE");
        other.outputs.remove("ApiUrl");
        let check = outputs(&Ok(Some(other)));
        assert_eq!((check.status, check.detail.as_str()), (Status::Fail, "dev has no output ApiUrl"));
        assert_eq!(outputs(&Ok(None)).status, Status::Skip);
    }
}
