//! Workers of a load test and their lanes (series of invocations), with the names by which they are
//! stored.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Window;

/// Role of a load test's worker: producer or consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Worker that puts messages on one of the test's queues.
    Producer,
    /// Worker that takes messages from one of the test's queues.
    Consumer,
}

/// Worker of a load test, identified by its role and its number from 0. The text of producer 3 is
/// `p3`, and the text of consumer 0 is `c0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Worker {
    /// Role of the worker: producer or consumer.
    pub role: Role,
    /// Number of the worker among the producers or among the consumers, from 0.
    pub number: u32,
}

/// Lane of a worker: one of two series of invocations, which do the worker's work in alternate
/// minutes. The texts of the two lanes of producer 3 are `p3a` and `p3b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Lane {
    /// Worker whose work the lane does. In the other minutes of the test, the worker's second lane
    /// does it.
    pub worker: Worker,
    /// Minutes of the test in which the lane works: the even ones or the odd ones.
    pub parity: MinuteParity,
}

/// Parity of the minutes of a test, even or odd. A worker has one lane (series of invocations) for
/// the even minutes, and one for the odd minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MinuteParity {
    /// Minutes 0, 2, 4, and so on, in which a worker's lane A works.
    Even,
    /// Minutes 1, 3, 5, and so on, in which a worker's lane B works.
    Odd,
}

/// Step: one attempt of a lane (one of a worker's two series of invocations) to work in a window
/// (one minute of the test). The messages of each step are counted in a tally of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Step {
    /// Lane (one of the worker's two series of invocations) to which this attempt belongs.
    pub lane: Lane,
    /// Window (minute of the test) in which the lane works in this attempt.
    pub window: Window,
    /// Number of the lane's attempt at this window, from 0. An attempt with a higher number
    /// replaces a lost attempt, and does only the work that falls due after its own begin.
    pub attempt: u32,
}

/// Error for a text that is not the name of a worker, such as `p3`, or of a lane, such as `p3a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name is not of the form `p0a`: role p or c, number, lane a or b")]
pub struct NameError;

impl Role {
    const fn letter(self) -> char {
        match self {
            Self::Producer => 'p',
            Self::Consumer => 'c',
        }
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.role.letter(), self.number)
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.parity {
            MinuteParity::Even => 'a',
            MinuteParity::Odd => 'b',
        };
        write!(f, "{}{letter}", self.worker)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.lane, self.window.number(), self.attempt)
    }
}

impl FromStr for Worker {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let mut rest = name.chars();
        let role = match rest.next() {
            Some('p') => Role::Producer,
            Some('c') => Role::Consumer,
            _ => return Err(NameError),
        };
        let worker = Self { role, number: rest.as_str().parse().map_err(|_| NameError)? };
        // Each worker has one name: no sign, no zeros in front.
        if worker.to_string() == name { Ok(worker) } else { Err(NameError) }
    }
}

impl FromStr for Lane {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let (worker, parity) = match (name.strip_suffix('a'), name.strip_suffix('b')) {
            (Some(worker), _) => (worker, MinuteParity::Even),
            (_, Some(worker)) => (worker, MinuteParity::Odd),
            (None, None) => return Err(NameError),
        };
        Ok(Self { worker: worker.parse()?, parity })
    }
}

/// Implements the conversions from and to `String`, by which serde reads and writes a type as its
/// name, such as `p3a`.
macro_rules! as_text {
    ($($name:ident)*) => {$(
        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(name: String) -> Result<Self, NameError> {
                name.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.to_string()
            }
        }
    )*};
}

as_text!(Worker Lane);
