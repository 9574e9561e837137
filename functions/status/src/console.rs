//! Web console: a page that uses the public API, served from this function's binary. It has no
//! rights of its own: its user enters an API key or a token, which the page keeps in memory.

use api::{Reply, content_digest};
use http::{HeaderMap, header};

const PAGE: &str = include_str!("../assets/console/index.html");

const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Declares the files of the web console: name, media type and text.
macro_rules! files {
    ($($kind:ident: $($name:literal)*;)*) => {
        /// Files that the web console's page loads: name, media type and text.
        const FILES: &[(&str, &str, &str)] =
            &[$($(($name, $kind, include_str!(concat!("../assets/console/", $name))),)*)*];
    };
}

files! {
    STYLE: "console.css";
    SCRIPT: "app.js" "api.js" "batches.js" "bodies.js" "dom.js" "parts.js" "queues.js"
            "requests.js" "send.js" "sha256.js" "tests.js" "texts.js" "today.js";
}

/// Content security policy of the web console; [`Console::new`] appends the origin of uploads. The
/// policy keeps scripts from turning text into markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'; connect-src 'self'";

/// Page of the web console, with its content security policy.
#[derive(Debug)]
pub(crate) struct Console {
    policy: String,
}

impl Console {
    /// Creates the console. `uploads` is the origin to which the page uploads catalogues; `None` if
    /// it uploads to none besides the API.
    pub(crate) fn new(uploads: Option<&str>) -> Self {
        let policy = uploads.map_or_else(|| POLICY.to_owned(), |origin| format!("{POLICY} {origin}"));
        Self { policy }
    }

    /// Returns the web console's page, or 304 if the client has the current one.
    pub(crate) fn page(&self, headers: &HeaderMap) -> Reply {
        let mut reply = current("text/html; charset=utf-8", PAGE, headers);
        reply.set_header("content-security-policy", self.policy.as_str());
        reply.set_header("referrer-policy", "no-referrer");
        reply
    }
}

/// Returns a file of the web console, or 304 if the client has the current one; `None` if there is
/// no file of this name.
pub(crate) fn file(name: &str, headers: &HeaderMap) -> Option<Reply> {
    let (_, content_type, text) = FILES.iter().find(|(own, ..)| *own == name)?;
    Some(current(content_type, text, headers))
}

/// Builds a response that the client has to revalidate before each use, because JavaScript modules
/// of two versions do not fit together. Responds with 304 if the client has the current content.
fn current(content_type: &str, text: &str, headers: &HeaderMap) -> Reply {
    let tag = format!("\"{}\"", content_digest(text.as_bytes()));
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let (status, body) =
        if known.is_some_and(|known| known.contains(&tag)) { (304, "") } else { (200, text) };
    let mut reply = Reply::new(status, content_type, body.to_owned());
    reply.set_header("cache-control", "no-cache");
    reply.set_header("etag", tag);
    reply.set_header("x-content-type-options", "nosniff");
    reply
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns each piece of `text` that stands between `before` and the next `after`.
    fn between<'a>(text: &'a str, before: &'a str, after: &'a str) -> impl Iterator<Item = &'a str> {
        text.split(before).skip(1).filter_map(move |rest| rest.split_once(after)).map(|(found, _)| found)
    }

    #[test]
    fn every_file_that_the_page_and_its_modules_name_is_there_and_no_other() {
        let of_modules = FILES.iter().flat_map(|(_, _, text)| between(text, "from \"./", "\""));
        let named: BTreeSet<_> = between(PAGE, "\"console/", "\"").chain(of_modules).collect();
        let there: BTreeSet<_> = FILES.iter().map(|(name, ..)| *name).collect();
        assert_eq!(named, there);
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/console");
        let written = std::fs::read_dir(directory).unwrap();
        let written: BTreeSet<_> =
            written.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(written, there.iter().copied().chain(["index.html"]).map(str::to_owned).collect());
        assert_eq!(file("index.html", &HeaderMap::new()), None);
    }

    #[test]
    fn a_file_is_sent_once_and_asked_for_each_time() {
        for (name, content_type, text) in FILES {
            let first = file(name, &HeaderMap::new()).unwrap();
            assert_eq!((first.status, first.body.as_str()), (200, *text), "{name}");
            assert_eq!(first.headers["content-type"], *content_type);
            assert_eq!(first.headers["cache-control"], "no-cache");
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, first.headers["etag"].parse().unwrap());
            let again = file(name, &headers).unwrap();
            assert_eq!((again.status, again.body.as_str()), (304, ""), "{name}");
            assert_eq!(again.headers, first.headers);
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, "\"another\"".parse().unwrap());
        assert_eq!(file("app.js", &headers).map(|reply| reply.status), Some(200));
    }

    #[test]
    fn the_policy_admits_own_scripts_and_the_place_of_uploads_alone() {
        let policy = |uploads| {
            let page = Console::new(uploads).page(&HeaderMap::new());
            page.headers["content-security-policy"].clone()
        };
        let alone = policy(None);
        assert!(alone.ends_with("; connect-src 'self'"), "{alone}");
        let with = policy(Some("https://payloads.s3.sa-east-1.amazonaws.com"));
        assert_eq!(with, format!("{alone} https://payloads.s3.sa-east-1.amazonaws.com"));
        let directives: Vec<_> = alone.split("; ").collect();
        assert_eq!(
            directives,
            [
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "img-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'",
                "trusted-types 'none'",
                "connect-src 'self'",
            ]
        );
    }

    #[test]
    fn nothing_is_written_as_markup_kept_beyond_the_tab_or_loaded_from_elsewhere() {
        assert!(!PAGE.contains(" style=") && !PAGE.contains("<style") && !PAGE.contains("onclick"));
        assert_eq!(PAGE.matches("<script").count(), PAGE.matches("<script type=\"module\" src=\"").count());
        for (name, _, text) in FILES.iter().chain(&[("index.html", "", PAGE)]) {
            for refused in
                ["innerHTML", "outerHTML", "insertAdjacent", "eval(", "sessionStorage", "document.cookie"]
            {
                assert!(!text.contains(refused), "{name}: {refused}");
            }
            // The name of a namespace is no address.
            let addresses = text.replace("http://www.w3.org/", "");
            assert!(!addresses.contains("://"), "{name}");
        }
        // Language and theme.
        let kept: Vec<_> = FILES.iter().filter(|(_, _, text)| text.contains("localStorage")).collect();
        assert_eq!(kept.len(), 1, "one module keeps what is no secret");
    }
}
