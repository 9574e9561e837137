//! Documentation page for reading and trying the contract: Swagger UI, served from this function's
//! binary. The page loads nothing from other hosts.

use std::borrow::Cow;
use std::sync::Arc;

use api::Reply;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Response};
use lambda_http::Body;
use utoipa_swagger_ui::Config;

const PAGE: &str = include_str!("../assets/docs.html");
const START: &[u8] = include_bytes!("../assets/start.js");
const STYLE: &[u8] = include_bytes!("../assets/page.css");

/// Names of the Swagger UI files that the documentation page needs.
const FILES: [&str; 4] = ["favicon-32x32.png", "index.css", "swagger-ui-bundle.js", "swagger-ui.css"];

/// Content security policy of the documentation page. Scripts must come from this host, so that a
/// script in a text of the contract is never run.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      object-src 'none'; base-uri 'none'; frame-ancestors 'none'";

pub(crate) fn page() -> Reply {
    let mut reply = Reply::new(200, "text/html; charset=utf-8", PAGE.to_owned());
    reply.set_header("content-security-policy", POLICY);
    reply.set_header("cache-control", "no-cache");
    reply
}

/// Returns a file of the documentation page; `None` if there is no file of this name.
pub(crate) fn file(name: &str) -> Option<Response<Body>> {
    let (content_type, bytes, gzipped): (_, Cow<'static, [u8]>, _) = match name {
        "start.js" => ("text/javascript".to_owned(), START.into(), false),
        "page.css" => ("text/css".to_owned(), STYLE.into(), false),
        _ => {
            let known = FILES.contains(&name).then_some(name)?;
            let file = utoipa_swagger_ui::serve(known, Arc::new(Config::default())).ok()??;
            (file.content_type, file.bytes, file.gzpipped)
        }
    };
    let mut response = Response::new(Body::Binary(bytes.into_owned()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::try_from(content_type).ok()?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400"));
    if gzipped {
        // Not negotiated: every browser that can show the page can inflate, and a client without
        // `Accept-Encoding` accepts it (RFC 9110, section 12.5.3).
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_the_page_names_is_there_with_its_type() {
        let named = PAGE.split(['"']).filter_map(|part| part.strip_prefix("docs/"));
        let mut count = 0;
        for name in named {
            let response = file(name).unwrap_or_else(|| panic!("{name} is missing"));
            let expected = match name.rsplit_once('.').unwrap().1 {
                "css" => "text/css",
                "js" => "text/javascript",
                "png" => "image/png",
                other => panic!("{other}"),
            };
            assert_eq!(response.headers()[CONTENT_TYPE], expected, "{name}");
            assert!(response.headers().contains_key(CACHE_CONTROL), "{name}");
            let gzip: [u8; 2] = [0x1f, 0x8b];
            assert_eq!(response.body().starts_with(&gzip), response.headers().contains_key(CONTENT_ENCODING));
            count += 1;
        }
        // And the two files of our own.
        assert_eq!(count, FILES.len() + 2);
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        let start = std::str::from_utf8(START).unwrap();
        assert!(!PAGE.contains("://") && !start.contains("://"));
    }

    #[test]
    fn other_files_are_not_served() {
        for name in ["index.html", "swagger-initializer.js", "oauth2-redirect.html", "..", ""] {
            assert!(file(name).is_none(), "{name}");
        }
    }
}
