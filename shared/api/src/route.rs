//! A method and a path.

/// What a function serves. API Gateway routes by the template; a function checks again, because it
/// can be invoked directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
}

impl Route {
    pub const fn post(path: &'static str) -> Self {
        Self { method: "POST", path }
    }

    pub const fn get(path: &'static str) -> Self {
        Self { method: "GET", path }
    }
}
