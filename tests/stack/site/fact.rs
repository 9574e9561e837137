//! Differences between the brokers. Tests that run on both brokers ask only here which of two
//! responses is right.

use super::On;

/// Feature that one broker has and the other does not. `tests/differences.rs` measures each of
/// them, and compares it with [`On::has`] and with the table in `docs/brokers.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The broker puts all messages of a transaction or of a small produce, or none.
    UnitsOfWork,
    /// The broker counts a browsed message as redelivered, and a browse warns of that.
    LooksRedeliver,
    /// A consume can select messages by their ids or by an expression.
    Selectors,
    /// The broker can convert the text of bodies to UTF-8.
    Conversion,
    /// A message of higher priority overtakes others on any queue.
    Priorities,
    /// The broker reports a queue's maximum depth, and by how many handles it is open for puts.
    WholeDepth,
    /// A produce finds the messages that an earlier attempt put, and does not put them again.
    FoundPuts,
    /// A move leaves each message on exactly one of its two queues.
    CertainMoves,
    /// A move by message ids examines only the messages with these ids.
    MovesById,
    /// A message that is put without a content type gets a default one.
    DefaultContentType,
    /// The timestamp of a message keeps fractions of a second.
    FractionsOfSeconds,
    /// A correlation id may consist of any bytes.
    BinaryCorrelationIds,
}

impl Fact {
    pub const ALL: [Self; 12] = [
        Self::UnitsOfWork,
        Self::LooksRedeliver,
        Self::Selectors,
        Self::Conversion,
        Self::Priorities,
        Self::WholeDepth,
        Self::FoundPuts,
        Self::CertainMoves,
        Self::MovesById,
        Self::DefaultContentType,
        Self::FractionsOfSeconds,
        Self::BinaryCorrelationIds,
    ];
}

impl On {
    /// Returns true if this broker has the feature. The other broker then lacks it.
    pub const fn has(self, fact: Fact) -> bool {
        let is_rabbitmq = matches!(self, Self::RabbitMq);
        match fact {
            Fact::LooksRedeliver | Fact::DefaultContentType => is_rabbitmq,
            Fact::UnitsOfWork
            | Fact::Selectors
            | Fact::Conversion
            | Fact::Priorities
            | Fact::WholeDepth
            | Fact::FoundPuts
            | Fact::CertainMoves
            | Fact::MovesById
            | Fact::FractionsOfSeconds
            | Fact::BinaryCorrelationIds => !is_rabbitmq,
        }
    }
}
