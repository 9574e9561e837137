//! The functions that take requests.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use crate::deploy::{Deployment, RouteEntry};
use crate::failure::Failure;

/// The routes of an API, the most specific first.
#[derive(Debug)]
pub(crate) struct Routes(Vec<Route>);

#[derive(Debug)]
struct Route {
    /// Route key as the template writes it: `POST /messages/produce`, `GET /docs/{file}`,
    /// `$default`.
    key: String,
    function: String,
}

/// Route that a request matched, with the path's parameters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Match<'a> {
    pub(crate) key: &'a str,
    pub(crate) function: &'a str,
    /// Decoded values of the path's variables.
    pub(crate) parameters: BTreeMap<String, String>,
}

impl Routes {
    /// Builds the table of an API's routes.
    ///
    /// # Errors
    /// If the local stack does not know the route, because the template has none of its kind.
    pub(crate) fn of(deployment: &Deployment, entries: &[RouteEntry]) -> Result<Self, Failure> {
        let routes = entries.iter().map(|entry| {
            let (method, path) = entry.key.split_once(' ').unwrap_or_default();
            let is_known = method != "ANY" && path.starts_with('/') && !path.contains('+');
            if !is_known && entry.key != DEFAULT {
                return Err(Failure::new(format!(
                    "template.yaml has the route `{}`, which is neither a method with a path nor $default.",
                    entry.key
                )));
            }
            let function = deployment.name(&entry.function)?.to_owned();
            Ok(Route { key: entry.key.clone(), function })
        });
        Ok(Self::sorted(routes.collect::<Result<_, _>>()?))
    }

    fn sorted(mut routes: Vec<Route>) -> Self {
        routes.sort_by_cached_key(Route::precedence);
        Self(routes)
    }

    /// The most specific route for a method and a path as it was sent; none leaves it to the
    /// gateway's own answer.
    pub(crate) fn find(&self, method: &str, path: &str) -> Option<Match<'_>> {
        self.0.iter().find_map(|route| {
            let parameters = route.matches(method, path)?;
            Some(Match { key: &route.key, function: &route.function, parameters })
        })
    }
}

const DEFAULT: &str = "$default";

/// The name of the variable that a segment of a path is.
fn variable(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

impl Route {
    /// Literal segments before variables, `$default` last.
    fn precedence(&self) -> (bool, Vec<bool>) {
        (self.key == DEFAULT, self.key.split('/').map(|segment| variable(segment).is_some()).collect())
    }

    fn matches(&self, method: &str, path: &str) -> Option<BTreeMap<String, String>> {
        let mut parameters = BTreeMap::new();
        if self.key == DEFAULT {
            return Some(parameters);
        }
        let (wanted, pattern) = self.key.split_once(' ')?;
        let (pattern, path): (Vec<_>, Vec<_>) = (pattern.split('/').collect(), path.split('/').collect());
        if wanted != method || pattern.len() != path.len() {
            return None;
        }
        for (segment, here) in pattern.into_iter().zip(path) {
            match variable(segment) {
                Some(name) if !here.is_empty() => {
                    let value = percent_decode_str(here).decode_utf8_lossy().into_owned();
                    parameters.insert(name.to_owned(), value);
                }
                None if segment == here => {}
                _ => return None,
            }
        }
        Some(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(keys: &[&str]) -> Routes {
        let route = |key: &&str| Route { key: (*key).to_owned(), function: "f".to_owned() };
        Routes::sorted(keys.iter().map(route).collect())
    }

    fn key<'a>(routes: &'a Routes, method: &str, path: &str) -> Option<&'a str> {
        routes.find(method, path).map(|found| found.key)
    }

    #[test]
    fn the_most_specific_route_wins_in_whatever_order_they_are_written() {
        let routes = routes(&["$default", "GET /docs/{file}", "GET /docs/index", "GET /docs/{file}/raw"]);
        assert_eq!(key(&routes, "GET", "/docs/index"), Some("GET /docs/index"));
        assert_eq!(key(&routes, "PUT", "/docs/index"), Some("$default"));
        assert_eq!(key(&routes, "GET", "/docs/a"), Some("GET /docs/{file}"));
        assert_eq!(key(&routes, "GET", "/docs/a/raw"), Some("GET /docs/{file}/raw"));
        assert_eq!(key(&routes, "GET", "/docs"), Some("$default"));
        assert_eq!(key(&routes, "GET", "/"), Some("$default"));
    }

    #[test]
    fn other_methods_and_longer_or_shorter_paths_do_not_match() {
        let routes = routes(&["POST /messages/produce", "GET /batches/{id}"]);
        assert_eq!(key(&routes, "POST", "/messages/produce"), Some("POST /messages/produce"));
        for (method, path) in [
            ("GET", "/messages/produce"),
            ("HEAD", "/batches/1"),
            ("OPTIONS", "/messages/produce"),
            ("POST", "/messages/produce/"),
            ("POST", "/messages"),
            ("GET", "/batches/"),
            ("GET", "/batches/1/2"),
            ("GET", "*"),
        ] {
            assert_eq!(key(&routes, method, path), None, "{method} {path}");
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
