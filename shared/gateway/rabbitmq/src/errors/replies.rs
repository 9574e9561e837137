//! Refusals of the broker, by AMQP's reply codes.

use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPHardError, AMQPSoftError};
use mq::{BrokerError, BrokerReply};

use super::{During, PRODUCT};

/// Converts a refusal by the broker to the gateway's error, by its AMQP reply code.
pub(super) fn classify_reply(error: &AMQPError, during: During<'_>) -> BrokerError {
    use AMQPErrorKind::{Hard, Soft};
    let said = reply(error);
    let rejected = |what: &str| BrokerError::rejected(format!("RabbitMQ refused {what}"));
    if let (Hard(AMQPHardError::NOTALLOWED | AMQPHardError::INTERNALERROR), Some(passing)) =
        (error.kind(), passing(error.get_message().as_str()))
    {
        return BrokerError::unreachable(passing).with_reply(said);
    }
    let classified = match (error.kind(), during) {
        (Soft(AMQPSoftError::ACCESSREFUSED), During::LogIn { .. }) => {
            BrokerError::authentication_failed("RabbitMQ refused the user or the password")
        }
        (Hard(AMQPHardError::RESOURCEERROR), _) => BrokerError::unreachable("RabbitMQ lacks resources"),
        (Hard(AMQPHardError::NOTALLOWED), During::LogIn { vhost }) => {
            rejected(&format!("the virtual host `{vhost}`"))
        }
        (Hard(AMQPHardError::INTERNALERROR), During::LogIn { vhost }) => {
            rejected(&format!("the login to the virtual host `{vhost}` because of a fault of its own"))
        }
        (Soft(AMQPSoftError::NOTFOUND), During::Queue(queue)) => BrokerError::queue_not_found(queue.clone()),
        (Soft(AMQPSoftError::CONTENTTOOLARGE), _) => too_large(None),
        // AMQP has no code for this limit; other preconditions have the same code.
        (Soft(AMQPSoftError::PRECONDITIONFAILED), _)
            if error.get_message().as_str().contains("message size") =>
        {
            too_large(last_number(error.get_message().as_str()))
        }
        (Hard(AMQPHardError::NOTIMPLEMENTED), During::Queue(queue)) => BrokerError::unsupported(format!(
            "RabbitMQ does not implement this for the queue `{queue}`: streams, and a few other kinds, cannot be \
             read message by message"
        )),
        (Hard(AMQPHardError::NOTIMPLEMENTED), _) => {
            BrokerError::unsupported("RabbitMQ does not implement this")
        }
        (Hard(AMQPHardError::CONNECTIONFORCED), _) => {
            BrokerError::unreachable("RabbitMQ closed the connection")
        }
        (Soft(AMQPSoftError::ACCESSREFUSED), During::Queue(queue)) => {
            rejected(&format!("the user access to the queue `{queue}`"))
        }
        (Soft(AMQPSoftError::RESOURCELOCKED), During::Queue(queue)) => rejected(&format!(
            "access to the queue `{queue}`: another connection owns it, or it has a single active consumer"
        )),
        (
            Soft(
                AMQPSoftError::ACCESSREFUSED
                | AMQPSoftError::NOTFOUND
                | AMQPSoftError::RESOURCELOCKED
                | AMQPSoftError::PRECONDITIONFAILED
                | AMQPSoftError::NOROUTE
                | AMQPSoftError::NOCONSUMERS,
            )
            | Hard(
                AMQPHardError::INVALIDPATH
                | AMQPHardError::FRAMEERROR
                | AMQPHardError::SYNTAXERROR
                | AMQPHardError::COMMANDINVALID
                | AMQPHardError::CHANNELERROR
                | AMQPHardError::UNEXPECTEDFRAME
                | AMQPHardError::NOTALLOWED
                | AMQPHardError::INTERNALERROR,
            ),
            _,
        ) => rejected(&format!("the request: {} ({})", said.name, said.code)),
    };
    classified.with_reply(said)
}

/// Returns the error detail for a temporary refusal with the broker's text `said`: a stopped
/// virtual host, or a reached limit of connections or channels. `None` for any other refusal. AMQP
/// has no codes for the temporary ones: only the text differs from that for a missing virtual host
/// (RabbitMQ, `rabbit_reader.erl`).
fn passing(said: &str) -> Option<String> {
    if said.contains("vhost") && said.ends_with(" is down") {
        return Some("RabbitMQ has not started the virtual host, or has stopped it".to_owned());
    }
    let connections = said.contains("connection limit (");
    if !connections && !said.contains("has reached the maximum allowed ") {
        return None;
    }
    let what = if connections { "connections" } else { "channels" };
    let whose = match said {
        said if said.contains("node connection limit") || said.contains("opened on node") => "the node",
        said if said.contains("access to vhost") => "the virtual host",
        _ => "the user",
    };
    let limit = said.rsplit_once('(').and_then(|(_, limit)| last_number(limit));
    let limit = limit.map_or_else(String::new, |limit| format!(" ({limit})"));
    Some(format!("RabbitMQ's limit of {what} of {whose}{limit} is reached"))
}

fn too_large(limit: Option<u64>) -> BrokerError {
    let detail = "the message is larger than RabbitMQ accepts";
    BrokerError::too_large(match limit {
        Some(limit) => format!("{detail}: its limit is {limit} bytes (`max_message_size`)"),
        None => detail.to_owned(),
    })
}

/// Returns the last number in `said`, a text of RabbitMQ that itself goes only to the log; `None`
/// if there is no number.
fn last_number(said: &str) -> Option<u64> {
    said.rsplit(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty())?.parse().ok()
}

/// Returns the broker's reply code and its name in the AMQP specification.
pub(super) fn reply(error: &AMQPError) -> BrokerReply {
    BrokerReply { product: PRODUCT, code: i64::from(error.get_id()), name: reply_name(error.kind()) }
}

/// Reply for a publish that the broker refused with `basic.nack`, which has no reply code: 120 is
/// the number of that method (RabbitMQ's extension of AMQP 0-9-1, class 60).
pub(crate) const NACK: BrokerReply = BrokerReply { product: PRODUCT, code: 120, name: "basic.nack" };

/// Reply for a message that the broker returned as unroutable (AMQP 0-9-1, `no-route`).
pub(crate) const NO_ROUTE: BrokerReply = BrokerReply { product: PRODUCT, code: 312, name: "NO_ROUTE" };

/// Returns the AMQP specification's name for a kind of error.
fn reply_name(kind: &AMQPErrorKind) -> &'static str {
    match kind {
        AMQPErrorKind::Soft(kind) => match kind {
            AMQPSoftError::CONTENTTOOLARGE => "CONTENT_TOO_LARGE",
            AMQPSoftError::NOROUTE => "NO_ROUTE",
            AMQPSoftError::NOCONSUMERS => "NO_CONSUMERS",
            AMQPSoftError::ACCESSREFUSED => "ACCESS_REFUSED",
            AMQPSoftError::NOTFOUND => "NOT_FOUND",
            AMQPSoftError::RESOURCELOCKED => "RESOURCE_LOCKED",
            AMQPSoftError::PRECONDITIONFAILED => "PRECONDITION_FAILED",
        },
        AMQPErrorKind::Hard(kind) => match kind {
            AMQPHardError::CONNECTIONFORCED => "CONNECTION_FORCED",
            AMQPHardError::INVALIDPATH => "INVALID_PATH",
            AMQPHardError::FRAMEERROR => "FRAME_ERROR",
            AMQPHardError::SYNTAXERROR => "SYNTAX_ERROR",
            AMQPHardError::COMMANDINVALID => "COMMAND_INVALID",
            AMQPHardError::CHANNELERROR => "CHANNEL_ERROR",
            AMQPHardError::UNEXPECTEDFRAME => "UNEXPECTED_FRAME",
            AMQPHardError::RESOURCEERROR => "RESOURCE_ERROR",
            AMQPHardError::NOTALLOWED => "NOT_ALLOWED",
            AMQPHardError::NOTIMPLEMENTED => "NOT_IMPLEMENTED",
            AMQPHardError::INTERNALERROR => "INTERNAL_ERROR",
        },
    }
}
