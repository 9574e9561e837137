//! Resolution of host names to IP addresses. A name is resolved once for each connection that is
//! opened, and the connection goes to the addresses that were checked. A second resolution could
//! return others.

use std::io;
use std::net::SocketAddr;

use mq::{Address, BrokerError, SpecialAddresses};

/// Maximum number of IP addresses that are tried for one host name.
pub const MOST_CANDIDATES: usize = 4;

/// Resolver of host names to IP addresses.
pub trait Names: Sync {
    /// Returns the IP addresses of a host, which may be a name or a literal address, each with the
    /// port `port`.
    fn look_up(&self, host: &str, port: u16) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;
}

/// Resolver of host names that uses the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    async fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }
}

/// Resolves a host to the IP addresses that a connection may use. `special` lists the target's
/// addresses that may be, or resolve to, a loopback, link-local, multicast or unspecified IP
/// address. `None` allows all, for programs whose own operator chooses the address.
///
/// # Errors
/// If the name is unknown, or resolves to refused addresses only.
pub async fn resolve(
    names: &impl Names,
    address: &Address,
    special: Option<&SpecialAddresses>,
) -> Result<Vec<SocketAddr>, BrokerError> {
    let Address { host, port } = address;
    let unresolvable = || BrokerError::unreachable(format!("the host name `{host}` cannot be resolved"));
    let found = names.look_up(host, *port).await.map_err(|error| unresolvable().caused_by(error))?;
    if found.is_empty() {
        return Err(unresolvable());
    }
    let is_admitted = |found: &SocketAddr| special.is_none_or(|special| special.admit(address, found.ip()));
    let admitted: Vec<_> = found.into_iter().filter(is_admitted).take(MOST_CANDIDATES).collect();
    if admitted.is_empty() {
        return Err(BrokerError::address_refused(format!(
            "`{host}` leads to a loopback, link-local, multicast or unspecified address, which neither a profile \
             nor an allowed inline target lists"
        )));
    }
    Ok(admitted)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Test resolver whose answers change: each lookup takes the next one.
    struct Answers(Mutex<Vec<Vec<&'static str>>>);

    impl Answers {
        fn of(answers: &[&[&'static str]]) -> Self {
            Self(Mutex::new(answers.iter().rev().map(|answer| answer.to_vec()).collect()))
        }

        fn left(&self) -> usize {
            self.0.lock().unwrap().len()
        }
    }

    impl Names for Answers {
        async fn look_up(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
            let answer = self.0.lock().unwrap().pop().ok_or(io::ErrorKind::NotFound)?;
            Ok(answer.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), port)).collect())
        }
    }

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    async fn resolved(
        names: &Answers,
        special: Option<&SpecialAddresses>,
    ) -> Result<Vec<String>, BrokerError> {
        let found = resolve(names, &address("broker.example:5672"), special).await?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    #[tokio::test]
    async fn a_name_that_answers_differently_the_second_time_is_asked_once() {
        let names = Answers::of(&[&["203.0.113.9"], &["127.0.0.1"]]);
        let none = SpecialAddresses::default();
        assert_eq!(resolved(&names, Some(&none)).await.unwrap(), ["203.0.113.9:5672"]);
        assert_eq!(names.left(), 1, "one connection is one question");
        let refused = resolved(&names, Some(&none)).await.unwrap_err();
        assert!(matches!(refused, BrokerError::AddressRefused { .. }), "{refused:?}");
        assert!(!refused.to_string().contains("127.0.0.1"), "the caller learns no address: {refused}");
    }

    #[tokio::test]
    async fn of_several_addresses_those_that_are_refused_are_left_out() {
        let answer = &["169.254.169.254", "10.0.0.1", "::1", "10.0.0.2"];
        let none = SpecialAddresses::default();
        let found = resolved(&Answers::of(&[answer]), Some(&none)).await.unwrap();
        assert_eq!(found, ["10.0.0.1:5672", "10.0.0.2:5672"]);
        let listed = SpecialAddresses::from(vec![address("broker.example:5672")]);
        let found = resolved(&Answers::of(&[answer]), Some(&listed)).await.unwrap();
        assert_eq!(found, ["10.0.0.1:5672", "[::1]:5672", "10.0.0.2:5672"]);
        assert_eq!(resolved(&Answers::of(&[answer]), None).await.unwrap().len(), 4);
    }

    #[tokio::test]
    async fn a_name_that_is_not_known_is_unreachable() {
        for names in [Answers::of(&[]), Answers::of(&[&[]])] {
            let error = resolved(&names, None).await.unwrap_err();
            assert!(matches!(error, BrokerError::Unreachable { .. }), "{error:?}");
            assert!(error.to_string().contains("broker.example"), "{error}");
        }
    }

    #[tokio::test]
    async fn every_spelling_of_a_special_address_leads_to_it() {
        let none = SpecialAddresses::default();
        for spelling in ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "017700000001", "localhost"] {
            let address = Address { host: spelling.to_owned(), port: 1 };
            let refused = resolve(&SystemNames, &address, Some(&none)).await.unwrap_err();
            assert!(matches!(refused, BrokerError::AddressRefused { .. }), "{spelling}: {refused:?}");
        }
    }
}
