//! Concurrent S3 requests for many objects.

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt as _};

/// Maximum number of concurrent S3 requests.
const AT_ONCE: usize = 16;

/// Runs S3 requests concurrently, and returns all results once all requests have ended.
pub(crate) async fn each<'a, T>(requests: impl Iterator<Item = BoxFuture<'a, T>>) -> Vec<T> {
    // Boxed, because the futures of the client are large, and nest deeply. The caller boxes them: a
    // future with the type of the iterator and that of its items would not pass for `Send`, since
    // the compiler forgets that the lifetimes in both are the same.
    stream::iter(requests).buffer_unordered(AT_ONCE).collect().await
}
