//! Routes: a method and a path.

use std::fmt;

/// Route of a function: method and path. API Gateway checks both, and the function checks them
/// again, because it can be invoked directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// HTTP method in upper case.
    pub method: &'static str,
    /// Path as in `openapi.yaml`, with `{name}` for a segment that varies.
    pub path: &'static str,
}

impl Route {
    /// Creates the route of `POST` and a path.
    #[must_use]
    pub const fn post(path: &'static str) -> Self {
        Self { method: "POST", path }
    }

    /// Creates the route of `GET` and a path.
    #[must_use]
    pub const fn get(path: &'static str) -> Self {
        Self { method: "GET", path }
    }

    /// Creates the route of `DELETE` and a path.
    #[must_use]
    pub const fn delete(path: &'static str) -> Self {
        Self { method: "DELETE", path }
    }
}

impl fmt::Display for Route {
    /// Writes the route as the log field `operation` has it, such as `POST /messages/produce`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// Returns the segment of `path` at the template's last `{name}`. It is empty if the template has
/// none, and `None` if the path does not match the template. A `{name}` matches no empty segment.
///
/// Templates have at most two names, and a function has about a dozen routes, so a router such as
/// `matchit`, which can fail when it is built, would need more code than this.
#[must_use]
pub fn path_parameter<'a>(template: &str, path: &'a str) -> Option<&'a str> {
    let mut segments = path.split('/');
    let mut parameter = "";
    for expected in template.split('/') {
        let segment = segments.next()?;
        if expected.starts_with('{') && !segment.is_empty() {
            parameter = segment;
        } else if expected != segment {
            return None;
        }
    }
    segments.next().is_none().then_some(parameter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_takes_exactly_one_segment() {
        assert_eq!(path_parameter("/docs/{file}", "/docs/index.css"), Some("index.css"));
        assert_eq!(path_parameter("/b/{id}/errors", "/b/7/errors"), Some("7"));
        assert_eq!(path_parameter("/docs", "/docs"), Some(""));
        assert_eq!(path_parameter("/r/{operation}/{key}", "/r/move/7"), Some("7"));
        assert_eq!(path_parameter("/r/{operation}/{key}", "/r//7"), None);
        for other in ["/docs", "/docs/", "/docs/a/b", "/docs/index.css/", "/Docs/index.css", "docs/index.css"]
        {
            assert_eq!(path_parameter("/docs/{file}", other), None, "{other}");
        }
        for other in ["/docs/", "/docsx", "", "/"] {
            assert_eq!(path_parameter("/docs", other), None, "{other}");
        }
    }
}
