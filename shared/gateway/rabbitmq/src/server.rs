//! Broker properties from its greeting, and the behaviour that follows from its version.

use amq_protocol::frame::{AMQPFrame, parsing::parse_frame};
use lapin::protocol::{AMQPClass, connection};
use lapin::types::{AMQPValue, FieldTable};

use crate::errors::PRODUCT;

/// First version of RabbitMQ whose quorum queues count failures separately from returns.
const COUNTS_FAILURES: (u32, u32) = (4, 3);
/// First version of RabbitMQ whose quorum queues have a delivery limit by default.
const LIMITS_DELIVERIES: (u32, u32) = (4, 0);
/// First version of RabbitMQ that ignores an `x-death` history in messages that a client publishes.
const KEEPS_NO_CLIENTS_DEATHS: (u32, u32) = (4, 0);
/// Default delivery limit of quorum queues (returns or failures of a message), from version
/// [`LIMITS_DELIVERIES`] on.
const DEFAULT_DELIVERY_LIMIT: u64 = 20;

/// Events that a quorum queue counts towards its delivery limit, past which it drops or
/// dead-letters a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Every return of a message to the queue, for any reason.
    EveryReturn,
    /// Rejections (`basic.reject`), and messages that are unsettled when their channel closes.
    /// Returns by `basic.nack` do not count.
    Failures,
}

/// Product, version and cluster name of a broker, from its greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) product: String,
    pub(crate) version: Option<String>,
    pub(crate) cluster: Option<String>,
}

impl Default for Server {
    fn default() -> Self {
        Self { product: PRODUCT.to_owned(), version: None, cluster: None }
    }
}

impl Server {
    /// Reads `connection.start`, the first frame of a broker. If it cannot be parsed, the version
    /// is unknown.
    pub(crate) fn from_greeting(frame: &[u8]) -> Self {
        let Ok((_, AMQPFrame::Method(_, AMQPClass::Connection(connection::AMQPMethod::Start(start))))) =
            parse_frame(frame)
        else {
            return Self::default();
        };
        let text = |name| text(&start.server_properties, name);
        Self {
            product: text("product").unwrap_or_else(|| PRODUCT.to_owned()),
            version: text("version"),
            cluster: text("cluster_name"),
        }
    }

    /// Returns the events that count towards a delivery limit. For an unknown product or version,
    /// every return is assumed to count.
    pub(crate) fn counted(&self) -> Counted {
        match self.is_at_least(COUNTS_FAILURES) {
            true => Counted::Failures,
            false => Counted::EveryReturn,
        }
    }

    /// Returns the default delivery limit of quorum queues; `None` if this version has none.
    pub(crate) fn default_delivery_limit(&self) -> Option<u64> {
        self.is_at_least(LIMITS_DELIVERIES).then_some(DEFAULT_DELIVERY_LIMIT)
    }

    /// True if the broker, when it dead-letters a message, evaluates an `x-death` history that the
    /// message was published with.
    pub(crate) fn believes_in_deaths(&self) -> bool {
        !self.is_at_least(KEEPS_NO_CLIENTS_DEATHS)
    }

    fn is_at_least(&self, wanted: (u32, u32)) -> bool {
        let release = self.version.as_deref().and_then(release);
        self.product == PRODUCT && release.is_some_and(|release| release >= wanted)
    }
}

/// Returns the major and minor number of a version such as `4.3.6` or `4.3.0-rc.1`; `None` if it
/// has another form.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

fn text(properties: &FieldTable, name: &str) -> Option<String> {
    match properties.inner().get(name)? {
        AMQPValue::LongString(text) => String::from_utf8(text.as_bytes().to_vec()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(product: &str, version: Option<&str>) -> Server {
        Server { product: product.to_owned(), version: version.map(str::to_owned), cluster: None }
    }

    #[test]
    fn what_counts_follows_from_the_version_and_is_everything_where_that_is_unknown() {
        let cases = [
            (Some("3.10.8"), Counted::EveryReturn, None),
            (Some("3.13.7"), Counted::EveryReturn, None),
            (Some("4.0.5"), Counted::EveryReturn, Some(20)),
            (Some("4.2.10"), Counted::EveryReturn, Some(20)),
            (Some("4.3.0-rc.1"), Counted::Failures, Some(20)),
            (Some("4.10.0"), Counted::Failures, Some(20)),
            (Some("10.0.0"), Counted::Failures, Some(20)),
            (Some("4"), Counted::EveryReturn, None),
            (Some("4.x"), Counted::EveryReturn, None),
            (Some(""), Counted::EveryReturn, None),
            (None, Counted::EveryReturn, None),
        ];
        for (version, counted, limit) in cases {
            let server = server(PRODUCT, version);
            assert_eq!((server.counted(), server.default_delivery_limit()), (counted, limit), "{version:?}");
        }
        assert_eq!(server("LavinMQ", Some("4.3.0")).counted(), Counted::EveryReturn);
    }
}
