//! The routes that this function serves.

use api::{Problem, Reason, Route};

const BATCHES: &str = "/v1/inovafarma/batches";

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    List,
    One,
    Errors,
}

impl Endpoint {
    pub const ALL: [Self; 3] = [Self::List, Self::One, Self::Errors];

    pub const fn route(self) -> Route {
        Route::get(match self {
            Self::List => BATCHES,
            Self::One => "/v1/inovafarma/batches/{batch_id}",
            Self::Errors => "/v1/inovafarma/batches/{batch_id}/errors",
        })
    }
}

/// What a request asks for; batch ids as they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked<'a> {
    List,
    One(&'a str),
    Errors(&'a str),
}

impl Asked<'_> {
    pub(crate) const fn endpoint(self) -> Endpoint {
        match self {
            Self::List => Endpoint::List,
            Self::One(_) => Endpoint::One,
            Self::Errors(_) => Endpoint::Errors,
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
        _ => return Err(not_found()),
    };
    if method != "GET" {
        let detail = "this path takes GET only";
        return Err(Problem::new(Reason::MethodNotAllowed, detail).header("allow", "GET"));
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
        for path in
            ["/", "/v1/inovafarma/batches/", "/v1/inovafarma/batchesx", "/v1/inovafarma/batches//errors"]
        {
            assert_eq!(asked("GET", path).unwrap_err().reason, Reason::RouteNotFound, "{path}");
        }
        for path in ["/v1/inovafarma/batches/1/replay", "/v1/inovafarma/batches/1/errors/2"] {
            assert_eq!(asked("POST", path).unwrap_err().reason, Reason::RouteNotFound, "{path}");
        }
        assert_eq!(asked("POST", BATCHES).unwrap_err().reason, Reason::MethodNotAllowed);
    }
}
