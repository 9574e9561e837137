//! Answers that come from a record.

use api::Reply;
use idempotency::Response;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

/// A reply as records keep it.
pub fn recorded(Reply { status, headers, body }: Reply) -> Response {
    Response { status, headers, body }
}

/// A recorded reply.
pub fn reply(Response { status, headers, body }: Response) -> Reply {
    Reply { status, headers, body }
}

/// The stored reply, marked as a replay of what was first done at `completed_at`.
pub(crate) fn replay(mut reply: Reply, completed_at: Timestamp) -> Reply {
    reply.set_header("idempotent-replay", "true");
    if let Ok(date) = DateTimePrinter::new().timestamp_to_rfc9110_string(&completed_at) {
        reply.set_header("last-modified", date);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_keeps_the_body_and_dates_the_first_execution() {
        let stored = Reply::new(201, "application/json", "{\"a\":1}".to_owned());
        let replayed = replay(stored.clone(), Timestamp::from_second(784_111_777).unwrap());
        assert_eq!((replayed.status, &replayed.body), (201, &stored.body));
        assert_eq!(replayed.headers["last-modified"], "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(replayed.headers["idempotent-replay"], "true");
    }
}
