//! Requests for many objects, several at once.

use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt as _};

/// Most requests at the same time.
const AT_ONCE: usize = 16;

/// Makes requests, and returns all results once all are there.
pub(crate) async fn each<'a, T>(
    requests: impl Iterator<Item = impl Future<Output = T> + Send + 'a>,
) -> Vec<T> {
    // Boxed: the futures of the client are large, and nest deeply.
    stream::iter(requests.map(FutureExt::boxed)).buffer_unordered(AT_ONCE).collect().await
}
