//! Addresses in the place of the names of a target's hosts. IBM's client would resolve the names
//! itself, after they were checked, and might find others.

use std::time::Duration;

use broker::{MOST_CANDIDATES, Names, resolve};
use clock::Deadline;
use libmqm_sys::MQ_CONN_NAME_LENGTH;
use mq::{Address, BrokerError, Endpoint};

/// Time limit for resolving one name.
const LOOK_UP: Duration = Duration::from_secs(2);

/// Resolves the names of the endpoint's hosts, in their order, and checks the addresses. A name
/// that is not known is left out, unless none is known. The list is empty if a channel table has
/// the names.
///
/// # Errors
/// If no name is known, or one leads to nothing but addresses that are refused.
pub(crate) async fn resolved(
    names: &impl Names,
    endpoint: &Endpoint,
    deadline: Deadline,
) -> Result<Vec<Address>, BrokerError> {
    let mut hosts = Vec::new();
    let mut failure = None;
    for address in &endpoint.addresses {
        let look_up = resolve(names, address, Some(&endpoint.special));
        match deadline.min(LOOK_UP).run(look_up).await {
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
    let at_most = |count: usize| -> Vec<Address> {
        let few = hosts.iter().flat_map(|found| found.iter().take(count));
        few.map(|found| Address { host: found.ip().to_string(), port: found.port() }).collect()
    };
    let fits = |addresses: &Vec<Address>| Address::in_ibm_form(addresses).len() <= MQ_CONN_NAME_LENGTH;
    let mut addresses = (1..=MOST_CANDIDATES).rev().map(at_most).find(fits).unwrap_or_else(|| at_most(1));
    while !fits(&addresses) {
        addresses.pop();
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::{IpAddr, SocketAddr};

    use mq::{BrokerKind, SpecialAddresses, Tls};

    use super::*;

    /// Knows `one.example`, `two.example` and so on, which have four addresses each, and `here`.
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

    fn endpoint(conn_name: &str) -> Endpoint {
        Endpoint {
            broker: BrokerKind::IbmMq,
            queue_manager: "QM1".to_owned(),
            channel: Some("C".to_owned()),
            addresses: conn_name.split(',').filter_map(|address| address.parse().ok()).collect(),
            ccdt_url: None,
            tls: Tls::Off,
            user: None,
            password_ref: None,
            special: SpecialAddresses::default(),
        }
    }

    async fn conn_name(endpoint: &Endpoint) -> Result<String, BrokerError> {
        let deadline = Deadline::after(Duration::from_secs(20));
        Ok(Address::in_ibm_form(&resolved(&Known, endpoint, deadline).await?))
    }

    #[tokio::test]
    async fn the_client_gets_the_addresses_that_were_checked_in_the_order_of_the_hosts() {
        let name = conn_name(&endpoint("bb.example(1414),unknown(1),a.example(1415)")).await.unwrap();
        let of = |net: u8, port: u16| (1..=4).map(move |host| format!("203.0.{net}.{host}({port})"));
        assert_eq!(name, of(2, 1414).chain(of(1, 1415)).collect::<Vec<_>>().join(","));
        assert_eq!(conn_name(&endpoint("")).await.unwrap(), "", "a table has its own names");
    }

    #[tokio::test]
    async fn a_list_that_would_be_too_long_has_fewer_addresses_of_each_host() {
        let hosts = |count: usize| {
            (1..=count).map(|length| format!("{}.example(65535)", "h".repeat(length))).collect::<Vec<_>>()
        };
        for (count, expected) in [(3, 12), (7, 14), (11, 11), (16, 15)] {
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
