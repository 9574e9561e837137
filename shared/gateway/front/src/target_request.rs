//! The bodies of the operations that take a target, and little else.

use api::{Fault, Problem, Reason};
use mq::{
    AuthSpec, BrokerKind, CcdtUrl, ChannelName, ConnName, ExchangeName, List, ProfileName, QueueManagerName,
    QueueName, RoutingKey, SslSpec, TargetSpec,
};
use serde::Deserialize;

/// Declares the body of an operation that takes a target, and perhaps further members.
macro_rules! target_request {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $more:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            target: Option<TargetSpec>,
            target_ref: Option<ProfileName>,
            broker: Option<BrokerKind>,
            queue_manager: Option<QueueManagerName>,
            queue: Option<QueueName>,
            exchange: Option<ExchangeName>,
            routing_key: Option<RoutingKey>,
            channel: Option<ChannelName>,
            conn_name: Option<ConnName>,
            ccdt_url: Option<CcdtUrl>,
            ssl: Option<SslSpec>,
            auth: Option<AuthSpec>,
            $($(#[$of])* pub $more: $type,)*
        }

        impl $name {
            /// Converts the request's body to a target.
            ///
            /// # Errors
            /// `SCHEMA_VIOLATION` for members of a target beside `target` or `targetRef`.
            pub fn into_named(self) -> Result<NamedTarget, Problem> {
                let bare = TargetSpec {
                    broker: self.broker,
                    queue_manager: self.queue_manager,
                    queue: self.queue,
                    exchange: self.exchange,
                    routing_key: self.routing_key,
                    channel: self.channel,
                    conn_name: self.conn_name,
                    ccdt_url: self.ccdt_url,
                    ssl: self.ssl,
                    auth: self.auth,
                };
                named(self.target_ref, self.target, bare)
            }
        }
    };
}

target_request!(
    /// Body with `target`, `targetRef` or both; or with the members of a target by themselves, as
    /// the gateway's document has it for the connection test.
    TargetRequest {}
);

target_request!(
    /// Body as [`TargetRequest`], which may name queues in place of the target's.
    QueuesRequest {
        /// Queues of the request, in place of the target's own.
        queues: Option<List<QueueName, 1, 100>>,
    }
);

/// Place of the target in a request's body, which pointers to faults follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetPlace {
    /// The target is the member `target`.
    #[default]
    Member,
    /// The target is the member `from`.
    From,
    /// The target is the body itself.
    Body,
}

/// A request's target, before it is resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTarget {
    /// Name of the profile, if the request has one.
    pub target_ref: Option<ProfileName>,
    /// Target members that the request sets itself.
    pub target: Option<TargetSpec>,
    /// Place of the members in the body, for the problem that names one.
    pub place: TargetPlace,
    /// Routing keys that messages have of their own, each with the index of the first message that
    /// has it.
    pub routing_keys: Vec<(usize, RoutingKey)>,
    /// True if every message has a routing key of its own, so that the target's is not used.
    pub all_have_one: bool,
}

impl NamedTarget {
    /// Makes the target of an operation that has it in members of its own.
    #[must_use]
    pub const fn in_members(target_ref: Option<ProfileName>, target: Option<TargetSpec>) -> Self {
        Self { target_ref, target, place: TargetPlace::Member, routing_keys: Vec::new(), all_have_one: false }
    }

    /// Returns the first of the messages' routing keys, if the target's own is neither used nor
    /// named by the request.
    pub(crate) fn first_of_the_only_keys(&self) -> Option<&(usize, RoutingKey)> {
        let names_one = self.target.as_ref().is_some_and(|target| target.routing_key.is_some());
        self.routing_keys.first().filter(|_| self.all_have_one && !names_one)
    }
}

/// Returns the target of a body that has it in `target` and `targetRef`, or in its own members.
fn named(
    target_ref: Option<ProfileName>,
    target: Option<TargetSpec>,
    bare: TargetSpec,
) -> Result<NamedTarget, Problem> {
    if bare == TargetSpec::default() {
        return Ok(NamedTarget::in_members(target_ref, target));
    }
    if target.is_some() || target_ref.is_some() {
        return Err(beside_a_target(&bare));
    }
    Ok(NamedTarget { place: TargetPlace::Body, ..NamedTarget::in_members(None, Some(bare)) })
}

/// Builds the problem of target members next to `target` or `targetRef`.
fn beside_a_target(members: &TargetSpec) -> Problem {
    let members = serde_json::to_value(members).unwrap_or_default();
    let given = members.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let faults = given.map(|(name, _)| Fault {
        pointer: format!("/{name}"),
        detail: format!("goes into `target`: {{\"target\": {{\"{name}\": …}}}}"),
    });
    Problem::faulty(Reason::SchemaViolation, faults.collect())
}

impl TargetPlace {
    /// Returns a JSON Pointer (RFC 6901) to the object that holds the target's members.
    pub(crate) const fn pointer(self) -> &'static str {
        match self {
            Self::Member => "/target",
            Self::From => "/from/target",
            Self::Body => "",
        }
    }

    /// Makes the faults of `problem`, which a target's resolution found, point into the request's
    /// body.
    pub(crate) fn point(self, problem: Problem) -> Problem {
        if self == Self::Member || problem.faults.is_empty() {
            return problem;
        }
        let pointed = |fault: Fault| match fault.pointer.strip_prefix("/target") {
            Some(member) => Fault { pointer: format!("{}{member}", self.pointer()), ..fault },
            None => fault,
        };
        Problem::faulty(problem.reason, problem.faults.into_iter().map(pointed).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn named(body: Value) -> Result<NamedTarget, Problem> {
        api::json::read::<TargetRequest>(body)?.into_named()
    }

    #[test]
    fn the_bare_form_is_the_target_itself() {
        let members =
            json!({"queueManager": "QM1", "queue": "Q", "connName": "h:1", "auth": {"user": "app"}});
        let bare = named(members.clone()).unwrap();
        let inside = named(json!({"target": members})).unwrap();
        assert_eq!(bare.target, inside.target);
        assert_eq!((bare.place, inside.place), (TargetPlace::Body, TargetPlace::Member));
    }

    #[test]
    fn faults_point_to_where_the_target_is() {
        for (body, pointer) in [
            (json!({"connName": "h"}), "/connName"),
            (json!({"target": {"connName": "h"}}), "/target/connName"),
            (json!({"auth": {"usr": "a"}}), "/auth/usr"),
            (json!({"targetRef": "a", "queue": "Q"}), "/queue"),
            (json!({"target": {}, "ssl": {"enabled": true}, "queue": "Q"}), "/queue"),
        ] {
            assert_eq!(named(body.clone()).unwrap_err().faults[0].pointer, pointer, "{body}");
        }
        let missing = TargetPlace::Body.point(Problem::violation("/target/queue", "is required"));
        assert_eq!(
            (missing.faults[0].pointer.as_str(), missing.detail.as_str()),
            ("/queue", "/queue: is required")
        );
    }
}
