//! States of a connection.

use std::fmt;

/// States of a connection: `ConnectionState` of the specified connection model.
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
    /// No connection is open, and none is being opened.
    Disconnected,
    /// The first connection is being opened.
    Connecting,
    /// The connection is open.
    Connected,
    /// The connection was lost, and a new one is being opened.
    Reconnecting,
    /// Connecting failed: the deadline passed, or the broker refused the login.
    Failed,
}

/// Error of a change to a connection state that may not follow the present one (see
/// [`ConnectionState::successors`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a connection that is {from} cannot become {to}")]
pub struct IllegalTransition {
    /// State of the connection before the change.
    pub from: ConnectionState,
    /// State that may not follow `from`.
    pub to: ConnectionState,
}

impl ConnectionState {
    /// Returns the states that may follow this state.
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

    /// Returns `next` if it may follow this state.
    ///
    /// # Errors
    /// If `next` may not follow this state.
    pub fn transition_to(self, next: Self) -> Result<Self, IllegalTransition> {
        if self.successors().contains(&next) {
            Ok(next)
        } else {
            Err(IllegalTransition { from: self, to: next })
        }
    }

    /// Returns the name of the state in the specified connection model.
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
