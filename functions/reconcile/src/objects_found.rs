use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use accepted::Taken;
use futures_util::StreamExt as _;
use futures_util::stream;
use ingestion::payload::{PayloadMetadata, batch_of_payload, payload_prefix};
use jiff::Timestamp;
use objects::{Listed, ObjectError};
use tokio::time::Instant;
use uuid::Uuid;

use crate::failure::{First, Trouble};
use crate::report::ObjectsReport;
use crate::tell::half_way;
use crate::{Reconcile, Settings};

/// Payloads that one run tells of at most.
const LIMIT: u64 = 500;

/// Objects that are looked at at once.
const AT_ONCE: usize = 16;

/// The hours that every run looks through, since nearly everything that is missing is missing of them.
const RECENT_HOURS: i64 = 3;

/// Of the hours before, each run looks through one in so many, so that each comes round once an hour and listing costs little.
const SLICES: i64 = 12;

/// What an object turned out to be.
enum Find {
    Told,
    Waiting,
    Foreign,
    /// Meanwhile it is gone.
    Gone,
    /// Not looked at.
    Left,
}

impl Reconcile {
    /// Tells of payloads that lie there for long and belong to no batch that the database knows.
    pub(crate) async fn find_objects(
        &self,
        until: Instant,
        report: &mut ObjectsReport,
    ) -> Result<(), Trouble> {
        let now = Timestamp::now();
        let mut first = First::default();
        for hour in hours(now, &self.settings) {
            let prefix = payload_prefix(hour);
            let mut from = None;
            loop {
                if Instant::now() >= until {
                    return Err(Trouble::OutOfTime);
                }
                if report.found >= LIMIT {
                    tracing::warn!(
                        event_type = "look.limited",
                        "there may be more payloads than one run tells of"
                    );
                    return first.end();
                }
                let page = self.objects.list(&prefix, from).await?;
                self.tell_unknown(page.objects, now, report, &mut first).await?;
                from = page.next;
                if from.is_none() {
                    break;
                }
            }
        }
        first.end()
    }

    async fn tell_unknown(
        &self,
        listed: Vec<Listed>,
        now: Timestamp,
        report: &mut ObjectsReport,
        first: &mut First,
    ) -> Result<(), Trouble> {
        report.seen = report.seen.saturating_add(count(listed.len()));
        let young =
            |object: &Listed| now.duration_since(object.modified_at) < signed(self.settings.object_age);
        let mut asked = Vec::new();
        for object in listed.into_iter().filter(|object| !young(object)) {
            match batch_of_payload(&object.key) {
                Some(batch_id) => asked.push((batch_id, object)),
                None => {
                    report.foreign = report.foreign.saturating_add(1);
                    tracing::warn!(
                        event_type = "object.foreign",
                        object = object.key,
                        "no payload has such a key"
                    );
                }
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = asked.iter().map(|(batch_id, _)| *batch_id).collect();
        let unknown: HashSet<Uuid> = self.database.unknown(&ids).await?.into_iter().collect();
        asked.retain(|(batch_id, _)| unknown.contains(batch_id));
        asked.truncate(usize::try_from(LIMIT.saturating_sub(report.found)).unwrap_or(usize::MAX));
        let queue_is_away = AtomicBool::new(false);
        let mut finds = stream::iter(asked)
            .map(|(_, object)| {
                let queue_is_away = &queue_is_away;
                Box::pin(async move {
                    // A queue that does not take one will not take the next, which is not looked at in vain.
                    if queue_is_away.load(Ordering::Relaxed) {
                        return Ok(Find::Left);
                    }
                    let find = self.tell_object(&object, now).await;
                    queue_is_away.fetch_or(matches!(find, Err(Trouble::Queue(_))), Ordering::Relaxed);
                    find
                })
            })
            .buffer_unordered(AT_ONCE);
        while let Some(find) = finds.next().await {
            match find {
                Ok(Find::Told) => report.found = report.found.saturating_add(1),
                Ok(Find::Waiting) => report.waiting = report.waiting.saturating_add(1),
                Ok(Find::Foreign) => report.foreign = report.foreign.saturating_add(1),
                Ok(Find::Gone | Find::Left) => {}
                Err(trouble) => first.note(trouble),
            }
        }
        Ok(())
    }

    async fn tell_object(&self, object: &Listed, now: Timestamp) -> Result<Find, Trouble> {
        let key = &object.key;
        let head = match self.objects.head(key).await {
            Err(ObjectError::Missing { .. }) => return Ok(Find::Gone),
            head => head?,
        };
        let metadata = PayloadMetadata::from_map(&head.metadata).ok().filter(|it| it.key() == *key);
        let Some(metadata) = metadata else {
            tracing::warn!(
                event_type = "object.foreign",
                object = key,
                "the object does not say of which batch it is"
            );
            return Ok(Find::Foreign);
        };
        let told_before = half_way(object.modified_at, now);
        let taken = self.tell_once(metadata.tenant_id, metadata.batch_id, key, told_before).await?;
        let (batch_id, tenant) = (metadata.batch_id.to_string(), metadata.tenant_id.to_string());
        Ok(match taken {
            Taken::Yes => {
                let age = now.duration_since(object.modified_at).as_secs();
                let correlation_id = metadata.trace_id;
                tracing::warn!(
                    event_type = "object.found",
                    object = key,
                    batch_id,
                    tenant,
                    correlation_id,
                    age_seconds = age,
                    "a payload that never became a batch was told of again"
                );
                Find::Told
            }
            Taken::Recently => Find::Waiting,
            Taken::NotAccepted => {
                tracing::warn!(
                    event_type = "object.foreign",
                    object = key,
                    batch_id,
                    tenant,
                    "its batch was never accepted"
                );
                Find::Foreign
            }
        })
    }
}

/// The hours to look through now, the oldest first.
fn hours(now: Timestamp, settings: &Settings) -> Vec<Timestamp> {
    let interval = i64::try_from(settings.interval.as_secs()).unwrap_or(i64::MAX).max(1);
    let run = now.as_second().div_euclid(interval);
    let this_hour = now.as_second().div_euclid(3600);
    let chosen =
        |hour: &i64| this_hour - hour < RECENT_HOURS || hour.rem_euclid(SLICES) == run.rem_euclid(SLICES);
    let first = this_hour.saturating_sub(i64::from(settings.hours).saturating_sub(1));
    (first..=this_hour)
        .filter(chosen)
        .filter_map(|hour| Timestamp::from_second(hour.checked_mul(3600)?).ok())
        .collect()
}

fn signed(duration: std::time::Duration) -> jiff::SignedDuration {
    jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_hours_are_looked_through_in_every_run() {
        let now: Timestamp = "2026-11-21T01:10:00Z".parse().unwrap();
        let hours = hours(now, &Settings::default());
        let newest: Vec<_> = hours[hours.len() - 3..].iter().map(|hour| payload_prefix(*hour)).collect();
        assert_eq!(newest, ["incoming/2026/11/20/23/", "incoming/2026/11/21/00/", "incoming/2026/11/21/01/"]);
        assert!(hours.is_sorted() && hours.len() <= 9, "{hours:?}");
    }

    #[test]
    fn every_hour_comes_round_whatever_the_interval() {
        for minutes in [2, 5, 30, 60] {
            let settings = Settings { interval: Duration::from_mins(minutes), ..Settings::default() };
            let begin: Timestamp = "2026-11-21T01:13:00Z".parse().unwrap();
            let runs = (0..SLICES)
                .map(|run| begin + jiff::SignedDuration::from_mins(run * i64::try_from(minutes).unwrap()));
            let seen: BTreeSet<Timestamp> = runs.flat_map(|now| super::hours(now, &settings)).collect();
            let last = *seen.last().unwrap();
            let expected = (0..72 - 12).map(|hour| last - jiff::SignedDuration::from_hours(hour));
            assert!(expected.into_iter().all(|hour| seen.contains(&hour)), "every {minutes} minutes");
        }
    }

    #[test]
    fn one_hour_is_this_one() {
        let now: Timestamp = "2026-11-21T01:10:00Z".parse().unwrap();
        let settings = Settings { hours: 1, ..Settings::default() };
        assert_eq!(hours(now, &settings), ["2026-11-21T01:00:00Z".parse().unwrap()]);
    }
}
