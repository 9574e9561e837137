//! Tests of publishing to an exchange: messages reach the queues that are bound to it, or are
//! reported as unroutable.

use broker::Broker as _;
use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions};
use lapin::types::FieldTable;
use mq::{
    BrokerError, Exchange, ExplicitMessage, Outgoing, OwnProps, ProduceFailure, ProduceReport, ProduceSource,
    RoutingKey,
};

use crate::support::{Bench, access, command, outgoing, rabbit, random, seed, soon, unwatched};

fn key(text: &str) -> RoutingKey {
    RoutingKey::try_from(text.to_owned()).unwrap()
}

/// Declares a topic exchange, and binds the queue of `bench` to it by the pattern `binding`.
/// Returns the exchange as a produce names it, with `routing_key`.
async fn exchange(bench: &Bench, binding: &str, routing_key: &str) -> Exchange {
    let name = format!("{}.exchange", bench.queue.as_str());
    let declare = ExchangeDeclareOptions { auto_delete: true, ..Default::default() };
    let channel = &bench.channel;
    let arguments = FieldTable::default;
    channel.exchange_declare(name.as_str().into(), ExchangeKind::Topic, declare, arguments()).await.unwrap();
    let bind = QueueBindOptions::default();
    channel
        .queue_bind(bench.queue.as_str().into(), name.as_str().into(), binding.into(), bind, arguments())
        .await
        .unwrap();
    Exchange { name: name.try_into().unwrap(), routing_key: key(routing_key) }
}

async fn publish(
    exchange: &Exchange,
    outgoing: &Outgoing,
    from: u64,
) -> Result<ProduceReport, ProduceFailure> {
    let (rabbit, access) = (rabbit(), access());
    let connected = rabbit.connect_to_publish(&access, exchange, outgoing, soon()).await.unwrap();
    connected.put(from, &unwatched(), soon()).await
}

fn with_keys(keys: &[Option<&str>]) -> Outgoing {
    let message = |own: &Option<&str>| {
        let own = OwnProps { routing_key: own.map(key), ..OwnProps::default() };
        ExplicitMessage { own: own.boxed(), ..ExplicitMessage::of_text("x") }
    };
    outgoing(ProduceSource::Explicit { messages: keys.iter().map(message).collect() })
}

#[tokio::test]
async fn each_message_has_its_routing_key() {
    let bench = Bench::new("routed").await;
    let exchange = exchange(&bench, "orders.#", "orders.{{seq}}.{{random(4)}}").await;
    let generated = Outgoing::new(&command(random(3, 10)), seed());
    assert_eq!(publish(&exchange, &generated, 0).await.unwrap().enqueued, 3);
    let mut keys = Vec::new();
    while let Some(got) = bench.get().await {
        assert_eq!(got.exchange.as_str(), exchange.name.as_str());
        keys.push(got.routing_key.to_string());
    }
    assert_eq!(keys.len(), 3);
    for (index, key) in keys.iter().enumerate() {
        assert!(key.starts_with(&format!("orders.{index}.")) && key.len() == 13, "{key}");
    }
    // A message that is published again has the same key.
    assert_eq!(publish(&exchange, &generated, 2).await.unwrap().enqueued, 1);
    assert_eq!(bench.get().await.unwrap().routing_key.as_str(), keys[2]);

    let own = with_keys(&[Some("orders.own"), None]);
    assert_eq!(publish(&exchange, &own, 0).await.unwrap().enqueued, 2);
    assert_eq!(bench.get().await.unwrap().routing_key.as_str(), "orders.own");
    assert!(bench.get().await.unwrap().routing_key.as_str().starts_with("orders.1."));
    bench.clean().await;
}

#[tokio::test]
async fn a_message_that_no_queue_gets_ends_the_produce_and_loses_none_before_it() {
    let bench = Bench::new("unroutable").await;
    let exchange = exchange(&bench, "orders.*", "orders.all").await;
    let failure = publish(&exchange, &with_keys(&[None, None, Some("nowhere"), None]), 0).await.unwrap_err();
    assert!(
        matches!(&failure.error, BrokerError::Unroutable { exchange: named, .. } if *named == exchange.name),
        "{failure:?}"
    );
    assert_eq!(failure.committed, 2);
    assert!(failure.in_doubt.len() <= 1, "the one behind it: {failure:?}");
    let first = publish(&exchange, &with_keys(&[Some("nowhere"), None]), 0).await.unwrap_err();
    assert!(matches!(first.error, BrokerError::Unroutable { .. }), "{first:?}");
    assert_eq!((first.committed, first.in_doubt.len()), (0, 0));
    bench.clean().await;
}

#[tokio::test]
async fn an_exchange_that_does_not_exist_gets_nothing() {
    let bench = Bench::new("no-exchange").await;
    let exchange = exchange(&bench, "#", "").await;
    let name = exchange.name.as_str().into();
    bench.channel.exchange_delete(name, ExchangeDeleteOptions::default()).await.unwrap();
    let failure = publish(&exchange, &with_keys(&[None, None]), 0).await.unwrap_err();
    assert!(matches!(failure.error, BrokerError::ExchangeNotFound { .. }), "{failure:?}");
    assert_eq!((failure.committed, failure.in_doubt.len()), (0, 0));
    bench.clean().await;
}
