//! Division of log events into calls of `PutLogEvents`, within the limits of that action.

use serde::Serialize;

/// Maximum number of events in one call of `PutLogEvents`.
const MOST_EVENTS: usize = 10_000;
/// Maximum size in bytes of one call of `PutLogEvents`: its messages, and [`BESIDE`] for each of
/// them.
const MOST_BYTES: usize = 1_048_576;
/// Bytes that `PutLogEvents` counts for each event in addition to its message.
const BESIDE: usize = 26;
/// Maximum time between the first and the last event of one `PutLogEvents` call, in milliseconds.
const LONGEST_SPAN: i64 = 24 * 60 * 60 * 1_000;

/// Log event to write, as `PutLogEvents` takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    /// Time of the log event, in epoch milliseconds.
    pub(crate) timestamp: i64,
    pub(crate) message: String,
}

impl Line {
    fn size(&self) -> usize {
        self.message.len().saturating_add(BESIDE)
    }
}

/// Divides events into `PutLogEvents` calls, each ordered by time. An event that is too large for a
/// call is left out, and an error is logged. Such an event is still in the log of the function that
/// wrote it.
pub(crate) fn calls(mut lines: Vec<Line>) -> Vec<Vec<Line>> {
    lines.sort_by_key(|line| line.timestamp);
    let mut lines = lines.into_iter().peekable();
    let mut calls = Vec::new();
    while let Some(first) = lines.next() {
        if first.size() > MOST_BYTES {
            let bytes = first.message.len();
            tracing::error!(
                event_type = "audit.too_large",
                bytes,
                "an audit event of {bytes} bytes is more than the log group takes"
            );
            continue;
        }
        let until = first.timestamp.saturating_add(LONGEST_SPAN);
        let mut bytes = first.size();
        let mut call = vec![first];
        while call.len() < MOST_EVENTS {
            let fits =
                |next: &Line| next.timestamp < until && bytes.saturating_add(next.size()) <= MOST_BYTES;
            let Some(next) = lines.next_if(fits) else { break };
            bytes = bytes.saturating_add(next.size());
            call.push(next);
        }
        calls.push(call);
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(timestamp: i64, bytes: usize) -> Line {
        Line { timestamp, message: "x".repeat(bytes) }
    }

    fn lengths(lines: Vec<Line>) -> Vec<usize> {
        calls(lines).iter().map(Vec::len).collect()
    }

    #[test]
    fn a_call_is_sorted_by_time() {
        let calls = calls(vec![line(3, 1), line(1, 2), line(2, 3)]);
        assert_eq!(calls, [[line(1, 2), line(2, 3), line(3, 1)]]);
    }

    #[test]
    fn a_call_is_within_the_limits_of_the_log_group() {
        assert_eq!(lengths(Vec::new()), [0; 0]);
        assert_eq!(lengths(vec![line(0, 0); 10_001]), [10_000, 1]);
        assert_eq!(lengths(vec![line(0, MOST_BYTES / 2 - BESIDE); 3]), [2, 1]);
        assert_eq!(lengths(vec![line(0, 1), line(LONGEST_SPAN - 1, 1), line(LONGEST_SPAN, 1)]), [2, 1]);
    }

    #[test]
    fn a_line_that_no_call_carries_holds_up_no_other() {
        assert_eq!(lengths(vec![line(0, 1), line(1, MOST_BYTES), line(2, 1)]), [1, 1]);
    }
}
