//! The routes that this function serves.

use access::Scope;
use api::{Problem, Reason, Route};

/// Where batches are.
pub(crate) const BATCHES: &str = "/v1/inovafarma/batches";

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    List,
    One,
    Errors,
    Replay,
}

impl Endpoint {
    pub const ALL: [Self; 4] = [Self::List, Self::One, Self::Errors, Self::Replay];

    pub const fn route(self) -> Route {
        match self {
            Self::List => Route::get(BATCHES),
            Self::One => Route::get("/v1/inovafarma/batches/{batch_id}"),
            Self::Errors => Route::get("/v1/inovafarma/batches/{batch_id}/errors"),
            Self::Replay => Route::post("/v1/inovafarma/batches/{batch_id}/replay"),
        }
    }
}

/// What a request asks for; batch ids as they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked<'a> {
    List,
    One(&'a str),
    Errors(&'a str),
    Replay(&'a str),
}

impl Asked<'_> {
    pub(crate) const fn endpoint(self) -> Endpoint {
        match self {
            Self::List => Endpoint::List,
            Self::One(_) => Endpoint::One,
            Self::Errors(_) => Endpoint::Errors,
            Self::Replay(_) => Endpoint::Replay,
        }
    }

    /// What an API key needs for it.
    pub(crate) const fn scope(self) -> Scope {
        match self {
            Self::List | Self::One(_) | Self::Errors(_) => Scope::ProductsRead,
            Self::Replay(_) => Scope::ProductsWrite,
        }
    }
}

/// # Errors
/// 404 and 405.
pub(crate) fn asked<'a>(method: &str, path: &'a str) -> Result<Asked<'a>, Problem> {
    let not_found = || Problem::new(Reason::RouteNotFound, "there is nothing at this path");
    let rest = path.strip_prefix(BATCHES).ok_or_else(not_found)?;
    let mut segments = rest.split('/');
    let asked = match (segments.next(), segments.next(), segments.next(), segments.next()) {
        (Some(""), None, None, None) => Asked::List,
        (Some(""), Some(batch_id), None, None) if !batch_id.is_empty() => Asked::One(batch_id),
        (Some(""), Some(batch_id), Some("errors"), None) if !batch_id.is_empty() => Asked::Errors(batch_id),
        (Some(""), Some(batch_id), Some("replay"), None) if !batch_id.is_empty() => Asked::Replay(batch_id),
        _ => return Err(not_found()),
    };
    let allowed = asked.endpoint().route().method;
    if method != allowed {
        let detail = format!("this path takes {allowed} only");
        return Err(Problem::new(Reason::MethodNotAllowed, detail).header("allow", allowed));
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_what_they_name() {
        assert_eq!(asked("GET", BATCHES), Ok(Asked::List));
        assert_eq!(asked("GET", "/v1/inovafarma/batches/1"), Ok(Asked::One("1")));
        assert_eq!(asked("GET", "/v1/inovafarma/batches/1/errors"), Ok(Asked::Errors("1")));
        assert_eq!(asked("POST", "/v1/inovafarma/batches/1/replay"), Ok(Asked::Replay("1")));
        for path in
            ["/", "/v1/inovafarma/batches/", "/v1/inovafarma/batchesx", "/v1/inovafarma/batches//errors"]
        {
            assert_eq!(asked("GET", path).unwrap_err().reason, Reason::RouteNotFound, "{path}");
        }
        for path in ["/v1/inovafarma/batches/1/replay/2", "/v1/inovafarma/batches/1/errors/2"] {
            assert_eq!(asked("POST", path).unwrap_err().reason, Reason::RouteNotFound, "{path}");
        }
        for (method, path) in [("POST", BATCHES), ("GET", "/v1/inovafarma/batches/1/replay")] {
            assert_eq!(asked(method, path).unwrap_err().reason, Reason::MethodNotAllowed);
        }
    }
}
