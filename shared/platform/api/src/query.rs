//! Parsing of a request's query string.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde_json::json;
use url::form_urlencoded;

use crate::nearest::nearest;
use crate::problem::{Problem, cut};
use crate::reason::Reason;

/// Query parameters of a request by name, each with its first value and its number of occurrences.
/// Parameters that the route does not accept have been refused before.
#[derive(Debug, Default)]
pub struct Query<'a>(BTreeMap<String, (Cow<'a, str>, usize)>);

impl<'a> Query<'a> {
    /// Parses the query of a route that accepts the parameters `known`.
    ///
    /// # Errors
    /// 400 for any other parameter, because a misspelt filter would otherwise return the whole
    /// list.
    pub fn parse(text: &'a str, known: &[&str]) -> Result<Self, Problem> {
        let mut values = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            if !known.contains(&name.as_ref()) {
                return Err(unknown(&name, known));
            }
            values.entry(name.into_owned()).and_modify(|(_, times)| *times += 1).or_insert((value, 1));
        }
        Ok(Self(values))
    }

    /// Returns the value of a parameter unchanged; `None` if the query does not have it.
    ///
    /// # Errors
    /// 400 if the query has the parameter more than once.
    pub fn value(&self, name: &str) -> Result<Option<&str>, Problem> {
        match self.0.get(name) {
            None => Ok(None),
            Some((value, 1)) => Ok(Some(value.as_ref())),
            Some(_) => Err(invalid_parameter(name, "is given more than once")),
        }
    }

    /// Returns the value of a parameter. An empty value counts as `None`, as `openapi.yaml` says.
    ///
    /// # Errors
    /// 400 if the query has the parameter more than once.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        Ok(self.value(name)?.filter(|value| !value.is_empty()))
    }

    /// Parses the parameter `limit`; `default` if the query does not have it.
    ///
    /// # Errors
    /// 400 if the parameter is given more than once, or if its value is not a number within
    /// `bounds`.
    pub fn limit(&self, default: u16, bounds: RangeInclusive<u16>) -> Result<u16, Problem> {
        let Some(text) = self.value("limit")? else { return Ok(default) };
        let number = if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None };
        number.filter(|number| bounds.contains(number)).ok_or_else(|| {
            let detail = format!("must be a number from {} to {}", bounds.start(), bounds.end());
            invalid_parameter("limit", detail)
        })
    }

    /// Parses the value of a parameter; `None` if the query does not have it.
    ///
    /// # Errors
    /// 400 if the parameter is given more than once, or if its value cannot be parsed (with the
    /// error text of the type).
    pub fn parsed<T: FromStr<Err: ToString>>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.value(name)?.map(|text| typed(name, text)).transpose()
    }

    /// Parses the value of a parameter. An empty value counts as `None`, as `openapi.yaml` says.
    ///
    /// # Errors
    /// 400 if the parameter is given more than once, or if its value cannot be parsed (with the
    /// error text of the type).
    pub fn parsed_or_empty<T: FromStr<Err: ToString>>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.text(name)?.map(|text| typed(name, text)).transpose()
    }
}

fn typed<T: FromStr<Err: ToString>>(name: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error: T::Err| invalid_parameter(name, error.to_string()))
}

fn unknown(name: &str, known: &[&str]) -> Problem {
    let detail = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("is not a parameter of this path; did you mean `{meant}`?"),
        None if known.is_empty() => "is not a parameter of this path, which takes none".to_owned(),
        None => format!("is not a parameter of this path, which takes `{}`", known.join("`, `")),
    };
    invalid_parameter(&cut(name, 100), detail)
}

/// Creates the problem for an unusable value in the path or the query.
pub fn invalid_parameter(parameter: &str, detail: impl AsRef<str>) -> Problem {
    Problem::new(Reason::InvalidParameter, format!("`{parameter}` {}", detail.as_ref()))
        .extension("parameter", json!(parameter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["limit", "cursor", "status", "load_type"];

    fn parse(text: &str) -> Query<'_> {
        Query::parse(text, &KNOWN).unwrap()
    }

    #[test]
    fn values_are_read_or_named() {
        let query = parse("limit=20&status=%46AILED&load_type=7&cursor=");
        assert_eq!(query.limit(50, 1..=200), Ok(20));
        assert_eq!(query.value("status"), Ok(Some("FAILED")));
        assert_eq!(query.parsed::<u8>("load_type"), Ok(Some(7)));
        assert_eq!((query.value("cursor"), query.text("cursor")), (Ok(Some("")), Ok(None)));
        assert_eq!(query.parsed_or_empty::<u8>("cursor"), Ok(None));
        assert_eq!(parse("").limit(50, 1..=200), Ok(50));
    }

    #[test]
    fn a_parameter_that_the_path_lacks_is_named_and_not_ignored() {
        for (text, parameter, detail) in [
            ("limt=1", "limt", "`limt` is not a parameter of this path; did you mean `limit`?"),
            ("Status=FAILED", "Status", "`Status` is not a parameter of this path; did you mean `status`?"),
            (
                "limit=1&page=2",
                "page",
                "`page` is not a parameter of this path, which takes `limit`, `cursor`, `status`, \
                 `load_type`",
            ),
        ] {
            let problem = Query::parse(text, &KNOWN).unwrap_err();
            assert_eq!(problem.reason, Reason::InvalidParameter);
            assert_eq!(
                (&problem.extensions["parameter"], problem.detail.as_str()),
                (&json!(parameter), detail)
            );
        }
        let problem = Query::parse("limit=1", &[]).unwrap_err();
        assert_eq!(problem.detail, "`limit` is not a parameter of this path, which takes none");
        assert!(Query::parse(&"x".repeat(5000), &KNOWN).unwrap_err().detail.len() < 250);
    }

    #[test]
    fn what_is_wrong_names_its_parameter() {
        for text in [
            "limit=",
            "limit=0",
            "limit=201",
            "limit=-1",
            "limit=+1",
            "limit=1e1",
            "limit=70000",
            "limit=1&limit=1",
        ] {
            let problem = parse(text).limit(50, 1..=200).unwrap_err();
            assert_eq!(
                (problem.reason, &problem.extensions["parameter"]),
                (Reason::InvalidParameter, &json!("limit"))
            );
            assert!(problem.detail.starts_with("`limit` "), "{text}");
        }
        for text in ["load_type=full", "load_type=", "load_type=1&load_type=1"] {
            assert!(parse(text).parsed::<u8>("load_type").is_err(), "{text}");
        }
    }
}
