//! Rounds of catalogues, sent at planned times and awaited until their batches are final.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::{try_join, try_join_all};
use tokio::time::{Instant, sleep_until};

use super::Stack;
use super::account::Times;
use super::backlog::{Backlog, Sample};
use super::load::Load;
use super::send::Sent;
use crate::error::Error;

/// Catalogue to send, with the time from the start of its round until it is sent.
pub(super) type Planned = (Duration, Load);
/// Catalogue whose batch ended as expected, with the batch's times.
pub(super) type Ended = (Load, Times);

/// Plans to send catalogues at equal intervals, from `from` on and within the time `within`.
pub(super) fn spread(loads: Vec<Load>, from: Duration, within: Duration) -> Result<Vec<Planned>, Error> {
    let distance = within / u32::try_from(loads.len())?.max(1);
    Ok((0_u32..).zip(loads).map(|(index, load)| (from + distance * index, load)).collect())
}

impl Stack<'_> {
    /// Sends the planned catalogues, and waits until their batches are final. Returns the
    /// catalogues with their batches' times, and samples of the backlog.
    pub(super) async fn round(&self, planned: Vec<Planned>) -> Result<(Vec<Ended>, Vec<Sample>), Error> {
        let accepted = AtomicI64::new(0);
        let tenants = planned.iter().map(|(_, load)| load.tenant.id).collect();
        let backlog = Backlog::of(&self.observer, tenants, planned.len())?;
        let begin = Instant::now();
        let sending = planned.into_iter().map(|(at, load)| self.send_at(begin + at, load, &accepted));
        let (sent, samples) = try_join(try_join_all(sending), backlog.until_all_end(&accepted)).await?;
        let mut ended = Vec::new();
        for sent in sent {
            let times = self.account(&sent).await?;
            ended.push((sent.load, times));
        }
        Ok((ended, samples))
    }

    async fn send_at(&self, at: Instant, load: Load, accepted: &AtomicI64) -> Result<Sent, Error> {
        sleep_until(at).await;
        let sent = self.send(load).await?;
        accepted.fetch_add(1, Ordering::Relaxed);
        Ok(sent)
    }
}
