//! What one broker does and the other does not. A test that runs on both asks here, and nowhere
//! else, which of two responses is right.

use super::On;

/// A difference between the brokers. `tests/differences.rs` measures each of them, compares it with
/// [`On::has`], and holds the table of `docs/brokers.md` to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Messages of one transaction, or of a small produce, are put wholly or not at all.
    UnitsOfWork,
    /// A message that was looked at and not taken is redelivered, and a browse warns of that.
    LooksRedeliver,
    /// A consume selects messages by their ids or by an expression.
    Selectors,
    /// The broker converts bodies to UTF-8.
    Conversion,
    /// A message of a higher priority overtakes others on any queue.
    Priorities,
    /// The broker says how many messages a queue takes, and how often it is open to put.
    WholeDepth,
    /// A produce finds what an earlier attempt put, and does not put it again.
    FoundPuts,
    /// A move leaves every message at exactly one place.
    CertainMoves,
    /// A move by ids examines the messages of these ids alone.
    MovesById,
    /// A message that is put without a content type gets one.
    DefaultContentType,
    /// A timestamp keeps fractions of a second.
    FractionsOfSeconds,
    /// A correlation id may be any bytes.
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
    /// Whether it is so on this broker. It is the contrary on the other one.
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
