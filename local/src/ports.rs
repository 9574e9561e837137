//! Ports of 127.0.0.1.

use std::net::{Ipv4Addr, TcpListener};

use crate::failure::{Explain as _, Failure};

/// `N` different ports that nothing listens on at the moment.
///
/// # Errors
/// The machine has none left.
pub(crate) fn free<const N: usize>() -> Result<[u16; N], Failure> {
    let explain = || "find free ports on 127.0.0.1".to_owned();
    // All are held until the last is chosen, so that they differ.
    let mut listeners = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_explain(explain)?;
        *port = listener.local_addr().or_explain(explain)?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
