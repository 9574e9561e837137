//! Adds advice to failures, depending on the target: on which virtual host or queue manager a queue
//! is missing, and who owns a refused login. The crates of the brokers know neither the origin of a
//! login nor who can correct it.

use api::{Problem, Reason};
use mq::{BrokerKind, PasswordOrigin, Target, TestReport};

/// Adds advice to the problem of a missing queue or a refused login, for example which name to
/// check.
pub(crate) fn problem(mut problem: Problem, target: &Target) -> Problem {
    let more = match problem.reason {
        // With an exchange, the same reason is about its bindings.
        Reason::QueueNotFound if target.exchange.is_none() => place(target),
        // Only a refusal by the broker, not a secret that cannot be read.
        Reason::AuthenticationFailed if problem.extensions.contains_key("broker") => login(target),
        _ => None,
    };
    if let Some(more) = more {
        problem.detail.push_str(&more);
    }
    problem
}

/// Adds advice to the steps of a connection test that failed because of a missing queue or a
/// refused login.
pub(crate) fn report(mut report: TestReport, target: &Target) -> TestReport {
    for step in &mut report.steps {
        let more = match step.code {
            Some("QUEUE_NOT_FOUND") => place(target),
            Some("AUTHENTICATION_FAILED") => login(target),
            _ => None,
        };
        if let (Some(detail), Some(more)) = (&mut step.detail, more) {
            detail.push_str(&more);
        }
    }
    report
}

/// Returns advice that names the virtual host or queue manager on which a queue is missing. It
/// names no queue manager if the target's channel may lead to any of several.
fn place(target: &Target) -> Option<String> {
    let name = &target.endpoint.queue_manager;
    let whole = !name.is_empty() && !name.starts_with('*');
    let place = match target.endpoint.broker {
        BrokerKind::RabbitMq => format!("in the virtual host `{name}`"),
        BrokerKind::IbmMq if whole => format!("on the queue manager `{name}`"),
        BrokerKind::IbmMq => "on the queue manager that the channel leads to".to_owned(),
    };
    Some(format!(" {place}: check the name, of which case matters, or ask the operator to create it"))
}

/// Returns advice that names the owner of a refused login: the profile, or the secret in the
/// request. `None` if the target has no password. User names are not shown: a secret's own user is
/// part of the secret, and a profile's login is shown to its operator alone.
fn login(target: &Target) -> Option<String> {
    let password = target.endpoint.password_ref.as_ref()?;
    Some(match &target.password_origin {
        PasswordOrigin::Profile(name) => {
            format!(": the login of the profile `{}` is wrong, tell its operator", name.as_str())
        }
        // The user may be the profile's.
        PasswordOrigin::Request { target: pointer } => {
            format!(": the password of `{password}`, which {pointer}/auth names, does not belong to the user")
        }
    })
}

#[cfg(test)]
mod tests {
    use mq::{BrokerError, BrokerReply, Endpoint};
    use orders::from_broker;

    use super::*;

    fn target(broker: BrokerKind, queue_manager: &str, password_origin: PasswordOrigin) -> Target {
        Target {
            endpoint: Endpoint {
                broker,
                queue_manager: queue_manager.to_owned(),
                user: Some("app".to_owned()),
                password_ref: Some("secret://mq/app".to_owned().try_into().unwrap()),
                ..Endpoint::default()
            },
            password_origin,
            ..Target::default()
        }
    }

    fn detail(error: &BrokerError, target: &Target) -> String {
        problem(from_broker(error), target).detail
    }

    #[test]
    fn a_queue_that_does_not_exist_is_said_to_be_missing_in_its_place() {
        let missing = BrokerError::queue_not_found("ORDERS".to_owned().try_into().unwrap());
        let said = |broker, name| detail(&missing, &target(broker, name, PasswordOrigin::default()));
        let rabbit = said(BrokerKind::RabbitMq, "/");
        assert!(
            rabbit.starts_with("the queue `ORDERS` does not exist in the virtual host `/`: check"),
            "{rabbit}"
        );
        assert!(said(BrokerKind::IbmMq, "QM1").contains("on the queue manager `QM1`: check"));
        assert!(said(BrokerKind::IbmMq, "*GROUP").contains("that the channel leads to: check"));
    }

    #[test]
    fn a_refused_login_is_said_to_be_the_request_s_or_the_profile_s() {
        let reply = BrokerReply { product: "RabbitMQ", code: 403, name: "ACCESS_REFUSED" };
        let refused = BrokerError::authentication_failed("refused").with_reply(reply);
        let said = |origin| detail(&refused, &target(BrokerKind::RabbitMq, "/", origin));
        let of_request = said(PasswordOrigin::default());
        assert_eq!(
            of_request,
            "refused: the password of `secret://mq/app`, which /target/auth names, does not belong to the user"
        );
        let of_profile = said(PasswordOrigin::Profile("orders".to_owned().try_into().unwrap()));
        assert_eq!(of_profile, "refused: the login of the profile `orders` is wrong, tell its operator");
        // A secret that cannot be read is not a refusal by the broker.
        let unread = BrokerError::authentication_failed("the secret cannot be read");
        let origin = PasswordOrigin::default();
        let unread_detail = detail(&unread, &target(BrokerKind::RabbitMq, "/", origin));
        assert_eq!(unread_detail, "the secret cannot be read");
    }
}
