//! Stand-in for API Gateway, as an HTTP API and as a REST API: the routes of the template, and the
//! events, limits and responses of each kind of API.

mod answer;
mod event;
mod log;
mod proxy;
mod rest;
mod routes;

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;

use crate::failure::{Explain as _, Failure};

pub(crate) use log::Log;
pub(crate) use proxy::Front;

/// Kind of API Gateway's API: HTTP API or REST API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Http,
    Rest,
}

impl Kind {
    /// Returns the other kind of API.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Http => Self::Rest,
            Self::Rest => Self::Http,
        }
    }

    /// Returns the path in front of all routes. For a REST API it is the stage's.
    fn base_path(self) -> &'static str {
        match self {
            Self::Http => "",
            Self::Rest => "/live",
        }
    }
}

/// Bound port on which an API is to be served.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) kind: Kind,
    listener: TcpListener,
    address: SocketAddr,
}

impl Door {
    /// Returns the URL of the API, to which the paths of routes are added.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}{}", self.address, self.kind.base_path())
    }
}

/// Binds the port of an API. The port is bound before the components start, so that a port in use
/// is reported at once.
///
/// # Errors
/// If the port is in use or not allowed.
pub(crate) async fn bind(port: u16, kind: Kind) -> Result<Door, Failure> {
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
    Ok(Door { kind, listener, address })
}
