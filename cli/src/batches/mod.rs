//! `integrahub batches`: shows the outcome of catalogues that were sent, waits for it, and replays
//! batches.

mod follow;
mod items;
mod outcome;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) use self::follow::follow;
pub(crate) use self::items::each as each_item_in_error;
pub(crate) use self::outcome::Batch;
use crate::api::{Api, Call, List};
use crate::args::{BatchList, Batches, Scope, WaitArgs};
use crate::context::Context;
use crate::exit::{Exit, Explain as _, Failure};
use crate::output::{Format, Output};

const BATCHES: &str = "/v1/inovafarma/batches";
/// Number of batches on a page of the API's list.
const PAGE: u32 = 200;
/// Maximum number of items in error that are shown as a table or a single JSON document.
const MOST_SHOWN: usize = 10_000;

const BATCH: &str = "integrahub.batch.v1";
const LIST: &str = "integrahub.batches.v1";
const ITEMS: &str = "integrahub.items-in-error.v1";
const REPLAY: &str = "integrahub.batch-replay.v1";

/// Returns the path of a batch in the API.
pub(crate) fn path(batch_id: &str) -> String {
    format!("{BATCHES}/{batch_id}")
}

/// Returns the command line that waits for a batch again. `program` is the program's name with the
/// options that select the deployment and the API key.
pub(crate) fn resume_line(program: &str, batch_id: &str) -> String {
    format!("{program} batches watch {batch_id}")
}

/// Runs a command about batches.
pub(crate) async fn run(command: &Batches, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let api = Api::of(context)?;
    match command {
        Batches::List(args) => list(&api, args, out).await,
        Batches::Show { batch } => {
            show(&get(&api, *batch).await?, out);
            Ok(Exit::Done)
        }
        Batches::Watch { batch, timeout } => watch(&api, *batch, *timeout, out).await,
        Batches::Errors { batch, file } => errors(&api, *batch, file.as_deref(), out).await,
        Batches::Replay(args) => {
            replay(&api, args.batch, &json!({"scope": args.scope.as_str()}), args.wait, out).await
        }
        Batches::Confirm { batch, wait } => confirm(&api, *batch, *wait, out).await,
    }
}

async fn get(api: &Api, batch: Uuid) -> Result<Batch, Failure> {
    Batch::read(api.get(&path(&batch.to_string())).await?)
}

async fn list(api: &Api, args: &BatchList, out: &mut Output) -> Result<Exit, Failure> {
    let limit = args.max.min(PAGE).to_string();
    let mut filters = vec![("limit", limit.as_str())];
    filters.extend(args.status.as_deref().map(|status| ("status", status)));
    filters.extend(args.load_type.map(|load_type| ("load_type", load_type.as_str())));
    filters.extend(args.source.as_deref().map(|key| ("source_key", key)));
    let list = List { path: BATCHES, filters, items: "batches", next: "next_cursor" };
    let batches = list.first(api, args.max).await?;
    let rows = batches.iter().cloned().map(Batch::read).collect::<Result<Vec<_>, _>>()?;
    let rows = rows.iter().map(|batch| {
        let received = batch.received_at.clone().unwrap_or_default();
        let counts = [batch.items_parsed, batch.items_failed].map(|count| count.to_string());
        let names = [&batch.batch_id, &batch.load_type, &batch.status, &received];
        names.into_iter().cloned().chain(counts).collect()
    });
    let rows = rows.collect();
    out.list(LIST, "batches", batches, &["batch", "type", "status", "received", "items", "in error"], rows);
    Ok(Exit::Done)
}

fn show(batch: &Batch, out: &mut Output) {
    out.thing(BATCH, &batch.json, &batch.rows());
}

async fn watch(api: &Api, batch: Uuid, timeout: Option<Duration>, out: &mut Output) -> Result<Exit, Failure> {
    let (id, mut last) = (batch.to_string(), String::new());
    let followed = follow(api, &id, timeout, |batch| {
        let news = format!("{}: {} of {} items", batch.status, batch.items_processed, batch.items_parsed);
        if news != last && !out.is_quiet() && !batch.is_final() {
            out.note(&news);
        }
        last = news;
    });
    end(api, &followed.await?, out)
}

/// Prints a batch that a command has waited for, and returns the exit code for its outcome. A batch
/// that is not final is a failure.
fn end(api: &Api, batch: &Batch, out: &mut Output) -> Result<Exit, Failure> {
    if !batch.is_final() {
        let what = format!("the batch is {}, and the time to wait is over", batch.status);
        return Err(Failure::new(Exit::TimedOut, what)
            .why("it goes on by itself")
            .next(format!("wait again: {}", resume_line(api.program(), &batch.batch_id))));
    }
    show(batch, out);
    batch.outcome(api.program()).map(|()| Exit::Done)
}

async fn errors(api: &Api, batch: Uuid, file: Option<&Path>, out: &mut Output) -> Result<Exit, Failure> {
    let batch = get(api, batch).await?;
    if let Some(path) = file {
        let mut lines = ItemsFile::create(path)?;
        let count = each_item_in_error(api, &batch, |item| lines.write(&item)).await?;
        lines.close()?;
        out.note(&format!("{count} items in {}", path.display()));
        return Ok(Exit::Done);
    }
    if out.format() == Format::Ndjson {
        let written = each_item_in_error(api, &batch, |item| {
            out.json(ITEMS, &item);
            if out.is_closed() { Err(Failure::new(Exit::Done, "nobody reads on")) } else { Ok(()) }
        });
        return match written.await {
            Err(failure) if failure.exit != Exit::Done => Err(failure),
            _ => Ok(Exit::Done),
        };
    }
    let mut items = Vec::new();
    each_item_in_error(api, &batch, |item| {
        items.push(item);
        if items.len() <= MOST_SHOWN {
            return Ok(());
        }
        Err(Failure::usage(format!("there are more than {MOST_SHOWN} items in error"))
            .next("write them to a file with --file, or use --output ndjson"))
    })
    .await?;
    let columns = [("item", "item_index"), ("code", "code"), ("field", "field"), ("detail", "detail")];
    out.members(ITEMS, "items", items, &columns);
    Ok(Exit::Done)
}

/// Local file into which a command writes items in error, one JSON object a line.
#[derive(Debug)]
pub(crate) struct ItemsFile {
    lines: BufWriter<File>,
    name: String,
}

impl ItemsFile {
    /// Creates the local file of items in error, or empties an existing one.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let file = File::create(path).or_explain(|| format!("create {name}"))?;
        Ok(Self { lines: BufWriter::new(file), name })
    }

    /// Writes an item in error to the file.
    pub(crate) fn write(&mut self, item: &Value) -> Result<(), Failure> {
        writeln!(self.lines, "{item}").or_explain(|| format!("write {}", self.name))
    }

    /// Writes buffered lines to the local file of items in error.
    pub(crate) fn close(mut self) -> Result<(), Failure> {
        self.lines.flush().or_explain(|| format!("write {}", self.name))
    }
}

async fn replay(
    api: &Api,
    batch: Uuid,
    body: &Value,
    wait: WaitArgs,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let id = batch.to_string();
    let call = Call::change(format!("{}/replay", path(&id)), &Uuid::new_v4().to_string(), body);
    let begun = api.send(&call).await?.json()?;
    if wait.no_wait {
        let member = |name: &str| begun.get(name).map(Value::to_string).unwrap_or_default();
        let rows = [("batch", id.clone()), ("generation", member("generation")), ("parts", member("chunks"))];
        out.thing(REPLAY, &begun, &rows);
        out.note(&format!("follow it: {}", resume_line(api.program(), &id)));
        return Ok(Exit::Done);
    }
    watch(api, batch, wait.timeout, out).await
}

async fn confirm(api: &Api, batch: Uuid, wait: WaitArgs, out: &mut Output) -> Result<Exit, Failure> {
    let held = get(api, batch).await?;
    if held.deactivation.state != "held" {
        return Err(Failure::refused(format!("nothing of the batch {batch} is held"))
            .why(format!("its deactivation is {}", held.deactivation.state)));
    }
    let count = held.deactivation.would_deactivate;
    out.confirm(&format!("this makes {count} products inactive"), &count.to_string())?;
    let body = json!({"scope": Scope::Failed.as_str(), "confirm_deactivation": true});
    replay(api, batch, &body, wait, out).await
}
