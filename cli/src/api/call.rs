//! `integrahub api`: sends any HTTP request to the API of the deployment, with the address and the
//! API key of the context.

use std::path::Path;

use ::http::Method;
use url::form_urlencoded::byte_serialize;
use uuid::Uuid;

use super::problem::Problem;
use super::{Answer, Api, Call};
use crate::args::ApiRequest;
use crate::context::Context;
use crate::exit::{Exit, Explain as _, Failure};
use crate::input;
use crate::output::{Format, Output};

/// Maximum size in bytes of a request body that the API accepts.
const MAX_BODY: u64 = 10 * 1024 * 1024;

/// Sends the request and prints the response's body.
pub(crate) async fn call(args: &ApiRequest, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let call = request(args, out).await?;
    let answer = Api::of(context)?.exchange(&call).await?;
    if args.include {
        out.line(&format!("HTTP {}", answer.status));
        for (name, value) in &answer.headers {
            out.line(&format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())));
        }
        out.line("");
    }
    print(&answer, out)?;
    if answer.is_success() {
        return Ok(Exit::Done);
    }
    let refusal = Problem::of(&answer).refusal(&answer, "", &context.source_of_key);
    Err(refusal.into())
}

async fn request(args: &ApiRequest, out: &mut Output) -> Result<Call, Failure> {
    let method = args.method.to_ascii_uppercase();
    let method = Method::from_bytes(method.as_bytes()).or_explain(|| format!("send a {method} request"))?;
    check_path(&args.path)?;
    let mut call = Call::of(method.clone(), args.path.as_str());
    let key = args.key.clone().or_else(|| (method == Method::POST).then(|| Uuid::new_v4().to_string()));
    if let Some(key) = key {
        if args.key.is_none() {
            out.note(&format!("idempotency key {key}"));
        }
        call = call.header("idempotency-key", &key);
    } else if method != Method::GET && method != Method::DELETE {
        call = call.once();
    }
    if let Some(body) = &args.body {
        let body = match body.strip_prefix('@') {
            Some(path) => input::read(Path::new(path), MAX_BODY).await?,
            None => body.clone().into_bytes(),
        };
        call = call.body(body, "application/json");
    }
    for header in &args.headers {
        let Some((name, value)) = header.split_once(':') else {
            return Err(Failure::usage(format!("`{header}` is no header")).next("write it as `name: value`"));
        };
        call = call.header(name.trim(), value.trim());
    }
    Ok(call)
}

/// Refuses a request path that does not begin with a slash, or that has characters which HTTP would
/// not send unchanged, such as `#`.
fn check_path(path: &str) -> Result<(), Failure> {
    if !path.starts_with('/') {
        return Err(Failure::usage(format!("{path} is no path")).next("begin the path with a slash"));
    }
    let is_wrong = |character: &char| {
        character.is_whitespace()
            || character.is_control()
            || matches!(character, '#' | '"' | '<' | '>' | '`')
    };
    path.chars().find(is_wrong).map_or(Ok(()), |character| {
        let name = match character {
            ' ' => "a blank".to_owned(),
            other => format!("the character {other:?}"),
        };
        let encoded: String = byte_serialize(character.to_string().as_bytes()).collect();
        let encoded = encoded.replace('+', "%20");
        Err(Failure::usage(format!("the path has {name}, which no path can have"))
            .next(format!("write it as {encoded}")))
    })
}

/// Prints the body of a response: JSON indented, anything else unchanged. With `--output ndjson`,
/// JSON is unchanged too.
fn print(answer: &Answer, out: &mut Output) -> Result<(), Failure> {
    let is_json = answer.header("content-type").is_some_and(|kind| kind.contains("json"));
    if !is_json || out.format() == Format::Ndjson {
        let _remembered = out.raw(&answer.body);
        return Ok(());
    }
    out.line(&format!("{:#}", answer.json()?));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_character_that_none_has_is_refused_with_how_to_write_it() {
        for (path, name, encoded) in [
            ("/x y", "a blank", "%20"),
            ("/tests?cursor=a b", "a blank", "%20"),
            ("/a#b", "the character '#'", "%23"),
            ("/a\nb", "the character '\\n'", "%0A"),
            ("/a\u{a0}b", "the character '\\u{a0}'", "%C2%A0"),
        ] {
            let refused = check_path(path).unwrap_err();
            assert_eq!(refused.exit, Exit::Usage, "{path:?}");
            assert_eq!(refused.what, format!("the path has {name}, which no path can have"));
            assert_eq!(refused.next, Some(format!("write it as {encoded}")));
        }
        for path in ["/", "/x%20y?a=1&b={%7D}", "/requests/produce/carga-\u{e7}"] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        assert!(check_path("x").unwrap_err().next.unwrap().contains("slash"));
    }
}
