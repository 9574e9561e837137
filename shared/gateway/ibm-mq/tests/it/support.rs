//! Support of the IBM MQ tests: a queue manager for each test, a client, and helpers that build
//! commands.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use broker::{Broker as _, ConnectionCap, ConnectionSettings, Deadline, UnitOfWork};
use ibm_mq::{IbmMq, Settings};
use jiff::Timestamp;
use mq::{
    Access, Ack, AckMode, Address, BrokerError, ConsumeCommand, Consumed, ContentSeed, Credentials, Endpoint,
    ExplicitMessage, Headers, MqProps, Outgoing, Payload, ProduceCommand, ProduceFailure, ProduceReport,
    ProduceSource, QueueName, Selector, Transaction,
};
use serde_json::Value;
use tempfile::TempDir;
use test_support::built::{self, MQ_LIBRARY};
use test_support::freeze::freeze;
use tokio::sync::watch;

/// Environment variable with the directory of the stand-in's sockets. If unset, each test makes a
/// temporary directory its working directory, and has the sockets there.
const DIRECTORY: &str = "MQM_STANDIN_DIR";

pub(crate) const MAX_BYTES: usize = 5_500_000;

/// Stand-in queue manager of one test, whose process is stopped when this is dropped.
pub(crate) struct QueueManager {
    daemon: test_support::queue_manager::QueueManager,
    pub(crate) port: u16,
    _files: TempDir,
}

impl Deref for QueueManager {
    type Target = test_support::queue_manager::QueueManager;

    fn deref(&self) -> &Self::Target {
        &self.daemon
    }
}

impl DerefMut for QueueManager {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.daemon
    }
}

pub(crate) fn deadline() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::try_from(name.to_owned()).unwrap()
}

impl QueueManager {
    /// Starts a stand-in queue manager with the configuration `local/mqm-standin/qm1.toml`. Its
    /// name and port derive from the id of the test's process.
    pub(crate) fn start() -> Self {
        Self::start_with(|text| text)
    }

    /// Starts a stand-in queue manager with the configuration that `change` makes of
    /// `local/mqm-standin/qm1.toml`.
    pub(crate) fn start_with(change: impl FnOnce(String) -> String) -> Self {
        let files = tempfile::tempdir().unwrap();
        let directory = match std::env::var_os(DIRECTORY) {
            Some(shared) => PathBuf::from(shared),
            None => {
                // Under nextest each test is a separate process.
                std::env::set_current_dir(files.path()).unwrap();
                files.path().to_owned()
            }
        };
        let port = u16::try_from(1_024 + std::process::id() % 60_000).unwrap();
        let name = format!("QT{port}");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../local/mqm-standin/qm1.toml");
        let text = change(std::fs::read_to_string(source).unwrap());
        let daemon = test_support::queue_manager::QueueManager::start(
            &directory,
            &name,
            &format!("127.0.0.1({port})"),
            &text,
        );
        Self { daemon, port, _files: files }
    }

    /// Removes the committed, unlocked messages from a queue over the stand-in's control socket,
    /// and returns their bodies.
    pub(crate) fn drain(&self, queue: &str) -> Vec<String> {
        let body = |message: &Value| hex::decode(message["body"].as_str().unwrap()).unwrap();
        self.take(queue).iter().map(|message| String::from_utf8(body(message)).unwrap()).collect()
    }

    pub(crate) fn access(&self) -> Access {
        let addresses = vec![Address { host: "127.0.0.1".to_owned(), port: self.port }];
        Access {
            endpoint: Endpoint {
                queue_manager: self.name.clone(),
                channel: Some("DEV.APP.SVRCONN".to_owned()),
                special: addresses.clone().into(),
                addresses,
                user: Some("app".to_owned()),
                ..Endpoint::default()
            },
            credentials: Some(Credentials { user: "app".to_owned(), password: "passw0rd".into() }),
            secret_version: "1".to_owned(),
            ..Access::default()
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(Settings::default(), 5)
    }

    pub(crate) fn client_with(&self, settings: Settings, cap: usize) -> Client {
        self.client_under(settings, ConnectionCap::new(cap))
    }

    pub(crate) fn client_under(&self, settings: Settings, cap: Arc<ConnectionCap>) -> Client {
        let settings = Settings { library: built::find(MQ_LIBRARY).unwrap(), ..settings };
        Client { broker: IbmMq::new(settings, Arc::clone(&cap)), access: self.access(), cap }
    }
}

/// Client under test: the IBM MQ broker implementation, the access to one queue manager, and the
/// cap on its connections.
pub(crate) struct Client {
    pub(crate) broker: IbmMq,
    pub(crate) access: Access,
    pub(crate) cap: Arc<ConnectionCap>,
}

impl Client {
    pub(crate) async fn put(
        &self,
        to: &str,
        command: &ProduceCommand,
        key: &str,
    ) -> Result<ProduceReport, ProduceFailure> {
        self.put_until(to, command, key, deadline()).await
    }

    pub(crate) async fn put_until(
        &self,
        to: &str,
        command: &ProduceCommand,
        key: &str,
        deadline: Deadline,
    ) -> Result<ProduceReport, ProduceFailure> {
        let outgoing = outgoing(command, key);
        let (confirmed, _) = watch::channel(0);
        self.broker.produce(&self.access, &queue(to), &outgoing, 0, &confirmed, deadline).await
    }

    /// Puts `count` messages on a queue, whose bodies are "0", "1" and so on.
    pub(crate) async fn fill(&self, to: &str, count: usize) {
        let bodies: Vec<_> = (0..count).map(|number| number.to_string()).collect();
        let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
        let report = self.put(to, &texts(&bodies), "fill").await.unwrap();
        assert_eq!(report.enqueued, u64::try_from(count).unwrap());
    }

    pub(crate) async fn fetch(
        &self,
        from: &str,
        command: &ConsumeCommand,
    ) -> Result<Box<dyn UnitOfWork>, BrokerError> {
        self.fetch_within(from, command, MAX_BYTES).await
    }

    pub(crate) async fn fetch_within(
        &self,
        from: &str,
        command: &ConsumeCommand,
        max_bytes: usize,
    ) -> Result<Box<dyn UnitOfWork>, BrokerError> {
        self.broker.fetch(&self.access, &queue(from), command, max_bytes, deadline()).await
    }

    /// Waits until the client has exactly this number of open connections. A connection's thread
    /// ends a moment after its last answer.
    pub(crate) async fn has_open(&self, connections: usize) {
        let until = deadline();
        while self.cap.open() != connections {
            assert!(!until.has_passed(), "{} connections are open", self.cap.open());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Gets up to `most` messages from a queue without waiting, and commits.
    pub(crate) async fn take(&self, from: &str, most: i64) -> Consumed {
        let unit = self.fetch(from, &consume(most, AckMode::Take(Ack::Commit))).await.unwrap();
        let consumed = unit.consumed().clone();
        unit.commit(deadline()).await.unwrap();
        consumed
    }
}

pub(crate) fn outgoing(command: &ProduceCommand, key: &str) -> Outgoing {
    Outgoing::new(command, ContentSeed::new("tenant", key, "fingerprint", Timestamp::UNIX_EPOCH))
}

/// Returns the command of a produce of `count` generated messages of 100 bytes.
pub(crate) fn generated(count: i64) -> ProduceCommand {
    let payload = Payload::Random { size: 100_i64.try_into().unwrap() };
    command(ProduceSource::Generated { count: count.try_into().unwrap(), payload })
}

pub(crate) fn texts(bodies: &[&str]) -> ProduceCommand {
    let messages = bodies.iter().map(|body| ExplicitMessage::of_text(body)).collect();
    command(ProduceSource::Explicit { messages })
}

fn command(source: ProduceSource) -> ProduceCommand {
    ProduceCommand {
        source,
        rate_limit_per_sec: None,
        transaction: Transaction::default(),
        props: MqProps::default(),
        headers: Headers::default(),
        warnings: Vec::new(),
    }
}

pub(crate) fn in_transactions_of(size: i64, command: ProduceCommand) -> ProduceCommand {
    let transaction = Transaction { enabled: true, tx_size: size.try_into().unwrap(), atomic: true };
    ProduceCommand { transaction, ..command }
}

pub(crate) fn consume(most: i64, mode: AckMode) -> ConsumeCommand {
    ConsumeCommand {
        max_messages: most.try_into().unwrap(),
        wait_seconds: 0_i64.try_into().unwrap(),
        mode,
        selector: Selector::default(),
        convert: false,
        backout: mq::BackoutRule::default(),
        warnings: Vec::new(),
    }
}

pub(crate) fn bodies(consumed: &Consumed) -> Vec<String> {
    consumed.messages.iter().map(|message| String::from_utf8_lossy(&message.body.0).into_owned()).collect()
}

pub(crate) fn code(error: &BrokerError) -> Option<i64> {
    error.reply().map(|reply| reply.code)
}

/// Guard of a queue manager whose process is stopped by a signal. Dropping the guard lets the
/// process continue.
pub(crate) struct Frozen(nix::unistd::Pid);

impl QueueManager {
    pub(crate) fn frozen(&self) -> Frozen {
        let id = self.id().unwrap();
        let pid = nix::unistd::Pid::from_raw(i32::try_from(id).unwrap());
        freeze(pid);
        Frozen(pid)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(self.0, nix::sys::signal::Signal::SIGCONT);
    }
}

/// Returns the client's default settings, with these connection settings.
pub(crate) fn limits(connections: ConnectionSettings) -> Settings {
    Settings { connections, ..Settings::default() }
}
