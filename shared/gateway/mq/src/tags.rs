//! Tags: short texts that a caller gives a request, to find it in the log and to find its messages.

use serde::{Deserialize, Deserializer};

use crate::bounded::{List, text};
use crate::headers::Headers;

text!(
    /// Tag that a caller gives a request: 1 to 64 bytes without commas, which separate tags in a
    /// header.
    Tag, 1..=64, is_of_a_tag, "must not contain commas or control characters"
);

fn is_of_a_tag(character: char) -> bool {
    !character.is_control() && character != ','
}

/// Tags of a request, at most [`Tags::MOST`]. If there are any, the gateway adds [`Tags::HEADERS`]
/// to the request's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(Vec<Tag>);

/// Facts about the request that [`Tags::mark`] writes into the headers of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagOrigin<'a> {
    /// Trace id of the request. Retries of the request keep the trace id of its first execution.
    pub trace_id: &'a str,
    /// Header `traceparent` of the request (W3C Trace Context); `None` if the trace id did not come
    /// from such a header.
    pub traceparent: Option<&'a str>,
    /// Id of the tenant that sent the request.
    pub tenant: &'a str,
    /// Target of the request, as responses and idempotency records show it.
    pub target: &'a str,
}

impl Tags {
    /// Maximum number of tags of a request.
    pub const MOST: usize = 10;
    /// Names of the headers that the gateway adds to the messages of a request with tags.
    pub const HEADERS: [&'static str; 4] = ["tags", "traceId", "tenant", "target"];
    /// Name of the header that carries the request's trace context. Messages get it whether or not
    /// the request has tags.
    pub const TRACEPARENT: &'static str = "traceparent";
    /// The empty list of tags.
    pub const NONE: Self = Self(Vec::new());
    /// Number of bytes that the caller's headers must leave free for the names and values of
    /// [`Self::HEADERS`].
    const ROOM: usize = 2_560;

    /// True if there are no tags.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the tags as one text, separated by commas, for the header `tags`.
    #[must_use]
    pub fn joined(&self) -> String {
        self.0.iter().map(Tag::as_str).collect::<Vec<_>>().join(",")
    }

    /// Checks that the caller's headers leave room for the headers that tags add, and use none of
    /// their names. `pointer` is the JSON Pointer to the caller's headers.
    ///
    /// # Errors
    /// Returns the JSON Pointer to the fault and its description, if a check fails.
    pub fn check(&self, headers: &Headers, pointer: &str) -> Result<(), (String, &'static str)> {
        if self.is_empty() {
            return Ok(());
        }
        if let Some(name) = Self::HEADERS.into_iter().find(|name| headers.contains(name)) {
            return Err((format!("{pointer}/{name}"), "is set by the gateway if the request has tags"));
        }
        if !headers.has_room(Self::HEADERS.len(), Self::ROOM) {
            return Err((pointer.to_owned(), "leave no room for the headers that tags add"));
        }
        Ok(())
    }

    /// Adds [`Self::HEADERS`] to the headers of a request's messages, if the request has tags. Also
    /// adds the request's trace context, unless the caller set that header or left no room for it.
    pub fn mark(&self, headers: &mut Headers, origin: TagOrigin<'_>) {
        let TagOrigin { trace_id, traceparent, tenant, target } = origin;
        if !self.is_empty() {
            let joined = self.joined();
            for (name, text) in Self::HEADERS.into_iter().zip([joined.as_str(), trace_id, tenant, target]) {
                headers.set(name, text);
            }
        }
        if let Some(context) = traceparent
            && !headers.contains(Self::TRACEPARENT)
            && headers.has_room(1, Self::TRACEPARENT.len() + context.len())
        {
            headers.set(Self::TRACEPARENT, context);
        }
    }
}

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        List::<Tag, 1, { Tags::MOST }>::deserialize(deserializer).map(|tags| Self(tags.into_vec()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tags(value: Value) -> Result<Tags, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    fn headers(value: Value) -> Headers {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn tags_are_few_and_short_and_can_be_joined() {
        assert_eq!(tags(json!(["nightly", "order 7"])).unwrap().joined(), "nightly,order 7");
        assert!(tags(json!(vec!["t".repeat(64); 10])).is_ok());
        for wrong in [
            json!([]),
            json!(vec!["t"; 11]),
            json!([""]),
            json!(["t".repeat(65)]),
            json!(["a,b"]),
            json!(["a\n"]),
        ] {
            assert!(tags(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn messages_of_a_request_with_tags_carry_where_they_come_from() {
        let origin = TagOrigin { trace_id: "trace", traceparent: None, tenant: "tenant", target: "QM1:Q" };
        let mut marked = headers(json!({"k": "v"}));
        tags(json!(["a", "b"])).unwrap().mark(&mut marked, origin);
        let all = json!({"k": "v", "tags": "a,b", "traceId": "trace", "tenant": "tenant", "target": "QM1:Q"});
        assert_eq!(marked, headers(all));
        let mut same = headers(json!({"k": "v"}));
        Tags::NONE.mark(&mut same, origin);
        assert_eq!(same, headers(json!({"k": "v"})));
    }

    #[test]
    fn messages_of_a_request_carry_its_trace_context_unless_they_have_their_own() {
        let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let origin =
            TagOrigin { trace_id: context, traceparent: Some(context), tenant: "tenant", target: "QM1:Q" };
        let marked = |given: Value| {
            let mut headers = headers(given);
            Tags::NONE.mark(&mut headers, origin);
            headers
        };
        assert_eq!(marked(json!({"k": "v"})), headers(json!({"k": "v", "traceparent": context})));
        assert_eq!(marked(json!({"traceparent": "mine"})), headers(json!({"traceparent": "mine"})));
        let full = json!({"k": "v".repeat(Headers::MAX_BYTES - 1)});
        assert_eq!(marked(full.clone()), headers(full));
    }

    #[test]
    fn headers_that_tags_set_are_refused_with_tags_only() {
        let given = headers(json!({"tenant": "mine"}));
        assert_eq!(Tags::NONE.check(&given, "/headers"), Ok(()));
        let some = tags(json!(["a"])).unwrap();
        assert_eq!(some.check(&given, "/headers").unwrap_err().0, "/headers/tenant");
        let full = headers(json!({"k": "v".repeat(Headers::MAX_BYTES - 1)}));
        assert_eq!(some.check(&full, "/headers").unwrap_err().0, "/headers");
        assert_eq!(some.check(&headers(json!({"k": "v"})), "/headers"), Ok(()));
    }

    #[test]
    fn the_longest_headers_that_tags_add_have_room() {
        let longest = tags(json!(vec!["t".repeat(64); 10])).unwrap();
        // A trace id has at most 128 bytes, a tenant 128 characters, and a target three names and
        // two separators.
        let (trace_id, tenant, target) = ("t".repeat(128), "\u{10348}".repeat(128), "t".repeat(3 * 255 + 2));
        let mut added = headers(json!({}));
        let origin = TagOrigin { trace_id: &trace_id, traceparent: None, tenant: &tenant, target: &target };
        longest.mark(&mut added, origin);
        assert!(added.bytes() <= Tags::ROOM, "{}", added.bytes());
    }
}
