//! Queues of a load test, by name or by a pattern of names.

use std::fmt;

use mq::QueueName;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::bounds::QueueNumber;

/// Queues that the workers of a load test use: the target's queue, another one, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Queues {
    /// Queue that the load test's target names.
    #[default]
    OfTarget,
    /// Single queue, in place of the queue that the target names.
    One(QueueName),
    /// Several queues, whose names differ in a number, in place of the queue that the target names.
    Numbered(QueuePattern),
}

/// Names of queues that differ in a number, such as `load-1` to `load-8` for
/// `{"pattern": "load-%d", "from": 1, "to": 8}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PatternForm")]
pub struct QueuePattern {
    pattern: String,
    from: u32,
    to: u32,
}

#[derive(Deserialize)]
#[serde(rename = "QueuePattern", deny_unknown_fields)]
struct PatternForm {
    pattern: String,
    from: QueueNumber,
    to: QueueNumber,
}

impl QueuePattern {
    /// Maximum number of queues of one load test.
    pub const MAX_QUEUES: u32 = 1_000;
    /// Placeholder in a pattern of queue names, which the queue's number replaces.
    const NUMBER: &str = "%d";

    fn name(&self, number: u32) -> Result<QueueName, String> {
        QueueName::try_from(self.pattern.replacen(Self::NUMBER, &number.to_string(), 1))
    }
}

impl TryFrom<PatternForm> for QueuePattern {
    type Error = String;

    fn try_from(form: PatternForm) -> Result<Self, String> {
        let PatternForm { pattern, from, to } = form;
        let (from, to) = (from.get(), to.get());
        if pattern.matches(Self::NUMBER).count() != 1 {
            return Err(format!("`pattern` must have {} once, in place of the number", Self::NUMBER));
        }
        if to < from {
            return Err("`to` must not be less than `from`".to_owned());
        }
        if to - from >= Self::MAX_QUEUES {
            return Err(format!("`from` to `to` must be 1 to {} queues", Self::MAX_QUEUES));
        }
        let pattern = Self { pattern, from, to };
        // The last number is the longest.
        pattern.name(to)?;
        Ok(pattern)
    }
}

impl Queues {
    /// Returns the number of the load test's queues.
    #[must_use]
    pub const fn count(&self) -> u32 {
        match self {
            Self::OfTarget | Self::One(_) => 1,
            Self::Numbered(QueuePattern { from, to, .. }) => to.saturating_sub(*from).saturating_add(1),
        }
    }

    /// Returns the queue of the producer or consumer with this number: worker `n` uses queue `n`
    /// modulo the number of queues. `None` is the queue that the target names.
    #[must_use]
    pub fn of_worker(&self, number: u32) -> Option<QueueName> {
        match self {
            Self::OfTarget => None,
            Self::One(name) => Some(name.clone()),
            // No name fails: the longest one was tried when the pattern was read.
            Self::Numbered(queues) => {
                queues.name(queues.from.saturating_add(number.checked_rem(self.count())?)).ok()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Queues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QueuesVisitor)
    }
}

struct QueuesVisitor;

impl<'de> Visitor<'de> for QueuesVisitor {
    type Value = Queues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a queue, or an object with `pattern`, `from` and `to`")
    }

    fn visit_unit<E: Error>(self) -> Result<Queues, E> {
        Ok(Queues::OfTarget)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Queues, E> {
        QueueName::try_from(name.to_owned()).map(Queues::One).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Queues, A::Error> {
        QueuePattern::deserialize(MapAccessDeserializer::new(members)).map(Queues::Numbered)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn queues(value: Value) -> Result<Queues, String> {
        from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pattern_names_a_queue_for_each_number_and_workers_take_them_in_turn() {
        let queues = queues(json!({"pattern": "load-%d.in", "from": 8, "to": 10})).unwrap();
        assert_eq!(queues.count(), 3);
        let names: Vec<_> = (0..4).map(|worker| queues.of_worker(worker).unwrap().to_string()).collect();
        assert_eq!(names, ["load-8.in", "load-9.in", "load-10.in", "load-8.in"]);
    }

    #[test]
    fn one_name_and_the_target_s_queue_serve_every_worker() {
        let one = queues(json!("Q")).unwrap();
        assert_eq!(one.of_worker(7).unwrap().as_str(), "Q");
        let of_target = queues(json!(null)).unwrap();
        assert_eq!((of_target.count(), of_target.of_worker(7)), (1, None));
    }

    #[test]
    fn a_pattern_without_its_number_or_with_too_many_queues_is_refused() {
        for (value, detail) in [
            (json!({"pattern": "load", "from": 1, "to": 2}), "%d once"),
            (json!({"pattern": "%d-%d", "from": 1, "to": 2}), "%d once"),
            (json!({"pattern": "q-%d", "from": 2, "to": 1}), "`to` must not be less than `from`"),
            (json!({"pattern": "q-%d", "from": -1, "to": 1}), "must be between 0 and 4294967295, not -1"),
            (json!({"pattern": "q-%d", "from": 1, "to": 1001}), "1 to 1000 queues"),
            (json!({"pattern": format!("{}%d", "q".repeat(254)), "from": 9, "to": 10}), "255 bytes"),
            (json!({"pattern": "q-%d", "from": 1}), "missing field `to`"),
            (json!({"pattern": "q-%d", "from": 1, "to": 2, "by": 3}), "unknown field `by`"),
            (json!(["a"]), "the name of a queue"),
        ] {
            let refused = queues(value.clone()).unwrap_err();
            assert!(refused.contains(detail), "{value}: {refused}");
        }
    }

    #[test]
    fn queues_are_stored_as_they_were_sent() {
        for value in [json!(null), json!("Q"), json!({"pattern": "q-%d", "from": 1, "to": 2})] {
            assert_eq!(serde_json::to_value(queues(value.clone()).unwrap()).unwrap(), value);
        }
    }
}
