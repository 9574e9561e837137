//! Names of workers and lanes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Window;

/// Role of a load test's worker: producer or consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Worker that puts messages.
    Producer,
    /// Worker that takes messages.
    Consumer,
}

/// Worker of a load test, by its role and its number from 0. Its text is `p3` for a producer or
/// `c0` for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Worker {
    /// Role of the worker: producer or consumer.
    pub role: Role,
    /// Number of the worker among the producers or among the consumers, from 0.
    pub number: u32,
}

/// Lane: one of the two series of invocations that do a worker's work in alternate minutes. Its
/// text is `p3a` or `p3b` for producer 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Lane {
    /// Worker that the lane works for. In the other minutes of the test, the worker's second lane
    /// works.
    pub worker: Worker,
    /// Minutes of the test in which the lane works: the even ones or the odd ones.
    pub half: Half,
}

/// Half of a test's minutes, even or odd, in which one of a worker's two lanes (series of
/// invocations) works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Half {
    /// Lane A, which works in minutes 0, 2, 4, and so on.
    Even,
    /// Lane B, which works in minutes 1, 3, 5, and so on.
    Odd,
}

/// Step: one attempt of a lane (one of a worker's two series of invocations) to work in a window
/// (one minute of the test). Each step has a tally of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Step {
    /// Lane that works in the step: one of the worker's two series of invocations.
    pub lane: Lane,
    /// Minute of the test in which the lane works.
    pub window: Window,
    /// Number of the attempt, from 0. A later attempt replaces a lost one, and does only what is
    /// due from its own beginning on.
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
        let half = match self.half {
            Half::Even => 'a',
            Half::Odd => 'b',
        };
        write!(f, "{}{half}", self.worker)
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
        let (worker, half) = match (name.strip_suffix('a'), name.strip_suffix('b')) {
            (Some(worker), _) => (worker, Half::Even),
            (_, Some(worker)) => (worker, Half::Odd),
            (None, None) => return Err(NameError),
        };
        Ok(Self { worker: worker.parse()?, half })
    }
}

/// Implements the conversions by which serde reads and writes a type as its name.
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
