//! Resolves the host names of a target to addresses, which IBM's client gets in their place. The
//! client would resolve the names itself, after they were checked, and might find other addresses.

use std::time::Duration;

use broker::{Deadline, MOST_CANDIDATES, Names, resolve};
use futures_util::future::join_all;
use libmqm_sys::MQ_CONN_NAME_LENGTH;
use mq::{Address, BrokerError, Endpoint};

/// Time limit for resolving the host names of a target.
const LOOK_UP: Duration = Duration::from_secs(2);

/// Resolves the endpoint's host names concurrently, and returns the addresses that the client may
/// use. The list begins with the first address of each host, then has the second ones and so on, so
/// that the client soon reaches a standby host. Unknown names are left out. The list ends before it
/// exceeds the 264 bytes of text that IBM's client takes. Empty if a channel table has the hosts.
///
/// # Errors
/// If all names are unknown, or a name resolves to refused addresses only.
pub(crate) async fn resolved(
    names: &impl Names,
    endpoint: &Endpoint,
    deadline: Deadline,
) -> Result<Vec<Address>, BrokerError> {
    let limit = deadline.min(LOOK_UP);
    let look_up = |address| limit.run(resolve(names, address, Some(&endpoint.special)));
    let answers = join_all(endpoint.addresses.iter().map(look_up)).await;
    let mut hosts = Vec::new();
    let mut failure = None;
    for (address, answer) in endpoint.addresses.iter().zip(answers) {
        match answer {
            Ok(Ok(found)) => hosts.push(found),
            Ok(Err(refused @ BrokerError::AddressRefused { .. })) => return Err(refused),
            Ok(Err(error)) => failure = Some(error),
            Err(_) => {
                let detail = format!("the host name `{}` was not resolved in time", address.host);
                failure = Some(BrokerError::unreachable(detail));
            }
        }
    }
    if let (true, Some(failure)) = (hosts.is_empty(), failure) {
        return Err(failure);
    }
    let round = |round: usize| hosts.iter().filter_map(move |found| found.get(round));
    let rounds = (0..MOST_CANDIDATES).flat_map(round);
    let mut addresses: Vec<Address> =
        rounds.map(|found| Address { host: found.ip().to_string(), port: found.port() }).collect();
    while Address::in_ibm_form(&addresses).len() > MQ_CONN_NAME_LENGTH {
        addresses.pop();
    }
    let dropped = hosts.len().saturating_sub(addresses.len());
    if dropped > 0 {
        tracing::warn!(
            event_type = "connection.hosts_dropped",
            dropped,
            queue_manager = endpoint.queue_manager,
            "the last {dropped} hosts are not tried: the text of the addresses is too long for IBM MQ's client"
        );
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::{IpAddr, SocketAddr};

    use tokio::sync::Barrier;

    use super::*;

    /// Test resolver that returns four addresses each for `one.example`, `two.example` and so on,
    /// and the loopback address for `here`.
    struct Known;

    impl Names for Known {
        async fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
            let ips: Vec<IpAddr> = match host.split_once(".example") {
                Some((name, _)) => {
                    let net = u8::try_from(name.len()).unwrap();
                    (1..=4).map(|host| IpAddr::from([203, 0, net, host])).collect()
                }
                None if host == "here" => vec![IpAddr::from([127, 0, 0, 1])],
                None => return Err(io::ErrorKind::NotFound.into()),
            };
            Ok(ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
        }
    }

    /// Test resolver that answers only once as many names are being resolved as the barrier waits
    /// for.
    struct Together(Barrier);

    impl Names for Together {
        async fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
            self.0.wait().await;
            Known.look_up(host, port).await
        }
    }

    fn endpoint(conn_name: &str) -> Endpoint {
        Endpoint {
            queue_manager: "QM1".to_owned(),
            channel: Some("C".to_owned()),
            addresses: conn_name.split(',').filter_map(|address| address.parse().ok()).collect(),
            ..Endpoint::default()
        }
    }

    async fn conn_name(endpoint: &Endpoint) -> Result<String, BrokerError> {
        let deadline = Deadline::after(Duration::from_secs(20));
        Ok(Address::in_ibm_form(&resolved(&Known, endpoint, deadline).await?))
    }

    #[tokio::test]
    async fn the_client_gets_the_addresses_that_were_checked_in_rounds_of_the_hosts() {
        let name = conn_name(&endpoint("bb.example(1414),unknown(1),a.example(1415)")).await.unwrap();
        let round = |host: u8| format!("203.0.2.{host}(1414),203.0.1.{host}(1415)");
        assert_eq!(name, (1..=4).map(round).collect::<Vec<_>>().join(","));
        assert_eq!(conn_name(&endpoint("")).await.unwrap(), "", "a table has its own names");
    }

    #[tokio::test]
    async fn all_names_are_asked_for_at_once() {
        let names = Together(Barrier::new(2));
        let endpoint = endpoint("a.example(1414),bb.example(1414)");
        let found = resolved(&names, &endpoint, Deadline::after(Duration::from_secs(20))).await.unwrap();
        assert_eq!(found.len(), 8);
    }

    #[tokio::test]
    async fn a_list_that_would_be_too_long_ends_before() {
        let hosts = |count: usize| {
            (1..=count).map(|length| format!("{}.example(65535)", "h".repeat(length))).collect::<Vec<_>>()
        };
        for (count, expected) in [(3, 12), (7, 15), (11, 15), (16, 15)] {
            let name = conn_name(&endpoint(&hosts(count).join(","))).await.unwrap();
            assert!(name.len() <= 264, "{name}");
            assert_eq!(name.split(',').count(), expected, "{count} hosts: {name}");
        }
    }

    #[tokio::test]
    async fn a_refused_address_ends_the_attempt_and_an_unknown_name_does_if_there_is_no_other() {
        let refused = conn_name(&endpoint("a.example(1414),here(1414)")).await.unwrap_err();
        assert!(matches!(refused, BrokerError::AddressRefused { .. }), "{refused:?}");
        let unknown = conn_name(&endpoint("unknown(1414)")).await.unwrap_err();
        assert!(matches!(unknown, BrokerError::Unreachable { .. }), "{unknown:?}");
        let mut listed = endpoint("here(1414)");
        listed.special = listed.addresses.clone().into();
        assert_eq!(conn_name(&listed).await.unwrap(), "127.0.0.1(1414)");
    }
}
