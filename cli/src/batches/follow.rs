//! Polling of a batch until its status is final.

use std::time::{Duration, Instant};

use super::{Batch, path};
use crate::api::Api;
use crate::exit::Failure;

/// Pause after the first request for a batch's state; each further pause is longer.
const FIRST: Duration = Duration::from_millis(300);
/// Longest pause between two requests for a batch's state.
const LONGEST: Duration = Duration::from_secs(5);

/// Requests a batch's state until the batch has ended, for at most `limit` (without a limit if
/// `None`), and returns the last state. `seen` is called with each state.
///
/// # Errors
/// If the API does not return the batch.
pub(crate) async fn follow(
    api: &Api,
    batch_id: &str,
    limit: Option<Duration>,
    mut seen: impl FnMut(&Batch),
) -> Result<Batch, Failure> {
    let begin = Instant::now();
    let mut pause = FIRST;
    loop {
        let batch = Batch::read(api.get(&path(batch_id)).await?)?;
        seen(&batch);
        if batch.is_final() {
            return Ok(batch);
        }
        let mut next = pause.mul_f64(0.75 + fastrand::f64() / 2.0);
        if let Some(limit) = limit {
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(batch);
            }
            next = next.min(left);
        }
        tokio::time::sleep(next).await;
        pause = pause.mul_f64(1.4).min(LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use test_support::http_server::{self, Server};

    use super::*;
    use crate::api::Schedule;

    async fn followed(finals_from: usize, limit: Option<Duration>) -> (Batch, usize) {
        let looks = std::sync::Arc::new(std::sync::Mutex::new(0));
        let counted = std::sync::Arc::clone(&looks);
        let server = Server::start(move |request| {
            assert_eq!(request.uri().path(), "/v1/inovafarma/batches/b");
            let mut looks = counted.lock().unwrap();
            *looks += 1;
            let status = if *looks >= finals_from { "COMPLETED" } else { "PROCESSING" };
            let body = json!({"batch_id": "b", "status": status}).to_string();
            async move { Some(http_server::response(200, body)) }
        })
        .await;
        let schedule = Schedule::within(Duration::from_secs(1));
        let key = "k".to_owned().into();
        let api = Api::at(&server.url().parse().unwrap(), Some(&key), schedule).unwrap();
        let mut seen = 0;
        let followed = follow(&api, "b", limit, |_| seen += 1).await.unwrap();
        assert_eq!(seen, *looks.lock().unwrap());
        (followed, seen)
    }

    #[tokio::test]
    async fn a_batch_is_followed_until_it_is_final() {
        let (batch, looks) = followed(3, None).await;
        assert_eq!((batch.status.as_str(), looks), ("COMPLETED", 3));
    }

    #[tokio::test]
    async fn the_time_limit_ends_the_wait_and_not_the_batch() {
        let (batch, looks) = followed(usize::MAX, Some(Duration::from_millis(1))).await;
        assert!(batch.status == "PROCESSING" && looks >= 1);
    }
}
