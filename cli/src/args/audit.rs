//! Commands that ask who did what.

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser as _};
use jiff::Span;

use super::choice::choices;

/// Maximum number of bytes of a target: records have it as the key of an index (DynamoDB, "Quotas").
const LONGEST_TARGET: usize = 2_048;

/// `integrahub audit`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "Examples:\n  integrahub audit --queue DEV.QUEUE.1\n  \
integrahub audit --key \"orders service\" --since 7d\n  \
integrahub audit --tenant acme --outcome refused -o ndjson")]
pub(crate) struct Audit {
    /// Tenant, by its name or id
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) tenant: Option<String>,
    /// API key, by its name, or by the first eight digits of its hash
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) key: Option<String>,
    /// Target profile by its name, or target as answers name it, such as QM1:DEV.QUEUE.1
    #[arg(long, value_parser = NonEmptyStringValueParser::new().try_map(target))]
    pub(crate) target: Option<String>,
    /// Queue
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) queue: Option<String>,
    /// End of the requests
    #[arg(long, value_enum)]
    pub(crate) outcome: Option<Outcome>,
    /// Tag that the caller gave the request
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) tag: Option<String>,
    /// Time to look back, such as 30m, 1h or 7d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = span)]
    pub(crate) since: Span,
    /// Most events, the newest ones
    #[arg(long, short = 'm', default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) max: u32,
}

/// Reads a span of time.
///
/// # Errors
/// Returns the sentence to show to the user.
fn span(text: &str) -> Result<Span, String> {
    let read = text.parse::<Span>().ok().filter(|span| !span.is_negative());
    read.ok_or_else(|| "a time is a number with a unit, such as 30m, 1h or 7d".to_owned())
}

/// Checks a target as answers name it.
///
/// # Errors
/// Returns the sentence to show to the user.
fn target(text: String) -> Result<String, String> {
    let is_too_long = text.len() > LONGEST_TARGET;
    if is_too_long { Err(format!("a target has at most {LONGEST_TARGET} bytes")) } else { Ok(text) }
}

choices! {
    /// End of a request.
    Outcome {
        /// Executed.
        Done = "done",
        /// Answered from the record of an earlier one.
        Replayed = "replayed",
        /// Refused, by a status of 400 to 499.
        Refused = "refused",
        /// Failed, by a status of 500 or more.
        Failed = "failed",
    }
}

/// `integrahub requests`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  integrahub requests --target QM1:DEV.QUEUE.1 --tenant acme")]
pub(crate) struct Requests {
    /// Target as answers name it, such as QM1:DEV.QUEUE.1
    #[arg(long, value_parser = NonEmptyStringValueParser::new().try_map(target))]
    pub(crate) target: String,
    /// Tenant, by its name or id
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) tenant: Option<String>,
    /// Most requests, the newest ones
    #[arg(long, short = 'm', default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) max: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_no_longer_than_a_key_of_the_index() {
        assert_eq!(target("ü".repeat(LONGEST_TARGET / 2)).map(|text| text.len()), Ok(LONGEST_TARGET));
        assert!(target("x".repeat(LONGEST_TARGET + 1)).is_err_and(|why| why.contains("2048 bytes")));
    }
}
