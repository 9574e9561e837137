//! The last snapshot of the metrics, which all requests share, and the last figures of its parts.

use std::sync::PoisonError;
use std::time::Duration;

use attempt::Moment;
use runtime::metrics::Scrape;
use tokio::sync::Mutex;

/// Age up to which a snapshot is served without reading its sources.
const FRESH: Duration = Duration::from_secs(15);
/// Age up to which a snapshot is served while another request makes a new one.
const STALE: Duration = Duration::from_secs(60);

/// The last samples that were read, and when.
#[derive(Debug, Default)]
pub(crate) struct Last(std::sync::Mutex<Option<(Scrape, Moment)>>);

/// The last snapshot.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    last: Last,
    /// Lock of the request that makes a snapshot, so that there is one at a time.
    looking: Mutex<()>,
}

impl Snapshots {
    /// Returns a snapshot and its age: the last one if it is fresh, else the result of `look`.
    /// While another request takes a new snapshot, the last one is returned unless it is too old.
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
    /// Keeps samples whose reading began then.
    pub(crate) fn keep(&self, scrape: &Scrape, began: Moment) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((scrape.clone(), began));
    }

    /// Returns the samples, if they are not too old to be served.
    pub(crate) fn get(&self) -> Option<Scrape> {
        self.within(STALE).map(|(scrape, _)| scrape)
    }

    fn within(&self, age: Duration) -> Option<(Scrape, Duration)> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (scrape, made) = last.as_ref()?;
        let found = made.age();
        (found < age).then(|| (scrape.clone(), found))
    }

    /// Makes the samples older, for tests.
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
