//! Types of queues on which the operations are tested.

use amqprs::FieldValue;

use crate::versions::server::text;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Classic,
    Quorum,
    /// Quorum queue with a delivery limit of 2 failed deliveries.
    Limited,
    /// Quorum queue with the argument `x-single-active-consumer`.
    Single,
    Stream,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Classic, Self::Quorum, Self::Limited, Self::Single, Self::Stream];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
            Self::Limited => "quorum, `x-delivery-limit` 2",
            Self::Single => "quorum, single active consumer",
            Self::Stream => "stream",
        }
    }

    pub(crate) fn arguments(self) -> Vec<(&'static str, FieldValue)> {
        let kind = |kind: &str| ("x-queue-type", text(kind));
        match self {
            Self::Classic => vec![kind("classic")],
            Self::Quorum => vec![kind("quorum")],
            Self::Limited => vec![kind("quorum"), ("x-delivery-limit", FieldValue::I(2))],
            Self::Single => vec![kind("quorum"), ("x-single-active-consumer", FieldValue::t(true))],
            Self::Stream => vec![kind("stream")],
        }
    }
}
