//! Proxy between the client and the RabbitMQ of these tests, which breaks connections.

use std::ops::Deref;

use mq::Access;
use test_support::proxy;

use crate::support::{access_at, uri};

pub(crate) struct Proxy(proxy::Proxy);

impl Proxy {
    pub(crate) async fn start() -> Self {
        Self::after_resets(0).await
    }

    /// Starts a proxy that resets the first `resets` connections it accepts, and forwards the
    /// others.
    pub(crate) async fn after_resets(resets: usize) -> Self {
        let broker = uri().authority;
        Self(proxy::Proxy::after_resets(resets, (broker.host, broker.port)).await)
    }

    pub(crate) fn access(&self) -> Access {
        access_at(&[("127.0.0.1", self.port)])
    }
}

impl Deref for Proxy {
    type Target = proxy::Proxy;

    fn deref(&self) -> &proxy::Proxy {
        &self.0
    }
}
