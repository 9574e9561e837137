//! Errors with their causes, as one text.

use std::error::Error;

/// Returns the texts of an error and its causes, separated by colons. A cause is left out if its
/// text is already part of the texts before it.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the file cannot be read")]
    struct Outer(#[source] io::Error);

    #[test]
    fn causes_follow_and_do_not_repeat_each_other() {
        let inner = io::Error::other("the disk is gone");
        assert_eq!(chain(&Outer(inner)), "the file cannot be read: the disk is gone");
        let quoted = io::Error::new(io::ErrorKind::NotFound, io::Error::other("the disk is gone"));
        assert_eq!(chain(&quoted), "the disk is gone");
    }
}
