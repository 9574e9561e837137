use std::fmt::Write as _;

/// Error of a measurement, which no benchmark tells from others.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// An error with all that it says of its causes.
pub(crate) fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}
