//! An administrator closes the connections.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Mutex;

use crate::broker::Broker;
use crate::support::access;
use crate::victims::Victims;

pub(crate) async fn by_the_server(broker: Arc<Mutex<Broker>>) {
    let victims =
        Victims::prepare("connection closed by the server", access(), rabbitmq::Settings::default()).await;
    let broker = broker.lock().await;
    let blow = async {
        broker.ctl(&["close_all_connections", "closed for a test"]).await;
        Instant::now()
    };
    victims.suffer(3_000, blow).await.settle().await;
}
