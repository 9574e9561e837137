//! Parses the destination of a move: `"origin"`, or `{"queue": …}`.

use std::fmt;

use mq::{Destination, QueueName};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Destination of a move in its JSON form. An untagged enum would parse the same JSON, but its
/// errors would not name the faulty member.
#[derive(Debug)]
pub(crate) struct To(pub(crate) Destination);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToQueue {
    queue: QueueName,
}

impl<'de> Deserialize<'de> for To {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Form)
    }
}

struct Form;

impl<'de> Visitor<'de> for Form {
    type Value = To;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"origin\" or an object with `queue`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<To, E> {
        match text {
            "origin" => Ok(To(Destination::Origin)),
            _ => Err(E::custom("must be \"origin\" or an object with `queue`")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<To, A::Error> {
        let ToQueue { queue } = ToQueue::deserialize(MapAccessDeserializer::new(map))?;
        Ok(To(Destination::Queue(queue)))
    }
}
