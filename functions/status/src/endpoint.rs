//! Routes that the function `status` serves.

use api::{Route, path_parameter};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Live,
    Ready,
    Status,
    Limits,
    Metrics,
    Request,
    Usage,
    Contract,
    Docs,
    DocsFile,
    Console,
    ConsoleFile,
}

impl Endpoint {
    pub const ALL: [Self; 12] = [
        Self::Live,
        Self::Ready,
        Self::Status,
        Self::Limits,
        Self::Metrics,
        Self::Request,
        Self::Usage,
        Self::Contract,
        Self::Docs,
        Self::DocsFile,
        Self::Console,
        Self::ConsoleFile,
    ];

    #[must_use]
    pub const fn route(self) -> Route {
        Route::get(match self {
            Self::Live => "/health/live",
            Self::Ready => "/health/ready",
            Self::Status => "/status",
            Self::Limits => "/limits",
            Self::Metrics => "/metrics",
            Self::Request => "/v1/requests/{operation}/{key}",
            Self::Usage => "/v1/usage",
            Self::Contract => "/openapi.json",
            Self::Docs => "/docs",
            Self::DocsFile => "/docs/{file}",
            Self::Console => "/console",
            Self::ConsoleFile => "/console/{file}",
        })
    }

    /// Finds the endpoint for a method and a path, and returns it with the path's last parameter
    /// (empty if the route has none). Returns `None` if the function has no such route.
    pub(crate) fn of<'a>(method: &str, path: &'a str) -> Option<(Self, &'a str)> {
        Self::ALL
            .into_iter()
            .filter(|endpoint| endpoint.route().method == method)
            .find_map(|endpoint| Some((endpoint, path_parameter(endpoint.route().path, path)?)))
    }
}
