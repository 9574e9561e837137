//! Failures as sentences for the user. `anyhow` could replace the type and the trait, but not the
//! code that makes the sentences: their beginning, the hint for a full disk, and causes that do not
//! repeat each other.

use std::error::Error;
use std::io;

pub(crate) use ::attempt::chain;

/// Error for the user, as a sentence that says what happened and what to do about it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

/// Conversion of an error from a lower layer to a [`Failure`] that names the attempted action.
pub(crate) trait Explain<T> {
    /// Converts the error to a [`Failure`]. `attempt` completes the sentence "Could not …".
    ///
    /// # Errors
    /// A [`Failure`] with the error's whole chain.
    fn or_explain(self, attempt: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Error + 'static> Explain<T> for Result<T, E> {
    fn or_explain(self, attempt: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| {
            if disk_is_full(&error) {
                return Failure(format!(
                    "Could not {}: the disk is full. Free some space (`df -h .` shows how much there is; `cargo clean` \
                     gives the build's back) and start again.",
                    attempt()
                ));
            }
            Failure(format!("Could not {}: {}", attempt(), chain(&error)))
        })
    }
}

fn disk_is_full(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| matches!(io.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
        {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_says_what_to_do() {
        let full: Result<(), _> = Err(io::Error::from(io::ErrorKind::StorageFull));
        let failure = full.or_explain(|| "write the log".into()).unwrap_err().to_string();
        assert!(failure.contains("write the log") && failure.contains("Free some space"), "{failure}");
    }
}
