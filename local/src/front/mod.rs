//! The part of API Gateway in a deployment: routes of the template, payload format 2.0, its limits
//! and its answers.

mod answer;
mod event;
mod log;
mod proxy;
mod routes;

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;

use crate::failure::{Explain as _, Failure};

pub(crate) use log::Log;
pub(crate) use proxy::serve;
pub(crate) use routes::Routes;

/// Takes the port before anything else is started, so that a port in use fails at once and not
/// after ten seconds.
///
/// # Errors
/// The port is in use or not allowed.
pub(crate) async fn bind(port: u16) -> Result<(TcpListener, SocketAddr), Failure> {
    let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
        Ok(listener) => listener,
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            return Err(Failure::new(format!(
                "Port {port} is in use by another program. Stop that program, or choose another port: `PORT={} make run`.",
                port.saturating_add(1)
            )));
        }
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(Failure::new(format!(
                "Port {port} may not be used by this user. Choose one above 1023: `PORT=8081 make run`."
            )));
        }
        Err(error) => return Err(error).or_explain(|| format!("listen on port {port}")),
    };
    let address = listener.local_addr().or_explain(|| format!("listen on port {port}"))?;
    Ok((listener, address))
}
