//! Command-line arguments of `produce`, `consume`, `browse`, `move` and `depth`.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use uuid::Uuid;

use super::DryRun;
use super::choice::choices;

/// Options that choose the broker and its login, by a profile or by a file.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TargetArgs {
    /// Name of the target profile
    #[arg(long, short = 't', env = "INTEGRAHUB_TARGET", value_name = "PROFILE")]
    pub(crate) target: Option<String>,
    /// File with a target as YAML or JSON, in place of a profile or to replace members of it
    #[arg(long, value_name = "FILE")]
    pub(crate) target_file: Option<PathBuf>,
}

/// Options that choose a target, and a queue of it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Queue that replaces the queue of the profile
    #[arg(long, short = 'Q')]
    pub(crate) queue: Option<String>,
}

/// Arguments of `integrahub produce`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  \
integrahub produce -t orders order-17.json order-18.json\n  \
integrahub produce -t orders --lines events.ndjson -H source=till\n  \
echo hello | integrahub produce -t orders -\n  \
integrahub produce -t orders --count 1000 --size 2048\n  \
integrahub produce -t orders --count 50 --template '{\"n\": {{seq}}}' -P contentType=application/json\n\n\
After a failure run the same command with the `--key` that it prints: no message is put twice.")]
pub(crate) struct Produce {
    /// Files to put, each as one message; `-` is standard input
    #[arg(value_name = "FILE", conflicts_with_all = ["count", "template", "size"])]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) queue: QueueArgs,
    /// Text to put as one message; each use of the option adds a message
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["count", "template", "size"])]
    pub(crate) body: Vec<String>,
    /// Put each line of the files as a message; empty lines are left out
    #[arg(long, requires = "files")]
    pub(crate) lines: bool,
    /// Header of all messages, as `name=text` or `name:=JSON`
    #[arg(long = "header", short = 'H', value_name = "HEADER", value_parser = member)]
    pub(crate) headers: Vec<(String, Value)>,
    /// Property of all messages, such as `priority=4` or `contentType=text/csv`
    #[arg(long = "property", short = 'P', value_name = "PROPERTY", value_parser = property)]
    pub(crate) properties: Vec<(String, Value)>,
    /// Number of messages to generate
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) count: Option<u32>,
    /// Size in bytes of the body of each generated message
    #[arg(long, conflicts_with = "template")]
    pub(crate) size: Option<u32>,
    /// Text of generated messages, with {{seq}}, {{uuid}}, {{now}}, {{key}}, {{random(n)}}; `@FILE`
    /// reads a file
    #[arg(long)]
    pub(crate) template: Option<String>,
    /// Maximum number of generated messages to put per second; without it, as fast as the broker
    /// accepts
    #[arg(long, requires = "count")]
    pub(crate) rate: Option<u32>,
    /// Number of generated messages in each transaction; without it, there is no transaction
    #[arg(long, requires = "count")]
    pub(crate) tx: Option<u32>,
    /// Exchange of `RabbitMQ` to publish to, in place of a queue
    #[arg(long, conflicts_with = "queue")]
    pub(crate) exchange: Option<String>,
    /// Routing key for the exchange
    #[arg(long, requires = "exchange")]
    pub(crate) routing_key: Option<String>,
    /// Idempotency key that an earlier `produce` printed, to continue it
    #[arg(long)]
    pub(crate) key: Option<Uuid>,
}

/// Options that select messages on a queue of IBM MQ.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SelectArgs {
    /// Id of the message to select, in base64
    #[arg(long, value_name = "BASE64")]
    pub(crate) select_id: Option<String>,
    /// Correlation id of the messages to select, in base64
    #[arg(long, value_name = "BASE64")]
    pub(crate) select_correlation: Option<String>,
    /// Condition that selects messages, in the syntax of JMS selectors
    #[arg(long, value_name = "CONDITION")]
    pub(crate) r#where: Option<String>,
}

/// Option for the form in which `consume` and `browse` print messages on standard output.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ShowArgs {
    /// Form of a message: %s body, %S its bytes, %i id, %c correlation id, %h headers, %q queue, %r
    /// routing key, %y content type, %T time, %n number, %J all as JSON, %%, \n, \t, \0, \xHH
    #[arg(long = "format", short = 'f', value_name = "FORMAT")]
    pub(crate) format: Option<String>,
}

choices! {
    /// Treatment of messages on the queue, once `consume` has received them.
    #[derive(Default)]
    Ack {
        /// Remove the messages from the queue once the response with them is stored.
        #[default]
        Commit = "commit",
        /// Return the messages to the queue.
        Rollback = "rollback",
        /// Remove the messages as they are received. A crash before the response is stored loses
        /// them.
        None = "none",
    }
}

/// Arguments of `integrahub consume`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  \
integrahub consume -t orders\n  \
integrahub consume -t orders --all -f '%i %S\\n%s\\n'\n  \
integrahub consume -t orders --max 500 --output ndjson >orders.ndjson\n\n\
The program prints an idempotency key first. If it is killed, the same command with `--key` prints the \
same messages again and goes on.")]
pub(crate) struct Consume {
    #[command(flatten)]
    pub(crate) queue: QueueArgs,
    /// Maximum number of messages to take
    #[arg(long, short = 'm', default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max: u64,
    /// Take messages until the queue is empty
    #[arg(long, conflicts_with = "max")]
    pub(crate) all: bool,
    /// Seconds to wait for the first message
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=60))]
    pub(crate) wait: u8,
    /// Treatment of the received messages on the queue
    #[arg(long, value_enum, default_value_t)]
    pub(crate) ack: Ack,
    /// Take also messages that are too large for a response
    #[arg(long)]
    pub(crate) large: bool,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// End with exit code 9 if there was no message
    #[arg(long)]
    pub(crate) error_on_nothing: bool,
    /// Idempotency key that an earlier `consume` printed, to print its messages again and continue
    /// it
    #[arg(long)]
    pub(crate) key: Option<Uuid>,
}

/// Arguments of `integrahub browse`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  \
integrahub browse -t orders -Q ORDERS.DLQ\n  \
integrahub browse -t orders --max 100 -f '%n %i %h\\n'")]
pub(crate) struct Browse {
    #[command(flatten)]
    pub(crate) queue: QueueArgs,
    /// Maximum number of messages to show
    #[arg(long, short = 'm', default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) max: u64,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// End with exit code 9 if there was no message
    #[arg(long)]
    pub(crate) error_on_nothing: bool,
}

/// Arguments of `integrahub move`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  \
integrahub move -t orders --from ORDERS.DLQ --to-origin --dry-run\n  \
integrahub move -t orders --from ORDERS.DLQ --to ORDERS --max 500 --yes\n\n\
Without --yes the program shows what would move where, and asks.")]
pub(crate) struct Move {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Queue to move messages from, if not the queue of the profile
    #[arg(long, value_name = "QUEUE")]
    pub(crate) from: Option<String>,
    /// Queue to move messages to
    #[arg(long, value_name = "QUEUE", required_unless_present = "to_origin", conflicts_with = "to_origin")]
    pub(crate) to: Option<String>,
    /// Move each message to the queue on which it was first dead-lettered
    #[arg(long)]
    pub(crate) to_origin: bool,
    /// Maximum number of messages to move
    #[arg(long, short = 'm', default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max: u64,
    /// Ids of the messages to move, in base64, separated by commas; without them the first messages
    #[arg(long = "id", value_name = "BASE64", value_delimiter = ',')]
    pub(crate) ids: Vec<String>,
    /// Idempotency key of an earlier `move`, to continue it
    #[arg(long)]
    pub(crate) key: Option<Uuid>,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// Arguments of `integrahub depth`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  \
integrahub depth -t orders\n  \
integrahub depth -t orders ORDERS ORDERS.DLQ")]
pub(crate) struct Depth {
    /// Queues whose messages are counted; without any, the queue of the profile
    #[arg(value_name = "QUEUE")]
    pub(crate) queues: Vec<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Parses a header of the form `name=text` or `name:=JSON`.
fn member(text: &str) -> Result<(String, Value), String> {
    let form = || "write `name=text`, or `name:=JSON` for other types".to_owned();
    let (name, value) = text.split_once('=').ok_or_else(form)?;
    let (name, value) = match name.strip_suffix(':') {
        None => (name, Value::String(value.to_owned())),
        Some(name) => {
            let json =
                serde_json::from_str(value).map_err(|error| format!("`{value}` is not JSON: {error}"))?;
            (name, json)
        }
    };
    if name.is_empty() { Err(form()) } else { Ok((name.to_owned(), value)) }
}

/// Parses a property of the form `name=value`. The value becomes a number, a boolean or an object
/// if it looks like one; otherwise text.
fn property(text: &str) -> Result<(String, Value), String> {
    let (name, value) = member(text)?;
    let is_json = text.get(name.len()..).is_some_and(|rest| rest.starts_with(":="));
    let Value::String(value) = value else { return Ok((name, value)) };
    if is_json {
        return Ok((name, Value::String(value)));
    }
    let read = serde_json::from_str(&value).ok().filter(|read: &Value| !read.is_string());
    Ok((name, read.unwrap_or(Value::String(value))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_header_is_text_unless_it_says_otherwise() {
        assert_eq!(member("k=1"), Ok(("k".into(), json!("1"))));
        assert_eq!(member("k:=1"), Ok(("k".into(), json!(1))));
        assert_eq!(member("k=a=b"), Ok(("k".into(), json!("a=b"))));
        for text in ["k", "=v", ":=1", "k:={"] {
            assert!(member(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_property_has_the_type_that_it_looks_like() {
        for (text, value) in [
            ("priority=4", json!(4)),
            ("contentType=text/csv", json!("text/csv")),
            ("group={\"id\": \"17\"}", json!({"id": "17"})),
            ("type=\"4\"", json!("\"4\"")),
            ("type:=\"4\"", json!("4")),
        ] {
            assert_eq!(property(text).unwrap().1, value, "{text}");
        }
    }
}
