//! Requests for many objects, several at once.

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt as _};

/// Most requests at the same time.
const AT_ONCE: usize = 16;

/// Makes requests, and returns all results once all are there.
///
/// They are boxed: the futures of the client are large, and nest deeply. And a future that had both
/// the iterator's type and its items' would not pass for `Send`, because the compiler forgets that
/// the lifetimes in both are the same.
pub(crate) async fn each<'a, T>(requests: impl Iterator<Item = BoxFuture<'a, T>>) -> Vec<T> {
    stream::iter(requests).buffer_unordered(AT_ONCE).collect().await
}
