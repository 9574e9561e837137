//! Command-line arguments of `integrahub send`.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::choice::choices;

/// Minimum upload speed that `--bwlimit` may set, in bytes per second.
const SLOWEST: u64 = 1024;

choices! {
    /// Load type of a catalogue: whether products that are not in it become inactive.
    LoadType {
        /// The catalogue has only some products; all others stay as they are.
        Delta = "delta",
        /// The catalogue is complete; products that are not in it become inactive.
        Full = "full",
    }

    /// Format of a catalogue's content, once it is inflated.
    Form {
        /// A JSON array of items.
        Array = "array",
        /// A JSON object a line, one for each item.
        Lines = "lines",
    }

    /// Treatment of catalogue items that lack members with a database column.
    PartialItems {
        /// Refuse the items as errors, and clear nothing in the database.
        Refuse = "refuse",
        /// Load and count the items, and clear the columns of the members that they lack.
        Warn = "warn",
    }
}

/// Arguments of `integrahub send`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  \
integrahub send --type delta prices.ndjson\n  \
integrahub send --type full loja-*.json.gz --errors errors.ndjson\n  \
export-catalogue | integrahub send --type full -\n  \
integrahub send --type delta --watch /srv/till/out\n\n\
A file is an array or an object a line, as it is or as gzip: its first bytes say which. The program \
remembers each file until its batch is final, so after a failure run the same command again.")]
pub(crate) struct Send {
    /// Files to send; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "watch")]
    pub(crate) files: Vec<PathBuf>,
    /// full: the whole catalogue; products that it lacks become inactive. delta: only some
    /// products; the others stay
    #[arg(long = "type", short = 't', value_enum)]
    pub(crate) load_type: LoadType,
    /// Format of the content, if not the format that its first bytes show
    #[arg(long, value_enum)]
    pub(crate) format: Option<Form>,
    /// Treatment of items that lack members; without it the deployment decides
    #[arg(long, value_enum)]
    pub(crate) partial_items: Option<PartialItems>,
    /// Idempotency key of the load, in place of a key derived from the content; for one file
    #[arg(long, value_parser = text_key, conflicts_with = "again")]
    pub(crate) key: Option<String>,
    /// Load the content once more, even if it was sent before
    #[arg(long)]
    pub(crate) again: bool,
    /// Maximum number of files that are sent at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) parallel: u8,
    /// Maximum speed of all uploads together in bytes a second, such as 500K or 2M
    #[arg(long, value_name = "RATE", value_parser = bytes_a_second)]
    pub(crate) bwlimit: Option<NonZeroU64>,
    /// End as soon as the files are accepted, without waiting for their batches
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Longest time to wait for a batch, such as 10m; without this option there is no limit
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "no_wait")]
    pub(crate) timeout: Option<Duration>,
    /// Longest time in which a failed request is tried again, such as 90s
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    pub(crate) retry_for: Duration,
    /// File to write the items in error to, a JSON object a line
    #[arg(long, value_name = "FILE", conflicts_with = "no_wait")]
    pub(crate) errors: Option<PathBuf>,
    /// End with exit code 9 if the watched directory had no file to send
    #[arg(long, requires = "once")]
    pub(crate) error_on_nothing: bool,
    /// Show how each file would be sent, and under which key, but send nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Directory whose files are sent as they appear; a link in it is sent as the file that it
    /// leads to, and stays if that file is outside of the directory
    #[arg(long, value_name = "DIRECTORY")]
    #[arg(conflicts_with_all = ["files", "key", "no_wait", "errors", "dry_run", "again"])]
    pub(crate) watch: Option<PathBuf>,
    /// Send the files that the directory has now, and end
    #[arg(long, requires = "watch")]
    pub(crate) once: bool,
    /// Pattern (* and ?) of file names to send from the directory; without it, names of JSON files
    #[arg(long, value_name = "PATTERN", requires = "watch")]
    pub(crate) glob: Vec<String>,
    /// Time between two scans of the directory; a file is sent if it did not change in between
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub(crate) interval: Duration,
    /// Upper limit of the random delay before the first request, so that senders do not all start
    /// at once
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub(crate) jitter: Duration,
}

/// Parses a time such as `90` (seconds), `500ms`, `5m` or `1h30m`.
///
/// # Errors
/// If the text is no time. The error is a sentence for the user.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let read = text.parse::<jiff::SignedDuration>().ok().and_then(|read| Duration::try_from(read).ok());
    read.ok_or_else(|| "a time is a number with a unit, such as 90s, 5m or 2h".to_owned())
}

/// Parses a rate such as `65536`, `500K` or `2M` in bytes per second: K is 1024, M is 1024 K.
fn bytes_a_second(text: &str) -> Result<NonZeroU64, String> {
    let (number, unit) = match text.strip_suffix(['K', 'k']) {
        Some(number) => (number, 1024),
        None => text.strip_suffix(['M', 'm']).map_or((text, 1), |number| (number, 1024 * 1024)),
    };
    let bytes: Option<u64> = number.parse().ok().and_then(|number: u64| number.checked_mul(unit));
    let bytes = bytes.filter(|&bytes| bytes >= SLOWEST).and_then(NonZeroU64::new);
    bytes.ok_or_else(|| "a rate is a number of bytes a second from 1K on, such as 500K or 2M".to_owned())
}

/// Returns an idempotency key if the product routes accept it: 1 to 255 visible ASCII characters,
/// no comma, and no quotation mark at the start. It need not be a UUID.
///
/// # Errors
/// If the routes would refuse the key. The error is a sentence for the user.
fn text_key(text: &str) -> Result<String, String> {
    let visible = !text.is_empty() && text.len() <= 255 && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !visible || text.contains(',') || text.starts_with('"') {
        return Err(
            "a key has 1 to 255 visible ASCII characters, no comma, and no quotation mark first".into()
        );
    }
    if text.starts_with("drop:") {
        return Err("keys that begin with `drop:` belong to files that are dropped into S3".into());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_or_are_seconds() {
        for (text, milliseconds) in [("90", 90_000), ("500ms", 500), ("5m", 300_000), ("1h30m", 5_400_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "soon", "-5s", "5 parsecs"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_is_bytes_a_second() {
        for (text, bytes) in [("65536", 65_536), ("1K", 1024), ("500k", 512_000), ("2M", 2_097_152)] {
            assert_eq!(bytes_a_second(text).map(NonZeroU64::get), Ok(bytes), "{text}");
        }
        for text in ["", "0", "100", "fast", "-1M", "1.5M", "2G", "99999999999999M"] {
            assert!(bytes_a_second(text).is_err(), "{text}");
        }
    }

    #[test]
    fn keys_are_those_that_the_product_routes_take() {
        for text in ["loja-12-2026-11-22", "a", "send:full:array:0f"] {
            assert_eq!(text_key(text).as_deref(), Ok(text));
        }
        let long = "x".repeat(256);
        for text in ["", "a b", "a,b", "\"a\"", "ação", "drop:a", &long] {
            assert!(text_key(text).is_err(), "{text}");
        }
    }
}
