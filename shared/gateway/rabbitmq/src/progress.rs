//! Progress of a produce call, for its caller.

use tokio::sync::watch;

/// Reports how many messages are on the queue, counted from the command's first one.
#[derive(Debug)]
pub(crate) struct Progress<'a> {
    confirmed: &'a watch::Sender<u64>,
    /// Number of messages that were on the queue when the window was opened.
    before: u64,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(confirmed: &'a watch::Sender<u64>, before: u64) -> Self {
        Self { confirmed, before }
    }

    /// Reports that the window's first `messages` messages are on the queue.
    pub(crate) fn tell(&self, messages: usize) {
        let count = self.before.saturating_add(u64::try_from(messages).unwrap_or_default());
        self.confirmed.send_if_modified(|known| {
            let is_more = count > *known;
            *known = count.max(*known);
            is_more
        });
    }
}
