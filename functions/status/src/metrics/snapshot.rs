//! Caches of metrics: the last snapshot of all metrics, which all requests share, and the last
//! samples of each source.

use std::sync::PoisonError;
use std::time::Duration;

use attempt::Moment;
use runtime::metrics::Scrape;
use tokio::sync::Mutex;

/// Age up to which a snapshot of the metrics is returned without reading the metrics again.
const FRESH: Duration = Duration::from_secs(15);
/// Age up to which a snapshot of the metrics is returned while another request reads a new one.
const STALE: Duration = Duration::from_secs(60);

/// Cache of the metric samples that were read last, with the time at which reading them began;
/// `None` before the first reading.
#[derive(Debug, Default)]
pub(crate) struct LastSamples(std::sync::Mutex<Option<(Scrape, Moment)>>);

/// Last snapshot of the metrics, with the lock for reading a new one.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    last: LastSamples,
    /// Lock that a request holds while it reads a new snapshot, so that only one request does so at
    /// a time.
    reading_lock: Mutex<()>,
}

impl Snapshots {
    /// Returns a snapshot of all metrics and its age. This is the last snapshot if it is less than
    /// 15 s old, otherwise the result of `look`, which reads the metrics. While another request
    /// reads a new snapshot, the last one is returned up to an age of 60 s.
    pub(crate) async fn current(&self, look: impl Future<Output = Scrape>) -> (Scrape, Duration) {
        if let Some(fresh) = self.last.within(FRESH) {
            return fresh;
        }
        let _reading = match self.reading_lock.try_lock() {
            Ok(lock) => lock,
            Err(_) => {
                if let Some(stale) = self.last.within(STALE) {
                    return stale;
                }
                self.reading_lock.lock().await
            }
        };
        if let Some(fresh) = self.last.within(FRESH) {
            return fresh;
        }
        let began = Moment::now();
        let scrape = look.await;
        self.last.keep(&scrape, began);
        (scrape, began.age())
    }
}

impl LastSamples {
    /// Stores the samples that were read last, and the time at which reading them began.
    pub(crate) fn keep(&self, scrape: &Scrape, began: Moment) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((scrape.clone(), began));
    }

    /// Returns the last samples if they are less than 60 s old, otherwise `None`.
    pub(crate) fn get(&self) -> Option<Scrape> {
        self.within(STALE).map(|(scrape, _)| scrape)
    }

    fn within(&self, age: Duration) -> Option<(Scrape, Duration)> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (scrape, made) = last.as_ref()?;
        let found = made.age();
        (found < age).then(|| (scrape.clone(), found))
    }

    /// Sets the age of the samples, for tests.
    #[cfg(test)]
    pub(crate) fn set_age(&self, age: Duration) {
        use std::time::SystemTime;
        let mut last = self.0.lock().unwrap();
        let made = Moment::on(std::time::Instant::now(), SystemTime::now() - age);
        *last = last.take().map(|(scrape, _)| (scrape, made));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use runtime::metrics::CHUNKS_PENDING;
    use tokio::sync::oneshot;

    use super::*;

    fn snapshot(chunks: u32) -> Scrape {
        let mut scrape = Scrape::default();
        scrape.put(CHUNKS_PENDING, &[], chunks);
        scrape
    }

    #[tokio::test]
    async fn however_many_scrape_there_is_one_look_in_fifteen_seconds() {
        let (snapshots, looks) = (Snapshots::default(), AtomicU32::new(0));
        let look = || async {
            let number = looks.fetch_add(1, Ordering::SeqCst) + 1;
            tokio::task::yield_now().await;
            snapshot(number)
        };
        let (one, other) = tokio::join!(snapshots.current(look()), snapshots.current(look()));
        assert_eq!((&one.0, &other.0), (&snapshot(1), &snapshot(1)));
        snapshots.last.set_age(FRESH - Duration::from_secs(5));
        assert_eq!(snapshots.current(look()).await.0, snapshot(1));
        snapshots.last.set_age(FRESH);
        let (renewed, age) = snapshots.current(look()).await;
        assert_eq!((renewed, looks.load(Ordering::SeqCst)), (snapshot(2), 2));
        assert!(age < FRESH);
    }

    #[tokio::test]
    async fn the_last_one_is_served_while_a_new_one_is_made_unless_it_is_too_old() {
        let snapshots = Snapshots::default();
        snapshots.current(async { snapshot(1) }).await;
        snapshots.last.set_age(FRESH);
        let (end, ended) = oneshot::channel::<()>();
        let slow = snapshots.current(async {
            ended.await.unwrap();
            snapshot(2)
        });
        let meanwhile = async {
            let (stale, age) = snapshots.current(async { snapshot(3) }).await;
            assert_eq!(stale, snapshot(1));
            assert!(age >= FRESH, "{age:?}");
            snapshots.last.set_age(STALE);
            end.send(()).unwrap();
            assert_eq!(snapshots.current(async { snapshot(4) }).await.0, snapshot(2));
        };
        let (slow, ()) = tokio::join!(slow, meanwhile);
        assert_eq!(slow.0, snapshot(2));
    }

    #[tokio::test]
    async fn a_look_that_is_given_up_lets_the_next_one_look() {
        let snapshots = Snapshots::default();
        let never = snapshots.current(std::future::pending());
        assert!(tokio::time::timeout(Duration::from_millis(10), never).await.is_err());
        assert_eq!(snapshots.current(async { snapshot(1) }).await.0, snapshot(1));
    }
}
