//! What the log says, and what it must never say.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use mq::{Broker as _, Credentials, Transaction};
use secrecy::SecretString;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::proxy::Proxy;
use crate::support::{Bench, access_at, explicit, outgoing, rabbit, soon};

/// Keeps every field of every event of the crate under test.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<String>>);

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("rabbitmq")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Line(&mut self.0.lock().unwrap()));
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        writeln!(self.0, "{}={value}", field.name()).unwrap();
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        writeln!(self.0, "{}={value:?}", field.name()).unwrap();
    }
}

#[tokio::test]
async fn connections_are_logged_without_secrets_or_bodies() {
    let recorder = Recorder::default();
    let _guard = tracing::subscriber::set_default(recorder.clone());
    let (bench, proxy, rabbit) = (Bench::new("log").await, Proxy::start().await, rabbit());

    let message = outgoing(explicit(&["a-body-of-a-customer"]));
    rabbit.produce(&proxy.access(), &bench.queue, &message, 0, Transaction::default(), soon()).await.unwrap();
    proxy.cut().await;
    rabbit.depth(&proxy.access(), &bench.queue, soon()).await.unwrap();
    assert!(rabbit.test(&proxy.access(), None, soon()).await.ok);
    let _ = rabbit.depth(&access_at(&[("127.0.0.1", 1)]), &bench.queue, soon()).await;
    let mut wrong = proxy.access();
    wrong.credentials =
        Some(Credentials { user: "someone".to_owned(), password: SecretString::from("not-the-password") });
    wrong.secret_version = "2".to_owned();
    let error = rabbit.depth(&wrong, &bench.queue, soon()).await.unwrap_err();

    let log = recorder.0.lock().unwrap().clone();
    for event in ["connection.established", "connection.failed", "connection.lost", "connection.disconnected"]
    {
        assert!(log.contains(&format!("event_type={event}")), "{event} in\n{log}");
    }
    assert!(log.contains("user=someone") && log.contains("host=127.0.0.1"));
    for text in [&log, &format!("{error:?}"), &format!("{wrong:?}"), &format!("{rabbit:?}")] {
        assert!(!text.contains("not-the-password") && !text.contains("a-body-of-a-customer"), "{text}");
    }
    bench.clean().await;
}
