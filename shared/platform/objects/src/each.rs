//! The same request for many objects, several at once.

use tokio::task::{JoinError, JoinSet};

use crate::{ObjectError, Objects};

/// Most requests at the same time.
const AT_ONCE: usize = 16;

impl Objects {
    /// Sends the same request for each object, and returns all results once all are there.
    pub(crate) async fn each<T, F>(
        &self,
        names: Vec<String>,
        work: impl Fn(Self, String) -> F,
    ) -> Vec<Result<T, ObjectError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ObjectError>> + Send + 'static,
    {
        let mut results = Vec::with_capacity(names.len());
        let mut working = JoinSet::new();
        for name in names {
            if working.len() >= AT_ONCE {
                results.extend(working.join_next().await.map(flat));
            }
            working.spawn(work(self.clone(), name));
        }
        while let Some(result) = working.join_next().await {
            results.push(flat(result));
        }
        results
    }
}

fn flat<T>(result: Result<Result<T, ObjectError>, JoinError>) -> Result<T, ObjectError> {
    result.unwrap_or_else(|error| Err(ObjectError::broken("", error)))
}
