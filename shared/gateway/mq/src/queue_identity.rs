//! Identity of the queue or exchange behind a target, so that a retry recognizes whether it would
//! put its messages on the same queue.

use sha2::{Digest as _, Sha256};

use crate::names::QueueName;
use crate::target::Target;

impl Target {
    /// Returns the identity of the queue or exchange on which the target's messages lie, as 64
    /// hexadecimal characters. It is a digest of the broker's product, virtual host or queue
    /// manager, queue (or exchange and routing key), set of addresses (or URL of the channel
    /// table), and `cluster`, the name that the connected broker gives its cluster; `None` if the
    /// broker reports none. So all nodes of a cluster have the same identity, and separate brokers
    /// in one address list have different ones.
    ///
    /// Two targets with the same identity may differ in user, secrets and TLS.
    pub fn queue_identity(&self, cluster: Option<&str>) -> String {
        let endpoint = &self.endpoint;
        let mut addresses: Vec<_> = endpoint.addresses.iter().map(ToString::to_string).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let fields = [
            Some(endpoint.broker.as_str()),
            Some(endpoint.queue_manager.as_str()),
            self.queue.as_ref().map(QueueName::as_str),
            endpoint.ccdt_url.as_deref(),
            cluster,
        ];
        // A queue's identity has no fields for an exchange, as earlier versions noted it.
        let exchange = self
            .exchange
            .iter()
            .flat_map(|exchange| [Some(exchange.name.as_str()), Some(exchange.routing_key.as_str())]);
        let addresses = addresses.iter().map(|address| Some(address.as_str()));
        let mut digest = Sha256::new();
        for field in fields.into_iter().chain(addresses).chain(exchange) {
            // An absent field differs from an empty one, and no field runs into the next.
            digest.update([u8::from(field.is_some())]);
            let field = field.unwrap_or_default();
            digest.update(field.len().to_be_bytes());
            digest.update(field);
        }
        hex::encode(digest.finalize())
    }
}
