//! From an address to an open AMQP connection, step by step, each under a deadline and timed.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_rs::Runtime;
use broker::Deadline;
use lapin::{AsyncTcpStream, ConnectionProperties};
use mq::{Address, BrokerError};
use tokio::net::TcpStream;

use crate::config::{ConnectionConfig, TlsConfig};
use crate::connection::{Connection, Pulse};
use crate::errors::{During, Failure};
use crate::events::Peer;
use crate::frame_filter::Noticed;
use crate::server::Server;
use crate::tls;
use crate::transport::{Hangup, Kit, Socket, Transport, prepare};

/// How many of the addresses that a host name resolves to are tried.
const MOST_CANDIDATES: usize = 4;

/// How many TCP connections one use of a broker may try to open, over all addresses, host names and
/// attempts.
pub(crate) const MOST_DIALS: usize = 32;

/// The TCP connections that may still be tried.
#[derive(Debug)]
pub(crate) struct Dials(usize);

impl Dials {
    pub(crate) fn new() -> Self {
        Self(MOST_DIALS)
    }

    pub(crate) fn are_spent(&self) -> bool {
        self.0 == 0
    }

    fn spend(&mut self) -> bool {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or_default();
        left.is_some()
    }
}

/// A step on the way to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Resolve,
    Connect,
    Tls,
    Authenticate,
    OpenQueue,
}

impl Step {
    pub(crate) const ALL: [Self; 5] =
        [Self::Resolve, Self::Connect, Self::Tls, Self::Authenticate, Self::OpenQueue];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Authenticate => "authenticate",
            Self::OpenQueue => "openQueue",
        }
    }
}

/// What can be done when a connection was not made. Nothing was sent by then, so trying again is
/// safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Another address may answer, and this one may after a while.
    TryAgain,
    /// Another address may fare better; this one says the same when it is asked again.
    AnotherAddress,
    /// The broker refused what will be asked of it again, at every address.
    Nothing,
}

/// A step that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct StepError {
    pub(crate) step: Step,
    pub(crate) error: BrokerError,
    /// Whether the time was over, whatever the step made of it.
    pub(crate) timed_out: bool,
}

impl StepError {
    pub(crate) fn remedy(&self) -> Remedy {
        match (self.error.is_transient(), self.step) {
            // A certificate stays as it is, and a port without TLS.
            (_, Step::Tls) => Remedy::AnotherAddress,
            (true, _) => Remedy::TryAgain,
            (false, _) => Remedy::Nothing,
        }
    }
}

/// The steps that were done, with their durations.
#[derive(Debug, Default)]
pub(crate) struct StepLog(pub(crate) Vec<(Step, Duration)>);

impl StepLog {
    async fn run<T>(
        &mut self,
        step: Step,
        deadline: Deadline,
        address: &Address,
        future: impl Future<Output = Result<T, BrokerError>>,
    ) -> Result<T, StepError> {
        let started = Instant::now();
        let result = deadline.run(future).await.unwrap_or_else(|_| {
            Err(BrokerError::timeout(format!("{address} did not answer in time ({})", step.name())))
        });
        self.0.push((step, started.elapsed()));
        result.map_err(|error| StepError { step, error, timed_out: deadline.has_passed() })
    }
}

/// Opens a connection to `address`.
pub(crate) async fn open(
    config: &ConnectionConfig,
    address: &Address,
    deadline: Deadline,
    log: &mut StepLog,
    dials: &mut Dials,
) -> Result<Connection, StepError> {
    let candidates = log.run(Step::Resolve, deadline, address, resolve(address)).await?;
    let dialled = dial(address, &candidates, deadline, dials);
    let (mut socket, hangup) = log.run(Step::Connect, deadline, address, dialled).await?;
    if let Some(tls) = config.tls() {
        socket = log.run(Step::Tls, deadline, address, secure(socket, address, tls)).await?;
    }
    let peer = Peer::new(config, address);
    let noticed = Arc::new(Noticed::of(peer.clone()));
    let pulse = Arc::new(Pulse::new());
    let broken_by = Arc::new(OnceLock::new());
    let transport = Transport::new(socket, Arc::clone(&noticed), Arc::clone(&pulse), Arc::clone(&broken_by));
    let login = log_in(config, address, transport);
    let mut amqp = log.run(Step::Authenticate, deadline, address, login).await;
    if let (Some(_), Err(StepError { error, .. })) = (config.tls(), &mut amqp) {
        suspect_the_certificate(error, broken_by.get());
    }
    let amqp = amqp?;
    let server = noticed.greeting().map(Server::from_greeting).unwrap_or_default();
    Ok(Connection::new(amqp, hangup, (config, peer), server, (pulse, noticed)))
}

/// Under TLS 1.3 the broker judges the client's certificate after the handshake, and then breaks
/// the connection. What it says of that is not always read before the connection is gone.
fn suspect_the_certificate(error: &mut BrokerError, broken_by: Option<&Arc<io::Error>>) {
    let BrokerError::Unreachable { detail, .. } = error else { return };
    match broken_by.filter(|why| matches!(tls::error(why), Some(rustls::Error::AlertReceived(_)))) {
        Some(why) => {
            let detail = "RabbitMQ refused the client certificate, or that there is none";
            *error = BrokerError::authentication_failed(detail).caused_by(Arc::clone(why));
        }
        None => detail.push_str("; under TLS, RabbitMQ may want another client certificate"),
    }
}

async fn resolve(address: &Address) -> Result<Vec<SocketAddr>, BrokerError> {
    let unresolvable =
        || BrokerError::unreachable(format!("the host name {} cannot be resolved", address.host));
    let found: Vec<_> = tokio::net::lookup_host((address.host.as_str(), address.port))
        .await
        .map_err(|error| unresolvable().caused_by(error))?
        .take(MOST_CANDIDATES)
        .collect();
    if found.is_empty() {
        return Err(unresolvable());
    }
    Ok(found)
}

/// Connects to the first of `candidates` that answers, each within its share of the time.
async fn dial(
    address: &Address,
    candidates: &[SocketAddr],
    deadline: Deadline,
    dials: &mut Dials,
) -> Result<(Socket, Hangup), BrokerError> {
    let unreachable = |error: io::Error| {
        let what = match error.kind() {
            io::ErrorKind::ConnectionRefused => "refuses connections",
            _ => "cannot be reached",
        };
        BrokerError::unreachable(format!("{address} {what}")).caused_by(error)
    };
    let mut failure = BrokerError::unreachable(format!("{address} cannot be reached"));
    for (candidate, left) in candidates.iter().zip((1..=candidates.len()).rev()) {
        if !dials.spend() {
            break;
        }
        let share = deadline.remaining() / u32::try_from(left).unwrap_or(u32::MAX);
        match deadline.min(share).run(TcpStream::connect(candidate)).await {
            Ok(Ok(stream)) => return prepare(stream).map_err(unreachable),
            Ok(Err(error)) => failure = unreachable(error),
            Err(_) => failure = BrokerError::unreachable(format!("{address} did not answer in time")),
        }
    }
    Err(failure)
}

async fn secure(socket: Socket, address: &Address, tls: &TlsConfig) -> Result<Socket, BrokerError> {
    let connector = tls::connector(tls)?;
    socket.into_rustls(&connector, &address.host).await.map_err(|error| {
        let refused = tls::error(&error);
        if refused.is_some_and(tls::is_plain) {
            return BrokerError::rejected(format!(
                "what listens at {address} does not speak TLS: name the port for TLS (5671, unless it was \
                 given another), or leave ssl.enabled away"
            ))
            .caused_by(error);
        }
        let why = refused.and_then(tls::why).map_or_else(String::new, |why| format!(", {why}"));
        BrokerError::unreachable(format!("no TLS connection to {address}{why}")).caused_by(error)
    })
}

async fn log_in(
    config: &ConnectionConfig,
    address: &Address,
    transport: Transport,
) -> Result<lapin::Connection, BrokerError> {
    let transport = Mutex::new(Some(transport));
    let options = ConnectionProperties::default().with_connection_name("IntegraHub mq-access".into());
    let connect = async move |_, _| {
        let transport = transport.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The library asks a second time only where the first stream broke.
        transport
            .map(AsyncTcpStream::Plain)
            .ok_or_else(|| lapin::Error::from(io::Error::from(io::ErrorKind::ConnectionAborted)))
    };
    lapin::Connection::connector(config.uri(address), Runtime::new(Kit::current()), connect, options)
        .await
        .map_err(|error| Failure::from(error).into_error(During::LogIn { vhost: config.vhost() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_with_many_addresses_is_dialled_within_the_bound() {
        let address = Address { host: "broker.example".to_owned(), port: 5672 };
        // Nobody listens on port 1.
        let candidates = vec![SocketAddr::from(([127, 0, 0, 1], 1)); 100];
        let mut dials = Dials::new();
        let deadline = Deadline::after(Duration::from_secs(20));
        assert!(dial(&address, &candidates, deadline, &mut dials).await.is_err());
        assert!(dials.are_spent());
        let mut dials = Dials::new();
        assert!(dial(&address, &candidates[..MOST_CANDIDATES], deadline, &mut dials).await.is_err());
        assert_eq!(dials.0, MOST_DIALS - MOST_CANDIDATES);
    }
}
