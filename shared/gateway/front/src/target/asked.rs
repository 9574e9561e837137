//! Resolves the target that a request names, and checks by the rules of the crate `mq` that the
//! caller may use it and the other queues of the request.

use api::{Fault, Problem, Reason, cut};
use mq::{AllowedTargets, PasswordOrigin, Profile, QueueName, RoutingKey, Target, TargetError, TargetSpec};
use orders::from_target;

use crate::operation::{QueueRule, Reports};
use crate::target_request::NamedTarget;

/// Target that a request names, with the profile and the allow-list that decide whether the caller
/// may use it.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) profile: Option<&'a Profile>,
    pub(super) named: &'a NamedTarget,
    pub(super) allowed: AllowedTargets<'a>,
}

impl Asked<'_> {
    /// Checks that the caller may use the reply queue for IBM MQ's reports, as if it were the
    /// target's queue, because the queue manager puts the reports on it. Refuses a reply queue on
    /// another queue manager.
    pub(super) fn check_reports(
        self,
        target: &Target,
        Reports { pointer, place }: &Reports,
    ) -> Result<(), Problem> {
        let pointer = format!("{pointer}/replyTo");
        let queue = QueueName::try_from(String::from(place.queue.clone()));
        let queue = queue.map_err(|rule| Problem::violation(pointer.clone(), rule))?;
        let is_elsewhere = |manager: &str| manager != target.endpoint.queue_manager;
        if place.queue_manager.as_deref().is_some_and(is_elsewhere) {
            let detail = "a message that asks for reports may have no replyToQueueManager other than the target's: the reports would go there";
            return Err(Problem::new(Reason::TargetNotAllowed, detail));
        }
        self.with_queue(&queue).map(drop).map_err(|problem| {
            let mut problem = of_queue(&queue, relocate(problem, "/target/queue", &pointer));
            if problem.faults.is_empty() {
                problem.detail.push_str("; the reports that the message asks for would go there");
            }
            problem
        })
    }

    /// Checks that the caller may use the destination queue of a move, as if it were the target's
    /// queue.
    pub(super) fn check_further(self, queue: &QueueName) -> Result<(), Problem> {
        self.with_queue(queue).map(drop).map_err(|problem| relocate(problem, "/target", "/to"))
    }

    /// Resolves a target whose work uses the queues `names` in place of the target's own. Each
    /// queue is checked as if it were the target's, and the first becomes the target's. `pointer`
    /// returns the JSON Pointer to the queue at an index.
    pub(super) fn in_place(
        self,
        names: &[QueueName],
        pointer: impl Fn(usize) -> String,
    ) -> Result<Target, Problem> {
        self.check_named()?;
        let mut first = None;
        for (index, name) in names.iter().enumerate() {
            let target = self.with_queue(name);
            let target = target
                .map_err(|problem| of_queue(name, relocate(problem, "/target/queue", &pointer(index))))?;
            first.get_or_insert(target);
        }
        first.ok_or_else(|| Problem::violation("/queues", "must name a queue"))
    }

    /// Resolves the target with `queue` in place of its own queue.
    fn with_queue(self, queue: &QueueName) -> Result<Target, Problem> {
        let target =
            TargetSpec { queue: Some(queue.clone()), ..self.named.target.clone().unwrap_or_default() };
        let named = NamedTarget { target: Some(target), ..self.named.clone() };
        Asked { named: &named, ..self }.complete(QueueRule::Required)
    }

    /// Resolves the target, and checks that it has the queue or exchange that the operation needs.
    pub(super) fn complete(self, queue: QueueRule) -> Result<Target, Problem> {
        self.check_named()?;
        let Self { profile, named, allowed } = self;
        let inline = named.target.as_ref();
        let first = named.first_of_the_only_keys();
        let resolved = match first {
            None => Target::resolve(profile, inline, allowed),
            Some((_, key)) => self.resolve_with_key(key),
        };
        let target = resolved.map_err(|error| {
            if let (TargetError::Invalid { pointer: "/target/routingKey", .. }, Some((index, _))) =
                (&error, first)
            {
                return of_message(*index, &error);
            }
            if let (TargetError::Profile(_), Some(name)) = (&error, &named.target_ref) {
                tracing::error!(
                    event_type = "profile.unusable",
                    profile = name.as_str(),
                    %error,
                    "target profile `{}` cannot be used: {error}",
                    name.as_str()
                );
            }
            from_target(&error)
        })?;
        let has_place = match queue {
            QueueRule::Required => target.queue.is_some(),
            QueueRule::OrExchange => target.queue.is_some() || target.exchange.is_some(),
            QueueRule::Optional => true,
        };
        if !has_place {
            return Err(Problem::violation("/target/queue", "is required"));
        }
        for (index, key) in &named.routing_keys {
            target
                .check_routing_key(key, profile, inline, allowed)
                .map_err(|error| of_message(*index, &error))?;
        }
        Ok(Target { password_origin: password_origin(named), ..target })
    }

    /// Refuses a request that names neither a target nor a profile.
    fn check_named(self) -> Result<(), Problem> {
        if self.profile.is_none() && self.named.target.is_none() {
            return Err(Problem::violation("/target", "name a target or a targetRef"));
        }
        Ok(())
    }

    /// Resolves a target whose messages all have their own routing keys. `key`, which is one of
    /// these, takes the place of the target's routing key in the check whether the caller may use
    /// the target.
    fn resolve_with_key(self, key: &RoutingKey) -> Result<Target, TargetError> {
        let inline = self.named.target.clone().unwrap_or_default();
        let with_key = TargetSpec { routing_key: Some(key.clone()), ..inline };
        let mut target = Target::resolve(self.profile, Some(&with_key), self.allowed)?;
        if let Some(exchange) = &mut target.exchange {
            let own = self.profile.and_then(|profile| profile.target.routing_key.clone());
            exchange.routing_key = own.unwrap_or_default();
        }
        Ok(target)
    }
}

/// Replaces the prefix `from` by `to` in the JSON Pointers of the problem's faults.
fn relocate(problem: Problem, from: &str, to: &str) -> Problem {
    if problem.faults.is_empty() {
        return problem;
    }
    let is_below = |rest: &&str| rest.is_empty() || rest.starts_with('/');
    let relocated = |fault: Fault| match fault.pointer.strip_prefix(from).filter(is_below) {
        Some(rest) => Fault { pointer: format!("{to}{rest}"), ..fault },
        None => fault,
    };
    Problem::faulty(problem.reason, problem.faults.into_iter().map(relocated).collect())
}

/// Adds the queue's name to the detail of a problem about one of several queues. A problem whose
/// faults already point to a member is returned unchanged.
fn of_queue(name: &QueueName, mut problem: Problem) -> Problem {
    if problem.faults.is_empty() {
        problem.detail = format!("queue `{}`: {}", cut(name.as_str(), 100), problem.detail);
    }
    problem
}

/// Builds the problem of the routing key of the message at `index`: the caller may not use it, or
/// the target has no exchange.
fn of_message(index: usize, error: &TargetError) -> Problem {
    let problem = from_target(error);
    match error {
        TargetError::Invalid { .. } => {
            Problem::violation(format!("/messages/{index}/routingKey"), "goes with a target's exchange only")
        }
        _ => problem,
    }
}

/// Returns the origin of the target's password: the request if it sets `auth.passwordRef`,
/// otherwise the profile.
fn password_origin(named: &NamedTarget) -> PasswordOrigin {
    let names_password =
        |target: &TargetSpec| target.auth.as_ref().is_some_and(|auth| auth.password_ref.is_some());
    match &named.target_ref {
        Some(name) if !named.target.as_ref().is_some_and(names_password) => {
            PasswordOrigin::Profile(name.clone())
        }
        _ => PasswordOrigin::Request { target: named.place.pointer().to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use mq::{InlineTargets, ReportPlace};
    use serde_json::{Value, json};

    use super::*;
    use crate::target_request::{TargetPlace, TargetRequest};

    fn resolved(profile: Option<Value>, body: Value) -> Result<Target, Problem> {
        let named = api::json::read::<TargetRequest>(body)?.into_named()?;
        let profile: Option<Profile> = profile.map(|profile| serde_json::from_value(profile).unwrap());
        let allowed: InlineTargets = "rabbitmq://h:1/*?tenant=*&tls=optional&secrets=*".parse().unwrap();
        let asked = Asked { profile: profile.as_ref(), named: &named, allowed: allowed.of("tenant") };
        asked.complete(QueueRule::Required).map_err(|problem| named.place.point(problem))
    }

    #[test]
    fn a_password_is_whose_reference_it_is() {
        let profile = json!({"target": {"broker": "rabbitmq", "connName": "h:1", "queue": "Q",
                                        "auth": {"passwordRef": "secret://a"}}});
        let origin = |profile: Option<Value>, body| resolved(profile, body).unwrap().password_origin;
        let orders = PasswordOrigin::Profile("orders".to_owned().try_into().unwrap());
        assert_eq!(origin(Some(profile.clone()), json!({"targetRef": "orders"})), orders);
        let queue = json!({"targetRef": "orders", "target": {"queue": "R"}});
        assert_eq!(origin(Some(profile.clone()), queue), orders);
        let own = json!({"targetRef": "orders", "target": {"auth": {"passwordRef": "secret://b"}}});
        assert_eq!(origin(Some(profile), own), PasswordOrigin::default());
        let members = json!({"broker": "rabbitmq", "connName": "h:1", "queue": "Q",
                             "auth": {"passwordRef": "secret://b"}});
        assert_eq!(origin(None, json!({"target": members})), PasswordOrigin::default());
        assert_eq!(origin(None, members), PasswordOrigin::Request { target: String::new() });
    }

    #[test]
    fn a_fault_of_the_profile_is_not_told_of_the_request() {
        let both = json!({"target": {"connName": "h:1", "ccdtUrl": "file:///x", "queueManager": "Q"}});
        let problem = resolved(Some(both), json!({"targetRef": "orders"})).unwrap_err();
        assert_eq!((problem.reason, problem.faults.len()), (Reason::StoreUnavailable, 0));
        assert_eq!(problem.detail, "the profile names both connName and ccdtUrl");
    }

    #[test]
    fn a_further_queue_is_checked_as_the_target_s_own() {
        let profile = json!({"target": {"broker": "rabbitmq", "connName": "h:1", "queue": "ORDERS"},
                             "queues": ["ORDERS.*"]});
        let profile: Profile = serde_json::from_value(profile).unwrap();
        let name = "orders".to_owned().try_into().unwrap();
        let of_profile =
            NamedTarget { place: TargetPlace::From, ..NamedTarget::in_members(Some(name), None) };
        let none = InlineTargets::default();
        let check = |queue: &str| {
            let queue = QueueName::try_from(queue.to_owned()).unwrap();
            let allowed = none.of("tenant");
            Asked { profile: Some(&profile), named: &of_profile, allowed }.check_further(&queue)
        };
        assert!(check("ORDERS").is_ok() && check("ORDERS.DLQ").is_ok());
        assert_eq!(check("PAYMENTS").unwrap_err().reason, Reason::TargetNotAllowed);
        let nowhere = NamedTarget { target: Some(TargetSpec::default()), target_ref: None, ..of_profile };
        let asked = Asked { profile: None, named: &nowhere, allowed: none.of("tenant") };
        let problem = asked.complete(QueueRule::Required).unwrap_err();
        let pointer = |problem: Problem| nowhere.place.point(problem).faults[0].pointer.clone();
        assert_eq!(pointer(Problem::violation("/target/queue", "is required")), "/from/target/queue");
        assert!(pointer(problem).starts_with("/from/target/"));
    }

    #[test]
    fn a_queue_that_reports_would_fill_is_checked_as_one_that_the_request_names() {
        let profile = json!({"target": {"connName": "h:1", "queueManager": "QM1", "channel": "C", "queue": "ORDERS"},
                             "queues": ["REPLIES.*"]});
        let profile: Profile = serde_json::from_value(profile).unwrap();
        let none = InlineTargets::default();
        let named = NamedTarget::in_members(Some("orders".to_owned().try_into().unwrap()), None);
        let asked = Asked { profile: Some(&profile), named: &named, allowed: none.of("tenant") };
        let target = asked.complete(QueueRule::Required).unwrap();
        let check = |queue: &str, manager: Option<&str>| {
            let place = ReportPlace {
                queue: queue.to_owned().try_into().unwrap(),
                queue_manager: manager.map(|manager| manager.to_owned().try_into().unwrap()),
            };
            let reports = Reports { pointer: "/messages/3".to_owned(), place };
            asked.check_reports(&target, &reports)
        };
        for (queue, manager) in [("ORDERS", None), ("REPLIES.1", None), ("REPLIES.1", Some("QM1"))] {
            assert!(check(queue, manager).is_ok(), "{queue} {manager:?}");
        }
        for (queue, manager) in [("PAYMENTS", None), ("PAYMENTS", Some("QM1")), ("REPLIES.1", Some("QM2"))] {
            let problem = check(queue, manager).unwrap_err();
            assert_eq!(problem.reason, Reason::TargetNotAllowed, "{queue} {manager:?}");
            assert!(problem.detail.contains("reports"), "{}", problem.detail);
        }
        for queue in ["REPLIES 1", &"R".repeat(49)] {
            let problem = check(queue, None).unwrap_err();
            assert_eq!(problem.faults[0].pointer, "/messages/3/replyTo", "{queue}");
        }
    }

    #[test]
    fn queues_in_place_of_the_target_s_are_each_checked() {
        let profile = json!({"target": {"connName": "h:1", "queueManager": "QM1", "queue": "ORDERS"},
                             "queues": ["LOAD.*"]});
        let profile: Profile = serde_json::from_value(profile).unwrap();
        let none = InlineTargets::default();
        let resolve = |target: Option<Value>, names: &[&str]| {
            let target = target.map(|target| serde_json::from_value(target).unwrap());
            let named = NamedTarget::in_members(Some("orders".to_owned().try_into().unwrap()), target);
            let names: Vec<QueueName> =
                names.iter().map(|name| (*name).to_owned().try_into().unwrap()).collect();
            let asked = Asked { profile: Some(&profile), named: &named, allowed: none.of("tenant") };
            asked.in_place(&names, |index| format!("/queues/{index}"))
        };
        let target = resolve(None, &["LOAD.1", "LOAD.2"]).unwrap();
        assert_eq!(target.to_string(), "QM1:LOAD.1");
        assert_eq!(target.password_origin, PasswordOrigin::Profile("orders".to_owned().try_into().unwrap()));
        // The target's own queue is not used, so it may be any.
        assert!(resolve(Some(json!({"queue": "PAYMENTS"})), &["LOAD.1"]).is_ok());
        let refused = resolve(None, &["LOAD.1", "PAYMENTS", "LOAD.2"]).unwrap_err();
        assert_eq!(refused.reason, Reason::TargetNotAllowed);
        assert!(refused.detail.starts_with("queue `PAYMENTS`: "), "{}", refused.detail);
        let too_long = format!("LOAD.{}", "q".repeat(44));
        let faults = |names: &[&str]| resolve(None, names).unwrap_err().faults;
        assert_eq!(faults(&["LOAD.1", &too_long])[0].pointer, "/queues/1");
        assert_eq!(faults(&[])[0].pointer, "/queues");
        let nobody = NamedTarget::in_members(None, None);
        let names: [QueueName; 1] = ["LOAD.1".to_owned().try_into().unwrap()];
        let asked = Asked { profile: None, named: &nobody, allowed: none.of("tenant") };
        let problem = asked.in_place(&names, |_| "/queues".to_owned()).unwrap_err();
        assert_eq!(problem.faults[0].pointer, "/target");
    }

    #[test]
    fn a_routing_key_that_no_message_uses_need_not_be_allowed() {
        let profile = json!({"target": {"broker": "rabbitmq", "connName": "h:1"},
                             "exchanges": ["orders"], "routingKeys": ["orders.*"]});
        let profile: Profile = serde_json::from_value(profile).unwrap();
        let key = |text: &str| RoutingKey::try_from(text.to_owned()).unwrap();
        let resolve = |target: Value, keys: &[&str], all_have_routing_keys| {
            let target: TargetSpec = serde_json::from_value(target).unwrap();
            let routing_keys = keys.iter().enumerate().map(|(index, text)| (index, key(text))).collect();
            let named = NamedTarget::in_members(None, Some(target));
            let named = NamedTarget { routing_keys, all_have_routing_keys, ..named };
            let none = InlineTargets::default();
            let asked = Asked { profile: Some(&profile), named: &named, allowed: none.of("tenant") };
            asked.complete(QueueRule::OrExchange)
        };
        let orders = json!({"exchange": "orders"});
        let target = resolve(orders.clone(), &["orders.new", "orders.old"], true).unwrap();
        assert_eq!(target.exchange.unwrap().routing_key, RoutingKey::default(), "the record names no key");
        let refused = |target: &Value, keys: &[&str], all_have_routing_keys| {
            let problem = resolve(target.clone(), keys, all_have_routing_keys).unwrap_err();
            (problem.reason, problem.faults.first().map(|fault| fault.pointer.clone()))
        };
        let forbidden = (Reason::TargetNotAllowed, None);
        assert_eq!(refused(&orders, &["orders.new"], false), forbidden);
        assert_eq!(refused(&orders, &["orders.new", "other"], true), forbidden);
        assert_eq!(refused(&orders, &["other"], true), forbidden);
        assert_eq!(refused(&json!({"exchange": "others"}), &["orders.new"], true), forbidden);
        assert_eq!(
            refused(&json!({"exchange": "orders", "routingKey": "other"}), &["orders.new"], true),
            forbidden
        );
        let to_queue = refused(&json!({"queue": "Q"}), &["orders.new"], true);
        assert_eq!(to_queue, (Reason::SchemaViolation, Some("/messages/0/routingKey".to_owned())));
    }

    #[test]
    fn a_fault_points_to_where_the_target_is() {
        let pointer = |body| resolved(None, body).unwrap_err().faults[0].pointer.clone();
        let members = json!({"broker": "rabbitmq", "connName": "h:1"});
        assert_eq!(pointer(json!({"target": members})), "/target/queue");
        assert_eq!(pointer(members), "/queue");
        assert_eq!(pointer(json!({})), "/target");
    }
}
