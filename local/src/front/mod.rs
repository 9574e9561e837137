//! The part of API Gateway in a deployment, as an HTTP API and as a REST API: routes of the
//! template, the events of each, its limits and its answers.

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

/// Kind of API that the template creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Http,
    Rest,
}

impl Kind {
    /// Returns the other kind.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Http => Self::Rest,
            Self::Rest => Self::Http,
        }
    }

    /// Path in front of the API's own. A REST API has its stage there.
    fn base_path(self) -> &'static str {
        match self {
            Self::Http => "",
            Self::Rest => "/live",
        }
    }
}

/// Port that is bound for an API.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) kind: Kind,
    listener: TcpListener,
    address: SocketAddr,
}

impl Door {
    /// Address of the API, to which paths are added.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}{}", self.address, self.kind.base_path())
    }
}

/// Binds the port before anything else is started, so that a port in use fails at once and not
/// after ten seconds.
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
