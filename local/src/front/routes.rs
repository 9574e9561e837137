//! Routes of an API, which lead requests to functions.

use std::collections::BTreeMap;

use matchit::Router;
use percent_encoding::percent_decode_str;

use crate::deploy::{Deployment, RouteEntry};
use crate::failure::{Explain as _, Failure};

/// Key of the route for requests that no other route matches.
const DEFAULT: &str = "$default";

/// Routing table of an API.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Routes with a path, by HTTP method.
    by_method: BTreeMap<String, Router<Route>>,
    default: Option<Route>,
}

#[derive(Debug)]
struct Route {
    /// Route key in the template, such as `POST /messages/produce`, `GET /docs/{file}` or
    /// `$default`.
    key: String,
    function: String,
}

/// Route that a request matched, with the path's parameters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Match<'a> {
    pub(crate) key: &'a str,
    pub(crate) function: &'a str,
    /// Decoded values of the path parameters.
    pub(crate) parameters: BTreeMap<String, String>,
}

impl Routes {
    /// Builds the routing table of an API.
    ///
    /// # Errors
    /// If a route has a form that the local stack does not support, such as the method `ANY`.
    pub(crate) fn of(deployment: &Deployment, entries: &[RouteEntry]) -> Result<Self, Failure> {
        let mut routes = Self::default();
        for entry in entries {
            routes.add(&entry.key, deployment.name(&entry.function)?)?;
        }
        Ok(routes)
    }

    fn add(&mut self, key: &str, function: &str) -> Result<(), Failure> {
        let route = Route { key: key.to_owned(), function: function.to_owned() };
        if key == DEFAULT {
            self.default = Some(route);
            return Ok(());
        }
        let (method, path) = key.split_once(' ').unwrap_or_default();
        if method == "ANY" || !path.starts_with('/') || path.contains('+') {
            return Err(Failure::new(format!(
                "template.yaml has the route `{key}`, which is neither a method with a path nor $default."
            )));
        }
        let routes = self.by_method.entry(method.to_owned()).or_default();
        routes.insert(path, route).or_explain(|| format!("tell the route `{key}` from the others"))
    }

    /// Finds the most specific route for a method and an undecoded path. `None` if no route
    /// matches: the gateway itself responds then.
    pub(crate) fn find(&self, method: &str, path: &str) -> Option<Match<'_>> {
        let found = self.by_method.get(method).and_then(|routes| routes.at(path).ok());
        let (route, parameters) = match &found {
            Some(found) => (found.value, found.params.iter().map(decoded).collect()),
            None => (self.default.as_ref()?, BTreeMap::new()),
        };
        Some(Match { key: &route.key, function: &route.function, parameters })
    }
}

fn decoded((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), percent_decode_str(value).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(keys: &[&str]) -> Routes {
        let mut routes = Routes::default();
        for key in keys {
            routes.add(key, "f").unwrap();
        }
        routes
    }

    #[test]
    fn the_most_specific_route_of_a_method_wins() {
        let routes = routes(&["$default", "GET /docs/{file}", "GET /docs/index", "GET /docs/{file}/raw"]);
        for (method, path, key) in [
            ("GET", "/docs/index", "GET /docs/index"),
            ("PUT", "/docs/index", "$default"),
            ("GET", "/docs/a", "GET /docs/{file}"),
            ("GET", "/docs/a/raw", "GET /docs/{file}/raw"),
            ("GET", "/docs/a/raw/", "$default"),
            ("GET", "/docs/", "$default"),
            ("GET", "*", "$default"),
        ] {
            assert_eq!(routes.find(method, path).unwrap().key, key, "{method} {path}");
        }
    }

    #[test]
    fn without_a_default_route_a_path_may_have_none() {
        let routes = routes(&["POST /messages/produce"]);
        for (method, path) in [("GET", "/messages/produce"), ("POST", "/messages"), ("POST", "/")] {
            assert_eq!(routes.find(method, path), None, "{method} {path}");
        }
        for unknown in ["ANY /a", "GET /{all+}", "GET"] {
            assert!(Routes::default().add(unknown, "f").is_err(), "{unknown}");
        }
    }

    #[test]
    fn variables_are_decoded() {
        let routes = routes(&["GET /a/{one}/{two}"]);
        let found = routes.find("GET", "/a/x%20+%26y%3D/c%2Fd").unwrap();
        let expected =
            [("one", "x +&y="), ("two", "c/d")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found.parameters, BTreeMap::from(expected));
    }
}
