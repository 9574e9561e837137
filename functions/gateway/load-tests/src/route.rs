//! Routes of the function `load-tests`.

use access::Scope;
use api::{Problem, Reason, Route, path_parameter};

/// Path of the list of load tests, at which a test is also started.
pub(crate) const TESTS: &str = "/tests";
/// Path of one load test.
const TEST: &str = "/tests/{test_id}";

/// Scopes that permit requests to this function; a caller needs one of them.
pub(crate) const SCOPES: &[Scope] = &[Scope::MqAdmin];

/// Public endpoints that the function `load-tests` serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Start,
    List,
    One,
    Stop,
    Delete,
}

impl Endpoint {
    pub const ALL: [Self; 5] = [Self::Start, Self::List, Self::One, Self::Stop, Self::Delete];

    #[must_use]
    pub const fn route(self) -> Route {
        match self {
            Self::Start => Route::post(TESTS),
            Self::List => Route::get(TESTS),
            Self::One => Route::get(TEST),
            Self::Stop => Route::post("/tests/{test_id}/stop"),
            Self::Delete => Route::delete(TEST),
        }
    }

    /// True if the request must have an idempotency key.
    pub(crate) const fn is_keyed(self) -> bool {
        matches!(self, Self::Start | Self::Stop)
    }

    /// Returns the names of the query parameters that the request takes.
    pub(crate) const fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::List => &["limit", "cursor"],
            Self::One => &["format", "baseline"],
            Self::Start | Self::Stop | Self::Delete => &[],
        }
    }
}

/// Endpoint for a request, and the test's id from the request's path. The id is unchecked, and
/// empty if the path has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    pub(crate) endpoint: Endpoint,
    pub(crate) test_id: &'a str,
}

/// Finds the endpoint for an HTTP method and a path.
///
/// # Errors
/// If no endpoint has the path: 404. If the endpoints of the path have other methods: 405.
pub(crate) fn asked<'a>(method: &str, path: &'a str) -> Result<Asked<'a>, Problem> {
    let mut allowed = Vec::new();
    for endpoint in Endpoint::ALL {
        let route = endpoint.route();
        let Some(test_id) = path_parameter(route.path, path) else { continue };
        if route.method == method {
            return Ok(Asked { endpoint, test_id });
        }
        allowed.push(route.method);
    }
    if allowed.is_empty() {
        return Err(Problem::new(Reason::RouteNotFound, "there is nothing at this path"));
    }
    let allowed = allowed.join(", ");
    let detail = format!("this path takes {allowed} only");
    Err(Problem::new(Reason::MethodNotAllowed, detail).header("allow", allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a1fd8c-697b-7c4e-8d21-3f5a6b7c8d9e";

    #[test]
    fn a_method_and_a_path_lead_to_what_they_name() {
        let one = format!("/tests/{ID}");
        let stop = format!("/tests/{ID}/stop");
        for (method, path, endpoint, test_id) in [
            ("POST", TESTS, Endpoint::Start, ""),
            ("GET", TESTS, Endpoint::List, ""),
            ("GET", one.as_str(), Endpoint::One, ID),
            ("DELETE", one.as_str(), Endpoint::Delete, ID),
            ("POST", stop.as_str(), Endpoint::Stop, ID),
        ] {
            assert_eq!(asked(method, path), Ok(Asked { endpoint, test_id }));
        }
        for path in ["/", "/tests/", "/testsx", "/tests//stop", "/tests/1/stop/2", "/tests/1/report"] {
            assert_eq!(asked("GET", path).unwrap_err().reason, Reason::RouteNotFound, "{path}");
        }
    }

    #[test]
    fn another_method_is_told_which_ones_the_path_takes() {
        for (method, path, allowed) in [
            ("DELETE", "/tests", "POST, GET"),
            ("POST", "/tests/1", "GET, DELETE"),
            ("GET", "/tests/1/stop", "POST"),
        ] {
            let problem = asked(method, path).unwrap_err();
            assert_eq!(problem.reason, Reason::MethodNotAllowed, "{path}");
            assert_eq!(problem.headers, [("allow", allowed.to_owned())], "{path}");
        }
    }
}
