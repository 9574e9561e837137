//! Public routes of the function `batches`.

use access::Scope;
use api::{Problem, Reason, Route, path_parameter};
use catalog::ERRORS_FILE;

/// Path of the route that lists batches; the paths of single batches begin with it.
pub(crate) const BATCHES: &str = "/v1/inovafarma/batches";

/// Public endpoints that the function `batches` serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    List,
    One,
    Errors,
    ErrorsFile,
    Replay,
}

impl Endpoint {
    pub const ALL: [Self; 5] = [Self::List, Self::One, Self::Errors, Self::ErrorsFile, Self::Replay];

    #[must_use]
    pub const fn route(self) -> Route {
        match self {
            Self::List => Route::get(BATCHES),
            Self::One => Route::get("/v1/inovafarma/batches/{batch_id}"),
            Self::Errors => Route::get("/v1/inovafarma/batches/{batch_id}/errors"),
            Self::ErrorsFile => Route::get(ERRORS_FILE),
            Self::Replay => Route::post("/v1/inovafarma/batches/{batch_id}/replay"),
        }
    }

    /// Names of the query parameters that the endpoint accepts.
    pub(crate) const fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::List => &["status", "load_type", "source_key", "limit", "cursor"],
            Self::Errors => &["limit", "cursor"],
            Self::One | Self::ErrorsFile | Self::Replay => &[],
        }
    }

    /// Returns the scope that an API key needs to call the endpoint.
    pub(crate) const fn scope(self) -> Scope {
        match self {
            Self::List | Self::One | Self::Errors | Self::ErrorsFile => Scope::ProductsRead,
            Self::Replay => Scope::ProductsWrite,
        }
    }
}

/// Endpoint that a request matched, and the batch id in its path as it was sent; empty for the
/// list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatchedRoute<'a> {
    pub(crate) endpoint: Endpoint,
    pub(crate) batch_id: &'a str,
}

/// Matches a request's method and path to an endpoint.
///
/// # Errors
/// If no endpoint has the path: 404. If the endpoint of the path has another method: 405.
pub(crate) fn matched<'a>(method: &str, path: &'a str) -> Result<MatchedRoute<'a>, Problem> {
    let matched = |endpoint: Endpoint| {
        path_parameter(endpoint.route().path, path).map(|batch_id| MatchedRoute { endpoint, batch_id })
    };
    let matched = Endpoint::ALL.into_iter().find_map(matched);
    let matched =
        matched.ok_or_else(|| Problem::new(Reason::RouteNotFound, "there is nothing at this path"))?;
    let allowed = matched.endpoint.route().method;
    if method != allowed {
        let detail = format!("this path takes {allowed} only");
        return Err(Problem::new(Reason::MethodNotAllowed, detail).header("allow", allowed));
    }
    Ok(matched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_what_they_name() {
        let of = |endpoint, batch_id| Ok(MatchedRoute { endpoint, batch_id });
        assert_eq!(matched("GET", BATCHES), of(Endpoint::List, ""));
        assert_eq!(matched("GET", "/v1/inovafarma/batches/1"), of(Endpoint::One, "1"));
        assert_eq!(matched("GET", "/v1/inovafarma/batches/1/errors"), of(Endpoint::Errors, "1"));
        assert_eq!(matched("GET", "/v1/inovafarma/batches/1/errors.ndjson"), of(Endpoint::ErrorsFile, "1"));
        assert_eq!(matched("POST", "/v1/inovafarma/batches/1/replay"), of(Endpoint::Replay, "1"));
        for path in
            ["/", "/v1/inovafarma/batches/", "/v1/inovafarma/batchesx", "/v1/inovafarma/batches//errors"]
        {
            assert_eq!(matched("GET", path).unwrap_err().reason, Reason::RouteNotFound, "{path}");
        }
        for path in ["/v1/inovafarma/batches/1/replay/2", "/v1/inovafarma/batches/1/errors/2"] {
            assert_eq!(matched("POST", path).unwrap_err().reason, Reason::RouteNotFound, "{path}");
        }
        for (method, path) in [("POST", BATCHES), ("GET", "/v1/inovafarma/batches/1/replay")] {
            assert_eq!(matched(method, path).unwrap_err().reason, Reason::MethodNotAllowed);
        }
    }
}
