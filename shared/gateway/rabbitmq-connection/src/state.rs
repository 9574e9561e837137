//! Where a connection stands.

use std::fmt;

/// The states of a connection, `ConnectionState` of the connection model.
///
/// ```text
///  DISCONNECTED <----------------+--------------+
///      |   ^                     |              |
///      v   | no success          | disconnect   | disconnect
///  CONNECTING --> CONNECTED -----+              |
///      |            |     ^                     |
///      |       lost v     | success             |
///      |          RECONNECTING -----------------+
///      |            |     ^                     |
///      | deadline   v     | another try         |
///      +--------> FAILED -+---------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// There is no connection, and nobody wants one.
    Disconnected,
    /// A first connection is being made.
    Connecting,
    /// The connection is open.
    Connected,
    /// The connection was lost, and another one is wanted.
    Reconnecting,
    /// The attempts ended without a connection: their deadline passed, or the broker refused the
    /// login.
    Failed,
}

/// A change of state that the model does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a connection that is {from} cannot become {to}")]
pub struct IllegalTransition {
    /// The state before.
    pub from: ConnectionState,
    /// The state that may not follow.
    pub to: ConnectionState,
}

impl ConnectionState {
    /// Every state, each once.
    pub const ALL: [Self; 5] =
        [Self::Disconnected, Self::Connecting, Self::Connected, Self::Reconnecting, Self::Failed];

    /// The states that may follow this one.
    #[must_use]
    pub const fn successors(self) -> &'static [Self] {
        match self {
            Self::Disconnected => &[Self::Connecting],
            Self::Connecting => &[Self::Connected, Self::Disconnected, Self::Failed],
            Self::Connected => &[Self::Reconnecting, Self::Disconnected],
            Self::Reconnecting => &[Self::Connected, Self::Disconnected, Self::Failed],
            Self::Failed => &[Self::Reconnecting, Self::Disconnected],
        }
    }

    /// # Errors
    /// When `next` may not follow.
    pub fn transition_to(self, next: Self) -> Result<Self, IllegalTransition> {
        if self.successors().contains(&next) {
            Ok(next)
        } else {
            Err(IllegalTransition { from: self, to: next })
        }
    }

    /// The model's name for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disconnected => "disconnected",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Reconnecting => "reconnecting",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
