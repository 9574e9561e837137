//! `integrahub api`: any request, with the address and the API key of the context.

use std::path::Path;

use ::http::Method;
use uuid::Uuid;

use super::problem::Problem;
use super::{Answer, Api, Call};
use crate::args::ApiRequest;
use crate::context::Context;
use crate::exit::{Exit, Explain as _, Failure};
use crate::input;
use crate::output::{Format, Output};

/// Longest body that the API takes in a request.
const MAX_BODY: u64 = 10 * 1024 * 1024;

/// Sends the request and prints the answer's body.
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
    if !args.path.starts_with('/') {
        return Err(Failure::usage(format!("{} is no path", args.path)).next("begin the path with a slash"));
    }
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

/// Prints JSON in the form of the output, and anything else as it is.
fn print(answer: &Answer, out: &mut Output) -> Result<(), Failure> {
    let is_json = answer.header("content-type").is_some_and(|kind| kind.contains("json"));
    if !is_json || out.format() == Format::Ndjson {
        let _remembered = out.raw(&answer.body);
        return Ok(());
    }
    out.line(&format!("{:#}", answer.json()?));
    Ok(())
}
