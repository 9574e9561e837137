//! JSON bodies of requests that consist mainly of a target, and the target as a request names it.

use api::{Fault, Problem, Reason};
use mq::{
    AuthSpec, BrokerKind, CcdtUrl, ChannelName, ConnName, ExchangeName, List, ProfileName, QueueManagerName,
    QueueName, RoutingKey, SslSpec, TargetSpec,
};
use serde::Deserialize;

/// Declares a request body that contains a target, and possibly further members.
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
            /// Converts the request's body to the target that it names.
            ///
            /// # Errors
            /// `SCHEMA_VIOLATION` if target members stand next to `target` or `targetRef`.
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
    /// Request body with `target`, `targetRef` or both, or with the target's members at the top
    /// level, as the public contract allows for the connection test.
    TargetRequest {}
);

target_request!(
    /// Request body like [`TargetRequest`] that may also name up to 100 queues to use in place of
    /// the target's queue.
    QueuesRequest {
        /// Queues to use in place of the target's queue; `None` to use the target's queue.
        queues: Option<List<QueueName, 1, 100>>,
    }
);

/// Location of the target in a request's body, from which the JSON Pointers of faults are built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetPlace {
    /// The target is the member `target` at the top level of the body.
    #[default]
    Member,
    /// The target is the member `target` of the member `from`.
    From,
    /// The members of the target are at the top level of the body, without `target` or `from`.
    Body,
}

/// Target as a request names it, before it is merged with its profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTarget {
    /// Name of the profile; `None` if the request names none.
    pub target_ref: Option<ProfileName>,
    /// Members of the target that the request sets itself, which take precedence over the
    /// profile's; `None` if it sets none.
    pub target: Option<TargetSpec>,
    /// Location of the target's members in the request's body, for JSON Pointers.
    pub place: TargetPlace,
    /// Routing keys that messages of a produce set for themselves, without duplicates, each with
    /// the index of the first message that has it.
    pub routing_keys: Vec<(usize, RoutingKey)>,
    /// True if every message of a produce sets its own routing key, so that the target's routing
    /// key is not used.
    pub all_have_routing_keys: bool,
}

impl NamedTarget {
    /// Creates the target of a request that has it in the members `target` and `targetRef`.
    #[must_use]
    pub const fn in_members(target_ref: Option<ProfileName>, target: Option<TargetSpec>) -> Self {
        Self {
            target_ref,
            target,
            place: TargetPlace::Member,
            routing_keys: Vec::new(),
            all_have_routing_keys: false,
        }
    }

    /// Returns the first of the routing keys that messages of a produce set for themselves, with
    /// the index of its message. `None` unless every message sets a key and the request's target
    /// sets none.
    pub(crate) fn first_of_the_only_keys(&self) -> Option<&(usize, RoutingKey)> {
        let names_one = self.target.as_ref().is_some_and(|target| target.routing_key.is_some());
        self.routing_keys.first().filter(|_| self.all_have_routing_keys && !names_one)
    }
}

/// Builds the named target of a request's body, which has the members `target` and `targetRef`, or
/// the target's members at its top level (`bare`). Refuses a body that has both.
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

/// Builds the problem of target members at the top level next to `target` or `targetRef`.
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
    /// Returns the JSON Pointer (RFC 6901) to the object that holds the target's members.
    pub(crate) const fn pointer(self) -> &'static str {
        match self {
            Self::Member => "/target",
            Self::From => "/from/target",
            Self::Body => "",
        }
    }

    /// Changes the JSON Pointers of the problem's faults from `/target` to the location of the
    /// target in this request's body.
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
