//! The routes that this function serves.

use api::Route;

use crate::contract;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Live,
    Ready,
    Status,
    Contract,
    Docs,
    DocsFile,
}

impl Endpoint {
    pub const ALL: [Self; 6] =
        [Self::Live, Self::Ready, Self::Status, Self::Contract, Self::Docs, Self::DocsFile];

    pub const fn route(self) -> Route {
        Route::get(match self {
            Self::Live => "/health/live",
            Self::Ready => "/health/ready",
            Self::Status => "/status",
            Self::Contract => "/openapi.json",
            Self::Docs => "/docs",
            Self::DocsFile => "/docs/{file}",
        })
    }

    pub(crate) fn of(method: &str, path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|endpoint| {
            let route = endpoint.route();
            route.method == method && contract::matches(route.path, path)
        })
    }
}
