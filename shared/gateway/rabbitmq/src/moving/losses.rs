//! Warnings about messages that a queue may lose after a move has put them there. A move publishes
//! the message again: from then on the queue's name is its routing key, and the queue's limits
//! apply. The broker confirms such messages all the same, so the caller is warned.

use std::collections::BTreeMap;

use broker::Deadline;
use lapin::message::Delivery;
use mq::{Death, QueueName};

use crate::queue_facts::{self, MAX_LENGTH, MESSAGE_TTL, OVERFLOW, QueueFacts};
use crate::server::Server;
use crate::session::Session;

const DEAD_LETTER_EXCHANGE: &str = "x-dead-letter-exchange";
const DEAD_LETTER_KEY: &str = "x-dead-letter-routing-key";
const MAX_BYTES: &str = "x-max-length-bytes";

/// Maximum number of destination queues whose arguments are queried, which takes several
/// declarations for each queue.
const MOST_ASKED: usize = 32;
/// Maximum length of a routing key in bytes. A publisher may write longer text into the dead-letter
/// history.
const LONGEST_KEY: usize = 255;

/// Effects of a message's dead-letter history if a move puts the message on the destination queue,
/// and that queue dead-letters it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeadLetterEffects {
    /// Routing key that the message had before, and loses by the move; `None` if the message keeps
    /// its routing key.
    old_key: Option<String>,
    /// True if the destination queue was the last to dead-letter the message, and the message kept
    /// its routing key then. The queue's dead-letter exchange routes by that key.
    is_key_used_by_dlx: bool,
    /// True if the destination queue dead-lettered the message, other queues did so later, and none
    /// of these steps was a rejection. RabbitMQ before 4.0 may take such a history for a cycle.
    may_be_a_cycle: bool,
}

impl DeadLetterEffects {
    /// Evaluates the dead-letter history of a message that moves to the queue `to`; `deaths` has
    /// the latest death first.
    pub(super) fn of(delivery: &Delivery, deaths: &[Death], to: &QueueName) -> Self {
        let routing_key = |death: &Death| death.routing_keys.first().cloned();
        let there = deaths.iter().position(|death| death.queue.as_deref() == Some(to.as_str()));
        let key_there = there.and_then(|there| routing_key(deaths.get(there)?));
        let came_with = delivery.routing_key.as_str();
        let was_rejected = |death: &Death| death.reason.as_deref() == Some("rejected");
        let is_key_used_by_dlx = there == Some(0) && key_there.as_deref() == Some(came_with);
        let key = key_there.or_else(|| routing_key(deaths.last()?)).unwrap_or_else(|| came_with.to_owned());
        let is_lost = key != **to && came_with != to.as_str() && key.len() <= LONGEST_KEY;
        Self {
            old_key: is_lost.then_some(key),
            is_key_used_by_dlx: is_lost && is_key_used_by_dlx,
            may_be_a_cycle: there
                .is_some_and(|there| there > 0 && !deaths.iter().take(there + 1).any(was_rejected)),
        }
    }
}

/// Counts of the messages that were moved to one queue: those that lose their routing key, and
/// those that RabbitMQ may take for a dead-letter cycle and drop.
#[derive(Debug, Default)]
struct Arrivals {
    /// Routing key of the first message that loses its key; `None` if no message does.
    old_key: Option<String>,
    with_another_key: u64,
    with_key_used_by_dlx: u64,
    possible_cycles: u64,
}

/// Counts of moved messages by destination queue, for warnings that messages may lose their routing
/// key or be dropped there.
#[derive(Debug, Default)]
pub(super) struct Losses(BTreeMap<QueueName, Arrivals>);

impl Losses {
    /// Counts a message that is moved to the queue `to`.
    pub(super) fn note(&mut self, to: QueueName, effects: DeadLetterEffects) {
        let arrivals = self.0.entry(to).or_default();
        arrivals.with_another_key += u64::from(effects.old_key.is_some());
        arrivals.with_key_used_by_dlx += u64::from(effects.is_key_used_by_dlx);
        arrivals.possible_cycles += u64::from(effects.may_be_a_cycle);
        if arrivals.old_key.is_none() {
            arrivals.old_key = effects.old_key;
        }
    }

    /// Returns warnings about messages that the destination queues may drop or fail to dead-letter.
    /// `session` is used to read the queues' arguments; without it, or if the broker does not
    /// disclose them, only the messages' history counts.
    pub(super) async fn warnings(
        &self,
        session: Option<&Session>,
        server: &Server,
        deadline: Deadline,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        for (index, (to, arrivals)) in self.0.iter().enumerate() {
            let mut facts = None;
            if let Some(session) = session.filter(|_| index < MOST_ASKED)
                && let Ok(learned) = queue_facts::learn(session, to, deadline).await
            {
                let ttl = queue_facts::declared_ttl(session, to, &learned, deadline).await;
                warnings.extend(of_limits(to, &learned));
                warnings.extend(ttl.map(|ttl| of_ttl(to, ttl, &learned)));
                facts = Some(learned);
            }
            warnings.extend(of_keys(to, arrivals, facts.as_ref()));
            if server.believes_in_deaths() {
                warnings.extend(of_cycles(to, arrivals.possible_cycles));
            }
        }
        if self.0.len() > MOST_ASKED && session.is_some() {
            warnings
                .push(format!("only {MOST_ASKED} of the queues were asked for limits at which they drop"));
        }
        warnings
    }
}

/// Returns a warning about a maximum length at which the queue drops its oldest messages; `None` if
/// it has none.
fn of_limits(to: &QueueName, facts: &QueueFacts) -> Option<String> {
    if facts.text(OVERFLOW).is_some_and(|overflow| overflow.starts_with("reject-publish")) {
        return None;
    }
    let limit = |name| Some(format!("{name}: {}", facts.number(name)?));
    let limits: Vec<_> = [MAX_LENGTH, MAX_BYTES].into_iter().filter_map(limit).collect();
    let drops = drops(facts);
    (!limits.is_empty()).then(|| {
        format!(
            "the queue `{to}` has {}: beyond that it confirms and {drops} its oldest messages",
            limits.join(", ")
        )
    })
}

/// Returns a warning about the time to live of `ttl` milliseconds, after which the queue drops
/// messages.
fn of_ttl(to: &QueueName, ttl: u64, facts: &QueueFacts) -> String {
    format!(
        "the queue `{to}` has {MESSAGE_TTL}: {ttl}, and {} messages after so many milliseconds",
        drops(facts)
    )
}

fn drops(facts: &QueueFacts) -> &'static str {
    if facts.arguments.contains_key(DEAD_LETTER_EXCHANGE) { "dead-letters" } else { "drops" }
}

/// Returns a warning about messages with a new routing key, which the queue's dead-letter exchange
/// may not route. `None` if the queue sets a key for dead-lettering itself. If `facts` name no such
/// exchange, counts only messages whose history shows that the queue has one.
fn of_keys(to: &QueueName, arrivals: &Arrivals, facts: Option<&QueueFacts>) -> Option<String> {
    let has = |name| facts.is_some_and(|facts| facts.arguments.contains_key(name));
    let count = match (has(DEAD_LETTER_EXCHANGE), has(DEAD_LETTER_KEY)) {
        (_, true) => 0,
        (true, false) => arrivals.with_another_key,
        (false, false) => arrivals.with_key_used_by_dlx,
    };
    let key = arrivals.old_key.as_ref().filter(|_| count > 0)?;
    Some(format!(
        "{count} messages have the routing key `{to}` on the queue `{to}`, and not the one before (such as `{key}`): if they \
         are dead-lettered again, they are lost unless the dead-letter exchange routes that key. Bind the dead-letter \
         queue with it as well, or set {DEAD_LETTER_KEY} (a policy's dead-letter-routing-key) for `{to}`"
    ))
}

/// Returns a warning about `count` messages that RabbitMQ before 4.0 would drop as a cycle if they
/// pass through the same queues again; `None` if `count` is 0.
fn of_cycles(to: &QueueName, count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "{count} messages were dead-lettered from the queue `{to}` through others without a rejection: if that happens \
             again, RabbitMQ before 4.0 takes it for a cycle and drops them. Move them to a queue that does not \
             dead-letter by itself, or consume them from `{to}` in time"
        )
    })
}

#[cfg(test)]
mod tests {
    use lapin::types::AMQPValue;

    use super::*;
    use crate::queue_facts::QueueKind;

    fn orders() -> QueueName {
        QueueName::try_from("ORDERS".to_owned()).unwrap()
    }

    fn long(text: &str) -> AMQPValue {
        AMQPValue::LongString(text.into())
    }

    fn death((queue, reason, key): &(&str, &str, &str)) -> Death {
        Death {
            queue: Some((*queue).to_owned()),
            reason: Some((*reason).to_owned()),
            routing_keys: vec![(*key).to_owned()],
            ..Death::default()
        }
    }

    /// Builds the effects for a message with this routing key and dead-letter history, latest death
    /// first.
    fn effects(key: &str, deaths: &[(&str, &str, &str)]) -> DeadLetterEffects {
        let delivery = Delivery::mock(1, "".into(), key.into(), false, Vec::new());
        let deaths: Vec<_> = deaths.iter().map(death).collect();
        DeadLetterEffects::of(&delivery, &deaths, &orders())
    }

    fn facts(arguments: &[(&str, AMQPValue)]) -> QueueFacts {
        let arguments = arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        QueueFacts { kind: QueueKind::Classic, auto_delete: false, arguments }
    }

    #[test]
    fn a_routing_key_is_lost_unless_it_is_the_queues_name() {
        let old = |effects: DeadLetterEffects| (effects.old_key, effects.is_key_used_by_dlx);
        let some = |key: &str| Some(key.to_owned());
        let kept = effects("orders.new", &[("ORDERS", "rejected", "orders.new")]);
        assert_eq!(old(kept), (some("orders.new"), true));
        let replaced = effects("ORDERS.DLQ", &[("ORDERS", "rejected", "orders.new")]);
        assert_eq!(old(replaced), (some("orders.new"), false));
        assert_eq!(old(effects("k", &[])), (some("k"), false));
        assert_eq!(
            old(effects("k", &[("RETRY", "expired", "r"), ("SHOP", "rejected", "first")])).0,
            some("first")
        );
        for none in [
            effects("ORDERS", &[]),
            effects("ORDERS.DLQ", &[("ORDERS", "rejected", "ORDERS")]),
            // The message died again after a move; the old key is older than that.
            effects("ORDERS", &[("ORDERS", "rejected", "orders.new")]),
        ] {
            assert_eq!(none, DeadLetterEffects::default());
        }
    }

    #[test]
    fn only_a_way_without_a_rejection_through_another_queue_is_a_cycle() {
        let goes = |deaths: &[(&str, &str, &str)]| effects("ORDERS", deaths).may_be_a_cycle;
        assert!(goes(&[("RETRY", "expired", "k"), ("ORDERS", "expired", "k")]));
        assert!(goes(&[("RETRY", "expired", "k"), ("ORDERS", "maxlen", "k"), ("ORDERS", "rejected", "k")]));
        assert!(!goes(&[("ORDERS", "expired", "k")]));
        assert!(!goes(&[("RETRY", "expired", "k"), ("ORDERS", "rejected", "k")]));
        assert!(!goes(&[("RETRY", "rejected", "k"), ("ORDERS", "expired", "k")]));
        assert!(!goes(&[("RETRY", "expired", "k")]));
    }

    #[test]
    fn only_a_dead_letter_exchange_that_routes_by_the_messages_key_is_warned_of() {
        let mut losses = Losses::default();
        losses.note(orders(), effects("orders.new", &[("ORDERS", "rejected", "orders.new")]));
        losses.note(orders(), effects("k", &[]));
        let arrivals = &losses.0[&orders()];
        let warned = |arguments: &[(&str, AMQPValue)]| {
            let warning = of_keys(&orders(), arrivals, Some(&facts(arguments)))?;
            warning.split_once(' ').map(|(count, _)| count.to_owned())
        };
        let exchange = (DEAD_LETTER_EXCHANGE, long("DLX"));
        assert_eq!(warned(std::slice::from_ref(&exchange)).as_deref(), Some("2"));
        assert_eq!(warned(&[exchange, (DEAD_LETTER_KEY, long("k"))]), None);
        // An exchange set by a policy shows only in a message that it routed back.
        assert_eq!(warned(&[]).as_deref(), Some("1"));
        assert!(of_keys(&orders(), arrivals, None).is_some_and(|text| text.contains("`orders.new`")));
    }

    #[test]
    fn a_queue_that_rejects_what_is_too_much_drops_nothing() {
        let limit = |name| (name, AMQPValue::LongLongInt(3));
        let overflow = |text| (OVERFLOW, long(text));
        let warning = |arguments: &[_]| of_limits(&orders(), &facts(arguments));
        assert_eq!(warning(&[]), None);
        assert_eq!(warning(&[limit(MAX_LENGTH), overflow("reject-publish")]), None);
        assert_eq!(warning(&[limit(MAX_LENGTH), overflow("reject-publish-dlx")]), None);
        let both = warning(&[limit(MAX_LENGTH), limit(MAX_BYTES), overflow("drop-head")]).unwrap();
        assert!(
            both.contains("x-max-length: 3, x-max-length-bytes: 3: beyond that it confirms and drops"),
            "{both}"
        );
        let dead = warning(&[limit(MAX_BYTES), (DEAD_LETTER_EXCHANGE, long(""))]).unwrap();
        assert!(dead.contains("dead-letters its oldest"), "{dead}");
    }
}
