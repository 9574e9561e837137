//! Command-line arguments of `integrahub audit`, which searches the audit events, and of
//! `integrahub requests`, which lists idempotency records by target.

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser as _};
use jiff::Span;

use super::choice::choices;

/// Maximum number of bytes of a target's name. The name is the partition key of an index of the
/// idempotency table, and DynamoDB allows no longer key (DynamoDB, "Quotas").
const LONGEST_TARGET: usize = 2_048;

/// Arguments of `integrahub audit`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "Examples:\n  integrahub audit --queue DEV.QUEUE.1\n  \
integrahub audit --key \"orders service\" --since 7d\n  \
integrahub audit --tenant acme --outcome refused -o ndjson")]
pub(crate) struct Audit {
    /// Only requests of this tenant, by its name or id
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) tenant: Option<String>,
    /// Only requests with this API key, by its name, or by the first eight digits of its hash
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) key: Option<String>,
    /// Only requests to this target: a profile by its name, or a target as answers name it, such as
    /// QM1:DEV.QUEUE.1
    #[arg(long, value_parser = NonEmptyStringValueParser::new().try_map(target))]
    pub(crate) target: Option<String>,
    /// Only requests to this queue
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) queue: Option<String>,
    /// Only requests with this outcome
    #[arg(long, value_enum)]
    pub(crate) outcome: Option<Outcome>,
    /// Only requests to which the caller gave this tag
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) tag: Option<String>,
    /// Time to look back, such as 30m, 1h or 7d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = span)]
    pub(crate) since: Span,
    /// Maximum number of events to show, the newest ones
    #[arg(long, short = 'm', default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) max: u32,
}

/// Parses a span of time, such as `7d`.
///
/// # Errors
/// If the text is no span of time. The error is a sentence for the user.
fn span(text: &str) -> Result<Span, String> {
    let read = text.parse::<Span>().ok().filter(|span| !span.is_negative());
    read.ok_or_else(|| "a time is a number with a unit, such as 30m, 1h or 7d".to_owned())
}

/// Returns a target's name, as responses write it, if it has at most [`LONGEST_TARGET`] bytes.
///
/// # Errors
/// If the name is longer. The error is a sentence for the user.
fn target(text: String) -> Result<String, String> {
    let is_too_long = text.len() > LONGEST_TARGET;
    if is_too_long { Err(format!("a target has at most {LONGEST_TARGET} bytes")) } else { Ok(text) }
}

choices! {
    /// Outcome of a request in the audit log.
    Outcome {
        /// The request was executed.
        Done = "done",
        /// The request was not executed: the response came from the record of an earlier request.
        Replayed = "replayed",
        /// The request was refused, with a status from 400 to 499.
        Refused = "refused",
        /// The request failed, with a status of 500 or more.
        Failed = "failed",
    }
}

/// Arguments of `integrahub requests`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  integrahub requests --target QM1:DEV.QUEUE.1 --tenant acme")]
pub(crate) struct Requests {
    /// Target of the requests, as answers name it, such as QM1:DEV.QUEUE.1
    #[arg(long, value_parser = NonEmptyStringValueParser::new().try_map(target))]
    pub(crate) target: String,
    /// Only requests of this tenant, by its name or id
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) tenant: Option<String>,
    /// Maximum number of requests to show, the newest ones
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
