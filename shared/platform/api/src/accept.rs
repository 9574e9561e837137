//! Choice between JSON and another format of a response, by the header `Accept`.

use http::HeaderMap;
use http::header::ACCEPT;

/// Returns whether the client prefers a media type to JSON, by the weights in `Accept` (RFC 9110,
/// 12.5.1). The media type must be named; ranges such as `*/*` count for JSON only. At equal
/// weights the client wants JSON, because generated clients list all media types of a response, but
/// parse only JSON.
#[must_use]
pub fn prefers(headers: &HeaderMap, media_type: &str) -> bool {
    let (mut other, mut json, mut application, mut any) = (None, None, None, None);
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for range in values.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let accepted = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse);
        let weight = weight.unwrap_or(0.0);
        for (name, found) in [
            (media_type, &mut other),
            ("application/json", &mut json),
            ("application/*", &mut application),
            ("*/*", &mut any),
        ] {
            if accepted.eq_ignore_ascii_case(name) {
                *found = Some(weight);
            }
        }
    }
    let json: f32 = json.or(application).or(any).unwrap_or(0.0);
    other.is_some_and(|other| other > json)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn another_format_is_for_those_who_prefer_it_to_json() {
        for (accept, expected) in [
            ("application/x-ndjson", true),
            ("Application/X-NDJSON; q=0.5", true),
            ("application/x-ndjson, application/json;q=0.9", true),
            ("application/x-ndjson, */*;q=0.1", true),
            ("application/x-ndjson, application/json;q=0.5, */*", true),
            ("application/json, application/x-ndjson, application/problem+json", false),
            ("application/json, application/x-ndjson;q=0.9", false),
            ("application/x-ndjson;q=0.1, */*", false),
            ("application/x-ndjson;q=0.5, application/*;q=0.5", false),
            ("application/x-ndjson;q=0", false),
            ("application/x-ndjson;q=much", false),
            ("*/*", false),
            ("application/*", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(prefers(&headers, "application/x-ndjson"), expected, "{accept}");
        }
        assert!(!prefers(&HeaderMap::new(), "text/csv"));
    }
}
