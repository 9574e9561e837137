//! Opens an AMQP connection to one address, step by step. Each step has a deadline and is timed.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use broker::{Deadline, Step, StepLog, SystemNames};
use lapin::{AsyncTcpStream, ConnectionProperties};
use mq::{Address, BrokerError};
use tokio::net::TcpStream;

use crate::config::{ConnectionConfig, TlsConfig};
use crate::connection::Connection;
use crate::errors::{During, Failure};
use crate::frame_filter::Noticed;
use crate::tls;
use crate::transport::{Socket, SocketShutdown, Transport, prepare, runtime};

/// Maximum number of TCP connections that one acquisition of a connection may try, over all
/// addresses, resolved IP addresses and attempts.
pub(crate) const MOST_DIALS: usize = 32;

/// Number of TCP connections that one acquisition of a connection may still try.
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

/// Action after a failed attempt to connect. No message was sent by then, so retrying is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Try again at any address, since the address that failed may answer later.
    TryAgain,
    /// Try only other addresses, since the address that failed would fail in the same way again.
    AnotherAddress,
    /// Stop, since the error would be the same at every address.
    Nothing,
}

/// Failure of one step of connecting (resolving the name, TCP, TLS or the login), or of a
/// connection test.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct StepError {
    pub(crate) step: Step,
    pub(crate) error: BrokerError,
    /// True if the deadline had passed when the step ended, even if the step reported another
    /// error.
    pub(crate) timed_out: bool,
}

impl StepError {
    pub(crate) fn remedy(&self) -> Remedy {
        match (self.error.is_transient(), self.step) {
            // A retry changes neither the certificate nor a port without TLS.
            (_, Step::Tls) => Remedy::AnotherAddress,
            (true, _) => Remedy::TryAgain,
            (false, _) => Remedy::Nothing,
        }
    }
}

/// Runs `future`, which is one step of connecting, until `deadline`, and returns its result. Adds
/// the step with its duration to the log.
async fn timed<T>(
    log: &mut StepLog,
    step: Step,
    deadline: Deadline,
    address: &Address,
    future: impl Future<Output = Result<T, BrokerError>>,
) -> Result<T, StepError> {
    let started = Instant::now();
    let result = deadline.run(future).await.unwrap_or_else(|_| {
        Err(BrokerError::timeout(format!("{address} did not answer in time ({})", step.name())))
    });
    log.0.push((step, started.elapsed()));
    result.map_err(|error| StepError { step, error, timed_out: deadline.has_passed() })
}

/// Opens a connection to `address`: resolves its name, then connects by TCP and TLS, and logs in.
pub(crate) async fn open(
    config: &ConnectionConfig,
    address: &Address,
    deadline: Deadline,
    log: &mut StepLog,
    dials: &mut Dials,
) -> Result<Connection, StepError> {
    let resolved = broker::resolve(&SystemNames, address, config.special.as_ref());
    let candidates = timed(log, Step::Resolve, deadline, address, resolved).await?;
    let dialled = dial(address, &candidates, deadline, dials);
    let (mut socket, hangup) = timed(log, Step::Connect, deadline, address, dialled).await?;
    if let Some(tls) = &config.tls {
        socket = timed(log, Step::Tls, deadline, address, secure(socket, address, tls)).await?;
    }
    let peer = config.peer(address);
    let noticed = Arc::new(Noticed::of(peer.clone()));
    let transport = Transport::new(socket, Arc::clone(&noticed));
    let login = log_in(config, address, transport);
    let mut amqp = timed(log, Step::Authenticate, deadline, address, login).await;
    if let (Some(_), Err(StepError { error, .. })) = (&config.tls, &mut amqp) {
        suspect_the_certificate(error, noticed.broken_by.get());
    }
    Ok(Connection::new(amqp?, hangup, (config, peer), noticed))
}

/// Adds to a [`BrokerError::Unreachable`] error under TLS that the client certificate may be the
/// cause. `broken_by` is the error that ended reading from the socket. If it shows a TLS alert of
/// the broker, `error` becomes an authentication failure. Under TLS 1.3 the broker checks the
/// certificate only after the handshake and then closes the connection, so its alert is not always
/// received.
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

/// Opens a TCP connection to the first of `candidates` that answers. Each candidate gets an equal
/// share of the time left.
async fn dial(
    address: &Address,
    candidates: &[SocketAddr],
    deadline: Deadline,
    dials: &mut Dials,
) -> Result<(Socket, SocketShutdown), BrokerError> {
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
        // The library calls this a second time only if the first stream broke.
        transport
            .map(AsyncTcpStream::Plain)
            .ok_or_else(|| lapin::Error::from(io::Error::from(io::ErrorKind::ConnectionAborted)))
    };
    lapin::Connection::connector(config.uri(address), runtime(), connect, options)
        .await
        .map_err(|error| Failure::from(error).into_error(During::LogIn { vhost: config.vhost() }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use broker::MOST_CANDIDATES;

    use super::*;

    #[tokio::test]
    async fn a_name_with_many_addresses_is_dialled_within_the_bound() {
        let address = Address { host: "broker.example".to_owned(), port: 5672 };
        // Nothing listens on port 1.
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
