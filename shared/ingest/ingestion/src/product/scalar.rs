//! Reads members that have a column: texts, numbers (which may come as strings) and dates.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::date::{self, Day};
use super::error::{Fault, of_value};
use super::field::Field;
use super::members::Members;
use super::scan::Json;
use super::{Decimal, Price};

/// Value of a JSON member, by its JSON type. Numbers, booleans and nested values are kept as text.
pub(super) enum Scalar<'a> {
    Null,
    Number(&'a str),
    Text(Cow<'a, str>),
    Boolean(&'a str),
    Nested(&'a str),
}

impl<'a> Scalar<'a> {
    /// Determines the type of a member's value, and decodes a string.
    ///
    /// # Errors
    /// If a string cannot be stored; the error describes the fault.
    pub(super) fn of(json: Json<'a>) -> Result<Self, &'static str> {
        let json = match json {
            Json::Plain(text) => return Ok(Self::Text(Cow::Borrowed(text))),
            Json::Any(json) => json,
        };
        Ok(match json.as_bytes().first() {
            Some(b'"') => Self::Text(text(json)?),
            Some(b'{' | b'[') => Self::Nested(json),
            Some(b't' | b'f') => Self::Boolean(json),
            Some(b'n') | None => Self::Null,
            Some(_) => Self::Number(json),
        })
    }
}

/// Decodes a JSON string. Strings with NUL or half a surrogate pair are refused, because
/// PostgreSQL's texts cannot hold them.
fn text(json: &str) -> Result<Cow<'_, str>, &'static str> {
    if !json.contains('\\') {
        let inner = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        return Ok(Cow::Borrowed(inner.unwrap_or_default()));
    }
    let text: String = serde_json::from_str(json).map_err(|_| "it holds half a surrogate pair")?;
    if text.contains('\0') { Err("it holds a NUL character") } else { Ok(Cow::Owned(text)) }
}

impl<'a> Members<'a> {
    pub(super) fn scalar(&self, field: Field) -> Result<Scalar<'a>, Fault> {
        let Some(json) = self.get(field) else { return Ok(Scalar::Null) };
        Scalar::of(json).map_err(|detail| Fault::invalid(field.name(), detail))
    }

    /// Returns a member's text as it was sent; a number becomes its plain text form. `None` if the
    /// member is missing or null.
    pub(super) fn text(&self, field: Field) -> Result<Option<Cow<'a, str>>, Fault> {
        match self.scalar(field)? {
            Scalar::Null => Ok(None),
            Scalar::Text(text) => Ok(Some(text)),
            Scalar::Number(number) => decimal(field, number).map(|number| Some(number.to_string().into())),
            Scalar::Boolean(_) | Scalar::Nested(_) => Err(Fault::invalid(field.name(), "it must be a text")),
        }
    }

    /// Returns a member's number, which may be sent as a string; `None` if the member is missing,
    /// null or an empty string.
    pub(super) fn decimal(&self, field: Field) -> Result<Option<Decimal>, Fault> {
        match self.scalar(field)? {
            Scalar::Null => Ok(None),
            Scalar::Text(text) => match text.trim() {
                "" => Ok(None),
                text => decimal(field, text).map(Some),
            },
            Scalar::Number(number) => decimal(field, number).map(Some),
            Scalar::Boolean(_) | Scalar::Nested(_) => {
                Err(Fault::invalid(field.name(), "it must be a number"))
            }
        }
    }

    pub(super) fn price(&self, field: Field) -> Result<Option<Price>, Fault> {
        self.decimal(field)?
            .map(Price::try_from)
            .transpose()
            .map_err(|error| Fault::invalid(field.name(), error.to_string()))
    }

    pub(super) fn integer(&self, field: Field) -> Result<Option<i32>, Fault> {
        let Some(number) = self.decimal(field)? else { return Ok(None) };
        number
            .integer()
            .and_then(|number| i32::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| Fault::invalid(field.name(), "it must be an integer of 32 bits"))
    }

    pub(super) fn date(&self, field: Field, zone: &TimeZone, day: Day) -> Result<Option<Timestamp>, Fault> {
        match self.scalar(field)? {
            Scalar::Null => Ok(None),
            Scalar::Text(text) => match text.trim() {
                "" => Ok(None),
                text => date::parse(text, zone, day).map(Some).map_err(|error| {
                    let zone = zone.iana_name().unwrap_or("the deployment");
                    let detail = format!("{error}; a time without an offset is local time of {zone}");
                    Fault::invalid(field.name(), of_value(text, &detail))
                }),
            },
            Scalar::Number(_) | Scalar::Boolean(_) | Scalar::Nested(_) => {
                Err(Fault::invalid(field.name(), "it must be a date in a string"))
            }
        }
    }
}

fn decimal(field: Field, text: &str) -> Result<Decimal, Fault> {
    text.parse().map_err(|error: super::DecimalError| Fault::invalid(field.name(), error.to_string()))
}
