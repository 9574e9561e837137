//! Which function takes a request.

use std::collections::BTreeMap;

use crate::deploy::Deployment;
use crate::failure::Failure;

/// The routes of the HTTP API, the most specific first.
#[derive(Debug)]
pub(crate) struct Routes(Vec<Route>);

#[derive(Debug)]
struct Route {
    /// Route key as the template has it: `POST /messages/produce`, `ANY /docs/{proxy+}`,
    /// `$default`.
    key: String,
    pattern: Pattern,
    function: String,
}

#[derive(Debug)]
enum Pattern {
    Path { method: Method, segments: Vec<Segment> },
    Default,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Method {
    One(String),
    Any,
}

/// Segment of a path; the kinds are in the order of their precedence.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Literal(String),
    Variable(String),
    Greedy(String),
}

/// A request's route.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Match<'a> {
    pub(crate) key: &'a str,
    pub(crate) function: &'a str,
    /// Decoded values of the path's variables.
    pub(crate) parameters: BTreeMap<String, String>,
}

impl Routes {
    /// # Errors
    /// A route of the template that API Gateway would not take either.
    pub(crate) fn of(deployment: &Deployment) -> Result<Self, Failure> {
        let routes =
            deployment.routes.iter().map(|entry| Route::parse(&entry.key, deployment.name(&entry.function)?));
        Ok(Self::sorted(routes.collect::<Result<_, _>>()?))
    }

    fn sorted(mut routes: Vec<Route>) -> Self {
        routes.sort_by(|a, b| a.pattern.precedence().cmp(&b.pattern.precedence()));
        Self(routes)
    }

    /// The most specific route for a method and a path as it was sent; none leaves it to the
    /// gateway's own 404.
    pub(crate) fn find(&self, method: &str, path: &str) -> Option<Match<'_>> {
        self.0.iter().find_map(|route| {
            let parameters = route.pattern.matches(method, path)?;
            Some(Match { key: &route.key, function: &route.function, parameters })
        })
    }
}

impl Route {
    fn parse(key: &str, function: &str) -> Result<Self, Failure> {
        let pattern = Pattern::parse(key).ok_or_else(|| {
            Failure::new(format!(
                "template.yaml has the route `{key}`, which is neither METHOD /path nor $default."
            ))
        })?;
        Ok(Self { key: key.to_owned(), pattern, function: function.to_owned() })
    }
}

impl Pattern {
    fn parse(key: &str) -> Option<Self> {
        if key == "$default" {
            return Some(Self::Default);
        }
        let (method, path) = key.split_once(' ')?;
        let method = if method == "ANY" { Method::Any } else { Method::One(method.to_owned()) };
        let segments = path.strip_prefix('/')?.split('/').map(Segment::parse).collect();
        Some(Self::Path { method, segments })
    }

    /// Literal segments before variables before greedy ones, one method before any, `$default`
    /// last.
    fn precedence(&self) -> (bool, Vec<u8>, Option<&Method>) {
        match self {
            Self::Default => (true, Vec::new(), None),
            Self::Path { method, segments } => {
                (false, segments.iter().map(Segment::precedence).collect(), Some(method))
            }
        }
    }

    fn matches(&self, method: &str, path: &str) -> Option<BTreeMap<String, String>> {
        let Self::Path { method: wanted, segments } = self else { return Some(BTreeMap::new()) };
        if matches!(wanted, Method::One(one) if one != method) {
            return None;
        }
        let mut parameters = BTreeMap::new();
        let mut rest = path.strip_prefix('/');
        for segment in segments {
            let (here, after) = match (segment, rest?) {
                (Segment::Greedy(_), all) => (all, None),
                (_, some) => match some.split_once('/') {
                    Some((here, after)) => (here, Some(after)),
                    None => (some, None),
                },
            };
            match segment {
                Segment::Literal(literal) if literal == here => {}
                Segment::Variable(name) | Segment::Greedy(name) if !here.is_empty() => {
                    parameters.insert(name.clone(), decode(here));
                }
                _ => return None,
            }
            rest = after;
        }
        rest.is_none().then_some(parameters)
    }
}

impl Segment {
    fn parse(text: &str) -> Self {
        match text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
            Some(name) => match name.strip_suffix('+') {
                Some(name) => Self::Greedy(name.to_owned()),
                None => Self::Variable(name.to_owned()),
            },
            None => Self::Literal(text.to_owned()),
        }
    }

    fn precedence(&self) -> u8 {
        match self {
            Self::Literal(_) => 0,
            Self::Variable(_) => 1,
            Self::Greedy(_) => 2,
        }
    }
}

/// Percent-decoded; what is no UTF-8 is replaced.
fn decode(text: &str) -> String {
    // The crate's query parser would take `+` for a blank, which it is not in a path.
    let query = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    url::form_urlencoded::parse(query.as_bytes())
        .next()
        .map(|(name, _)| name.into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(keys: &[&str]) -> Routes {
        Routes::sorted(keys.iter().map(|key| Route::parse(key, "f").unwrap()).collect())
    }

    fn key<'a>(routes: &'a Routes, method: &str, path: &str) -> Option<&'a str> {
        routes.find(method, path).map(|found| found.key)
    }

    #[test]
    fn the_most_specific_route_wins_in_whatever_order_they_are_written() {
        let routes = routes(&[
            "$default",
            "ANY /docs/{proxy+}",
            "GET /docs/{file}",
            "ANY /docs/index",
            "GET /docs/index",
            "GET /docs/{file}/raw",
        ]);
        assert_eq!(key(&routes, "GET", "/docs/index"), Some("GET /docs/index"));
        assert_eq!(key(&routes, "PUT", "/docs/index"), Some("ANY /docs/index"));
        assert_eq!(key(&routes, "GET", "/docs/a"), Some("GET /docs/{file}"));
        assert_eq!(key(&routes, "GET", "/docs/a/raw"), Some("GET /docs/{file}/raw"));
        assert_eq!(key(&routes, "GET", "/docs/a/b/c"), Some("ANY /docs/{proxy+}"));
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
        let routes = routes(&["GET /a/{one}/{rest+}"]);
        let found = routes.find("GET", "/a/x%20+%26y%3D/b/c%2Fd").unwrap();
        let expected =
            [("one", "x +&y="), ("rest", "b/c/d")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found.parameters, BTreeMap::from(expected));
    }
}
