//! Free ports of 127.0.0.1 for programs that get a port number and listen on it only later.
//!
//! A port that the system chooses (by binding port 0) is unsuitable: before the program listens,
//! the system may use it again, as the local end of another connection. So these ports are chosen
//! below the range from which the system chooses.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// File in which Linux shows the range of ephemeral ports: the lowest and the highest one.
const EPHEMERAL: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Lowest port to choose. Well-known services listen on lower ports.
const LOWEST: u16 = 10_000;
/// Usual start of the ephemeral port range, assumed if the file of the range cannot be read.
const USUAL_END: u16 = 32_768;
const ATTEMPTS: usize = 1_000;

/// Returns `N` different ports of 127.0.0.1 on which nothing listens at the moment.
///
/// # Errors
/// If no such port was found.
pub fn free<const N: usize>() -> io::Result<[u16; N]> {
    let end = lowest_ephemeral().unwrap_or(USUAL_END);
    // All are held until the last is chosen, so that they differ.
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = hold(end)?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// Opens a listener on an ephemeral port of 127.0.0.1, and returns it with the port. Clients can
/// connect before the caller accepts, and get no data until then.
pub async fn listen() -> (tokio::net::TcpListener, u16) {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn hold(end: u16) -> io::Result<TcpListener> {
    if end <= LOWEST {
        // The system hands out nearly all ports, so there is no better place.
        return TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    }
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, fastrand::u16(LOWEST..end)));
    (1..ATTEMPTS).fold(bind(), |held, _| held.or_else(|_| bind()))
}

fn lowest_ephemeral() -> Option<u16> {
    std::fs::read_to_string(EPHEMERAL).ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn ports_differ_can_be_bound_and_are_not_the_systems_to_hand_out() {
        let ports: [u16; 16] = super::free().unwrap();
        let lowest = super::lowest_ephemeral().unwrap_or(super::USUAL_END);
        assert_eq!(BTreeSet::from(ports).len(), ports.len());
        for port in ports {
            assert!(port < lowest || lowest <= super::LOWEST, "{port}");
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
    }
}
