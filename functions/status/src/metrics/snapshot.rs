//! The last snapshot of the metrics, which all requests share, and the last figures of its parts.

use std::sync::PoisonError;
use std::time::Duration;

use attempt::Moment;
use runtime::metrics::Scrape;
use tokio::sync::Mutex;

/// Age up to which a snapshot of the metrics is returned without reading their sources.
const FRESH: Duration = Duration::from_secs(15);
/// Age up to which a snapshot of the metrics is returned while another request reads a new one.
const STALE: Duration = Duration::from_secs(60);

/// Last samples that were read, and the time at which reading them began.
#[derive(Debug, Default)]
pub(crate) struct Last(std::sync::Mutex<Option<(Scrape, Moment)>>);

/// Last snapshot of the metrics, with the lock for reading a new one.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    last: Last,
    /// Lock that a request holds while it reads a new snapshot, so that only one request does so at
    /// a time.
    looking: Mutex<()>,
}

impl Snapshots {
    /// Returns a snapshot and its age: the last one if it is at most 15 s old, otherwise the result
    /// of `look`. While another request reads a new snapshot, the last one is returned up to an age
    /// of 60 s.
    pub(crate) async fn current(&self, look: impl Future<Output = Scrape>) -> (Scrape, Duration) {
        if let Some(fresh) = self.last.within(FRESH) {
            return fresh;
        }
        let _looking = match self.looking.try_lock() {
            Ok(looking) => looking,
            Err(_) => {
                if let Some(stale) = self.last.within(STALE) {
                    return stale;
                }
                self.looking.lock().await
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

impl Last {
    /// Stores samples and the time at which reading them began.
    pub(crate) fn keep(&self, scrape: &Scrape, began: Moment) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((scrape.clone(), began));
    }

    /// Returns the samples, if they are less than 60 s old.
    pub(crate) fn get(&self) -> Option<Scrape> {
        self.within(STALE).map(|(scrape, _)| scrape)
    }

    fn within(&self, age: Duration) -> Option<(Scrape, Duration)> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (scrape, made) = last.as_ref()?;
        let found = made.age();
        (found < age).then(|| (scrape.clone(), found))
    }

    /// Lets the samples look older, for tests.
    #[cfg(test)]
    pub(crate) fn grow_old(&self, by: Duration) {
        use std::time::SystemTime;
        let mut last = self.0.lock().unwrap();
        let made = Moment::on(std::time::Instant::now(), SystemTime::now() - by);
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
        snapshots.last.grow_old(FRESH - Duration::from_secs(5));
        assert_eq!(snapshots.current(look()).await.0, snapshot(1));
        snapshots.last.grow_old(FRESH);
        let (renewed, age) = snapshots.current(look()).await;
        assert_eq!((renewed, looks.load(Ordering::SeqCst)), (snapshot(2), 2));
        assert!(age < FRESH);
    }

    #[tokio::test]
    async fn the_last_one_is_served_while_a_new_one_is_made_unless_it_is_too_old() {
        let snapshots = Snapshots::default();
        snapshots.current(async { snapshot(1) }).await;
        snapshots.last.grow_old(FRESH);
        let (end, ended) = oneshot::channel::<()>();
        let slow = snapshots.current(async {
            ended.await.unwrap();
            snapshot(2)
        });
        let meanwhile = async {
            let (stale, age) = snapshots.current(async { snapshot(3) }).await;
            assert_eq!(stale, snapshot(1));
            assert!(age >= FRESH, "{age:?}");
            snapshots.last.grow_old(STALE);
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
