//! Samples, second by second, of the batches that are not final and of PostgreSQL's CPU time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::database::of_others;
use crate::error::Error;
use crate::report::table;

const BETWEEN_SAMPLES: Duration = Duration::from_secs(1);
/// Time without a newly final batch after which the benchmark gives up. The function `reconcile`
/// recovers stalled batches earlier.
const PATIENCE: Duration = Duration::from_mins(30);
/// Maximum number of samples in the table.
const SHOWN: usize = 20;

/// Batches of one round of the benchmark, observed until all are final.
pub(super) struct Backlog<'a> {
    observer: &'a Client,
    tenants: Vec<Uuid>,
    since: Timestamp,
    all: i64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    at: Duration,
    waiting: i64,
    chunking: i64,
    processing: i64,
    ended: i64,
    /// CPU time of PostgreSQL since the first sample.
    cpu: Duration,
}

const STATES: &str = "SELECT count(*) FILTER (WHERE status = 'CHUNKING'), \
     count(*) FILTER (WHERE status = 'PROCESSING'), count(*) FILTER (WHERE finished_at IS NOT NULL) \
     FROM batches WHERE tenant_id = ANY($1) AND received_at >= $2";
const OPEN: &str = "SELECT coalesce(string_agg(concat(batch_id, ' is ', status), ', '), 'not known yet') \
     FROM batches WHERE tenant_id = ANY($1) AND received_at >= $2 AND finished_at IS NULL";

impl<'a> Backlog<'a> {
    /// Creates the backlog of a round: `all` batches of these tenants, received from now on.
    pub(super) fn of(observer: &'a Client, tenants: Vec<Uuid>, all: usize) -> Result<Self, Error> {
        // A time of receipt has whole milliseconds.
        let since = Timestamp::from_millisecond(Timestamp::now().as_millisecond())?;
        Ok(Self { observer, tenants, since, all: i64::try_from(all)? })
    }

    /// Takes samples until all batches are final. `accepted` is the number of catalogues accepted
    /// so far.
    ///
    /// # Errors
    /// If batches do not end in time. The message names them.
    pub(super) async fn until_all_end(&self, accepted: &AtomicI64) -> Result<Vec<Sample>, Error> {
        let begin = Instant::now();
        let (mut samples, mut cpu, mut progress) = (Vec::<Sample>::new(), Duration::ZERO, begin);
        let mut before = of_others(self.observer).await?;
        loop {
            // A process may end just before its clock is read.
            let now = of_others(self.observer).await.unwrap_or(before);
            cpu += now.saturating_sub(before);
            before = now;
            let row = self.observer.query_one(STATES, &[&self.tenants, &self.since]).await?;
            let [chunking, processing, ended]: [i64; 3] = [row.try_get(0)?, row.try_get(1)?, row.try_get(2)?];
            let waiting = (accepted.load(Ordering::Relaxed) - chunking - processing - ended).max(0);
            if samples.last().is_none_or(|last| last.ended < ended) {
                progress = Instant::now();
            }
            samples.push(Sample { at: begin.elapsed(), waiting, chunking, processing, ended, cpu });
            if ended >= self.all {
                return Ok(samples);
            }
            if progress.elapsed() > PATIENCE {
                let open = self.observer.query_one(OPEN, &[&self.tenants, &self.since]).await?;
                let open: String = open.try_get(0)?;
                return Err(format!("{ended} of {} batches are final; the others: {open}", self.all).into());
            }
            sleep(BETWEEN_SAMPLES).await;
        }
    }
}

/// Formats evenly spaced samples, the last one included, as a table.
pub(super) fn series(samples: &[Sample]) -> String {
    let headings = ["s", "waiting", "CHUNKING", "PROCESSING", "final", "PostgreSQL, % of a core"];
    let step = samples.len().div_ceil(SHOWN).max(1);
    let mut shown: Vec<&Sample> = samples.iter().rev().step_by(step).collect();
    shown.reverse();
    let (mut at, mut cpu) = (Duration::ZERO, Duration::ZERO);
    let rows = shown.into_iter().map(|sample| {
        let share = (sample.cpu - cpu).as_secs_f64() / (sample.at - at).as_secs_f64();
        (at, cpu) = (sample.at, sample.cpu);
        let counts = [sample.waiting, sample.chunking, sample.processing, sample.ended];
        let mut row = vec![format!("{:.0}", sample.at.as_secs_f64())];
        row.extend(counts.map(|count| count.to_string()));
        row.push(format!("{:.0}", share * 100.0));
        row
    });
    table(&headings, rows)
}
