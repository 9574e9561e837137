//! Results of the checks that `doctor` makes: what was found, and what to do about it.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::aws_query::{AwsError, AwsErrorKind};
use crate::exit::{Exit, Failure};

/// Advice for a missing AWS permission: the policy files in this repository that grant it, first
/// for the access table, then for everything else.
const POLICY_ADVICE: [&str; 2] = [
    "deploy/access-policy.json has it",
    "deploy/deployer-policy.json and deploy/operator-policy.json have it",
];

/// Outcome of a check that `doctor` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// The check found no fault.
    Ok,
    /// The checked part of the deployment works, but needs attention.
    Warn,
    /// The checked part of the deployment does not work.
    Fail,
    /// The check could not be made, because a fact is unknown.
    Skip,
}

/// Part of a deployment, such as its network, under which checks are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Group {
    Account,
    Stack,
    Network,
    Secrets,
    Database,
    Broker,
    Alarms,
    Topics,
}

/// Kind of check that `doctor` makes, such as the state of the stack. Its id never changes, because
/// programs search for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Id by which programs find the check in the report.
    pub(crate) id: &'static str,
    /// Part of the deployment that the check is about.
    pub(crate) group: Group,
    /// Title of the check, for people.
    pub(crate) title: &'static str,
    /// Page of the documentation that explains the check.
    pub(crate) docs: &'static str,
}

/// Result of one check that `doctor` makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// Id by which programs find the check in the report.
    pub(crate) id: &'static str,
    /// Resource that the check is about; `None` unless the same check is made for several
    /// resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) about: Option<String>,
    /// Title of the check, for people.
    pub(crate) title: &'static str,
    /// Part of the deployment that was checked.
    pub(crate) group: Group,
    /// Outcome of the check.
    pub(crate) status: Status,
    /// Sentence about what the check found.
    pub(crate) detail: String,
    /// Next step for the person who reads the report; `None` if the check suggests none.
    pub(crate) fix: Option<String>,
    /// Page of the documentation that explains the check.
    pub(crate) docs: &'static str,
}

/// Reason why `doctor` does not know a fact about the deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The credentials lack the AWS permission with this name.
    Denied(String),
    /// The request for the fact failed, for this reason.
    Failed(String),
    /// Nothing was asked, for example because the resource does not exist. The text is a sentence
    /// with the reason.
    NotAsked(String),
}

/// Fact about the deployment, or the reason why it is unknown.
pub(crate) type Known<T> = Result<T, Unknown>;

impl Kind {
    fn check(&self, status: Status, detail: impl Into<String>, fix: Option<String>) -> Check {
        let Self { id, group, title, docs } = *self;
        Check { id, about: None, title, group, status, detail: detail.into(), fix, docs }
    }

    /// Creates the result of a check that found no fault.
    pub(crate) fn ok(&self, detail: impl Into<String>) -> Check {
        self.check(Status::Ok, detail, None)
    }

    /// Creates the result of a check that found a part that works, but needs attention.
    pub(crate) fn warn(&self, detail: impl Into<String>, fix: impl Into<String>) -> Check {
        self.check(Status::Warn, detail, Some(fix.into()))
    }

    /// Creates the result of a check that found a fault.
    pub(crate) fn fail(&self, detail: impl Into<String>, fix: impl Into<String>) -> Check {
        self.check(Status::Fail, detail, Some(fix.into()))
    }

    /// Creates the result of a check that could not be made, because a fact is unknown.
    pub(crate) fn skip(&self, unknown: &Unknown) -> Check {
        match unknown {
            Unknown::Denied(right) => {
                let [of_access, of_others] = POLICY_ADVICE;
                let policy = if right.starts_with("dynamodb:") { of_access } else { of_others };
                let detail = format!("the credentials lack the right {right}");
                self.check(Status::Skip, detail, Some(policy.to_owned()))
            }
            Unknown::Failed(why) => self.check(Status::Skip, format!("it could not be asked: {why}"), None),
            Unknown::NotAsked(why) => self.check(Status::Skip, why.clone(), None),
        }
    }
}

impl Check {
    /// Returns the result with `thing` as the resource that the check is about.
    #[must_use]
    pub(crate) fn about(self, thing: impl Into<String>) -> Self {
        Self { about: Some(thing.into()), ..self }
    }

    /// Returns the result as lines of the text report: the outcome, and the next step if there is
    /// one.
    pub(crate) fn lines(&self) -> Vec<String> {
        let word = match self.status {
            Status::Ok => "ok  ",
            Status::Warn => "warn",
            Status::Fail => "FAIL",
            Status::Skip => "skip",
        };
        let about = self.about.as_ref().map_or_else(String::new, |about| format!(" {about}"));
        let mut lines = vec![format!("{word}  {}{about}: {}", self.id, self.detail)];
        lines.extend(self.fix.iter().map(|fix| format!("      {fix} ({})", self.docs)));
        lines
    }
}

impl Unknown {
    /// Converts the failure of an AWS call. `right` is the name of the permission that the call
    /// needs.
    pub(crate) fn of_failure(failure: &Failure, right: &str) -> Self {
        if failure.exit == Exit::Denied {
            return Self::Denied(right.to_owned());
        }
        let why = failure.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        Self::Failed(format!("{}{why}", failure.what))
    }
}

impl From<AwsError> for Unknown {
    fn from(error: AwsError) -> Self {
        if error.kind == AwsErrorKind::Denied {
            return Self::Denied(error.permission());
        }
        Self::Failed(error.to_string())
    }
}

/// Returns the number of checks with each status, beside the name of the status.
pub(crate) fn counts(checks: &[Check]) -> [(&'static str, usize); 4] {
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    [
        ("ok", count(Status::Ok)),
        ("warn", count(Status::Warn)),
        ("fail", count(Status::Fail)),
        ("skip", count(Status::Skip)),
    ]
}

/// Returns the report as JSON, with the counts and all checks. `before` is true for a report about
/// a deployment that is still to come.
pub(crate) fn document(before: bool, checks: &[Check]) -> Value {
    let counts: Map<String, Value> =
        counts(checks).into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect();
    json!({"before": before, "counts": counts, "checks": checks})
}

/// Returns the exit code of `doctor`. Warnings change it only if `strict` is true.
pub(crate) fn exit(checks: &[Check], strict: bool) -> Exit {
    let has = |status| checks.iter().any(|check| check.status == status);
    if has(Status::Fail) {
        Exit::Faulty
    } else if strict && has(Status::Warn) {
        Exit::Doubtful
    } else {
        Exit::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind =
        Kind { id: "stack.state", group: Group::Stack, title: "state", docs: "docs/deploy.md" };

    #[test]
    fn the_exit_code_says_the_worst() {
        let (ok, warn, fail) = (KIND.ok("a"), KIND.warn("b", "c"), KIND.fail("d", "e"));
        let skip = KIND.skip(&Unknown::NotAsked("f".to_owned()));
        assert_eq!(exit(&[ok.clone(), skip.clone()], true), Exit::Done);
        assert_eq!(exit(&[ok.clone(), warn.clone()], false), Exit::Done);
        assert_eq!(exit(&[ok.clone(), warn.clone()], true), Exit::Doubtful);
        assert_eq!(exit(&[ok.clone(), warn.clone(), fail.clone()], true), Exit::Faulty);
        let counted = document(false, &[ok, warn, fail, skip]);
        assert_eq!(counted["counts"], json!({"ok": 1, "warn": 1, "fail": 1, "skip": 1}));
        assert_eq!(
            counted["checks"][2],
            json!({"id": "stack.state", "title": "state", "group": "stack", "status": "fail",
                "detail": "d", "fix": "e", "docs": "docs/deploy.md"})
        );
    }

    #[test]
    fn people_read_what_is_wrong_and_what_to_do() {
        let check = KIND.fail("it is gone", "deploy it").about("dev");
        assert_eq!(check.lines(), ["FAIL  stack.state dev: it is gone", "      deploy it (docs/deploy.md)"]);
        assert_eq!(KIND.ok("fine").lines(), ["ok    stack.state: fine"]);
    }

    #[test]
    fn a_skip_names_the_missing_right() {
        let denied = Failure::new(Exit::Denied, "could not invoke it").why("AccessDenied: no");
        let unknown = Unknown::of_failure(&denied, "lambda:InvokeFunction");
        assert!(KIND.skip(&unknown).detail.ends_with("lambda:InvokeFunction"));
        assert!(KIND.skip(&unknown).fix.unwrap().contains("deploy/operator-policy.json"));
        let of_access = KIND.skip(&Unknown::Denied("dynamodb:Scan".to_owned()));
        assert_eq!(of_access.fix.as_deref(), Some("deploy/access-policy.json has it"));
        let away = Failure::new(Exit::Temporary, "could not invoke it").why("no answer");
        let unknown = Unknown::of_failure(&away, "lambda:InvokeFunction");
        assert_eq!(unknown, Unknown::Failed("could not invoke it: no answer".to_owned()));
    }
}
