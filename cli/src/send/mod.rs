//! `integrahub send`: sends catalogue files to the ingest, and follows their batches. Without it,
//! each pharmacy would have to write such a sender.

mod content;
mod delivery;
mod finished;
mod folder;
mod journal;
mod load;
mod pipeline;
mod progress;
mod report;
mod source;
#[cfg(test)]
mod tests;
mod watch;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use self::content::Content;
use self::delivery::{End, Sender};
use self::finished::FinishedFiles;
use self::folder::Folder;
use self::journal::Journal;
use self::load::{LoadOptions, ResendChoice, identity, plan};
use self::pipeline::Pipeline;
use self::progress::{Progress, ProgressMessage, Step};
use self::report::{HEADER, Sent, worst};
use self::source::Source;
use self::watch::Watch;
use crate::api::{Api, with_query};
use crate::args::Send;
use crate::batches::{self, ItemsFile, each_item_in_error};
use crate::context::Context;
use crate::exit::{Exit, Explain as _, Failure};
use crate::input;
use crate::member::shown;
use crate::output::{Format, Output};
use crate::storage::Storage;

const RESULT: &str = "integrahub.send.v1";
const PLAN: &str = "integrahub.send-plan.v1";

/// Interval at which the progress display checks whether to print a line.
const TICK: Duration = Duration::from_secs(1);
/// File number in progress messages that are about no file.
const NO_FILE: usize = usize::MAX;

/// Runs `integrahub send`: sends files, or with `--watch` the files of a directory as they appear.
pub(crate) async fn run(args: &Send, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    check(args)?;
    if args.dry_run {
        return dry_run(args, context, out).await;
    }
    let (news, mut heard) = mpsc::unbounded_channel();
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let told = news.clone();
    let api =
        Api::of(context)?.with_key()?.trying_for(args.retry_for).telling(Box::new(move |what, pause| {
            let step = Step::Retry { what: what.to_owned(), pause };
            let _unheard = told.send(ProgressMessage { file: NO_FILE, step });
        }));
    let sender = Arc::new(Sender {
        api,
        storage: Storage::new().at_most(args.bwlimit),
        journal: Journal::open()?,
        args: args.clone(),
        news,
        stopping,
    });
    let mut progress = Progress::of(out);
    let parallel = usize::from(args.parallel);
    if let Some(directory) = &args.watch {
        let folder = Folder::open(directory, &args.glob)?;
        let pipeline = Pipeline::new(sender, Some(FinishedFiles::of(directory)), parallel);
        return Watch::new(args, folder, pipeline).run(&stop, &mut heard, &mut progress, out).await;
    }
    let pipeline = Pipeline::new(Arc::clone(&sender), None, parallel);
    let sent = all(args, pipeline, &mut heard, &mut progress, out).await?;
    report(args, &sender.api, &sent, out).await
}

/// Refuses options that contradict each other.
fn check(args: &Send) -> Result<(), Failure> {
    if args.key.is_some() && args.files.len() != 1 {
        return Err(Failure::usage("--key names the load of one file, and there are several")
            .next("leave --key out: each file gets a key of its own"));
    }
    if args.files.iter().filter(|path| input::is_stdin(path)).count() > 1 {
        return Err(Failure::usage("standard input is one file, and is named more than once"));
    }
    Ok(())
}

/// Sends the files of the command line, several at once, and returns their outcomes in the order of
/// the files.
async fn all(
    args: &Send,
    mut pipeline: Pipeline,
    heard: &mut UnboundedReceiver<ProgressMessage>,
    progress: &mut Progress,
    out: &mut Output,
) -> Result<Vec<Sent>, Failure> {
    for path in &args.files {
        pipeline.add(Source::open(path).await?);
    }
    let mut sent = Vec::new();
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            Some(news) = heard.recv() => progress.hear(news, out),
            ended = pipeline.next() => match ended {
                Some(ended) => sent.push(ended),
                None => break,
            },
            _ = ticks.tick() => progress.tick(out),
        }
    }
    while let Ok(news) = heard.try_recv() {
        progress.hear(news, out);
    }
    sent.sort_by_key(|sent| sent.file);
    Ok(sent)
}

/// Prints the outcomes of the files, and writes the items in error to the file of `--errors`.
/// Returns the exit code of the command.
async fn report(args: &Send, api: &Api, sent: &[Sent], out: &mut Output) -> Result<Exit, Failure> {
    let documents = sent.iter().map(Sent::json).collect();
    let rows = sent.iter().map(Sent::row).collect();
    out.list(RESULT, "files", documents, &HEADER, rows);
    out.flush();
    let mut exits: Vec<Exit> = sent.iter().map(Sent::exit).collect();
    for sent in sent {
        tell(sent, out);
        if args.errors.is_none() && out.format() == Format::Text {
            show_first_errors(api, sent, out).await;
        }
    }
    if let Some(path) = &args.errors
        && let Err(failure) = write_errors(api, path, sent).await
    {
        out.fail(&failure);
        exits.push(failure.exit);
    }
    Ok(worst(exits))
}

/// Prints notes about a sent file and the reason why it failed, if any.
fn tell(sent: &Sent, out: &mut Output) {
    for note in sent.notes() {
        out.note(&note);
    }
    if let Some(trouble) = sent.trouble() {
        out.fail(&trouble);
    }
}

/// Writes the items in error of all sent files to one file, each with the name of the file that it
/// was in.
async fn write_errors(api: &Api, path: &Path, sent: &[Sent]) -> Result<(), Failure> {
    let mut file = ItemsFile::create(path)?;
    for sent in sent {
        let End::Final(batch) = &sent.end else { continue };
        if batch.items_failed == 0 {
            continue;
        }
        each_item_in_error(api, batch, |item| {
            let mut line = Map::new();
            line.insert("file".to_owned(), json!(sent.name));
            line.insert("batch_id".to_owned(), json!(batch.batch_id));
            if let Value::Object(members) = item {
                line.extend(members);
            }
            file.write(&Value::Object(line))
        })
        .await?;
    }
    file.close()
}

/// Prints the first three items in error of a sent file. Prints nothing if they cannot be read.
async fn show_first_errors(api: &Api, sent: &Sent, out: &mut Output) {
    let End::Final(batch) = &sent.end else { return };
    if batch.items_failed == 0 {
        return;
    }
    let list = format!("{}/errors", batches::path(&batch.batch_id));
    // The command to see all of them is named anyway.
    let Ok(page) = api.get(&with_query(&list, &[("limit", "3")])).await else { return };
    for item in page.get("errors").and_then(Value::as_array).into_iter().flatten() {
        let [index, code, field, detail] =
            ["item_index", "code", "field", "detail"].map(|name| shown(item, name));
        let field = if field.is_empty() { field } else { format!(" {field}") };
        out.note(&format!("  item {index}: {code}{field}: {detail}"));
    }
}

/// Runs `integrahub send --dry-run`: prints which files would be sent, how, and under which keys.
/// Nothing is sent or recorded.
async fn dry_run(args: &Send, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let journal = Journal::look()?;
    let api =
        context.url.as_ref().map(|url| url.as_str().trim_end_matches('/').to_owned()).unwrap_or_default();
    let (mut documents, mut exits) = (Vec::new(), Vec::new());
    for path in &args.files {
        let source = Source::open(path).await?;
        let looked_at = look(args, &source, &api, &journal).await;
        exits.push(looked_at.as_ref().map_or_else(|failure| failure.exit, |_| Exit::Done));
        match looked_at {
            Ok(document) => documents.push(document),
            Err(failure) => out.fail(&failure),
        }
    }
    let columns = ["file", "form", "gzip", "bytes", "way", "key", "continues"].map(|name| (name, name));
    out.members(PLAN, "files", documents, &columns);
    Ok(worst(exits))
}

async fn look(args: &Send, source: &Source, api: &str, journal: &Journal) -> Result<Value, Failure> {
    let stamp = source.stamp().await?;
    let (path, name, form) = (source.path.clone(), source.name.clone(), args.format);
    let content = tokio::task::spawn_blocking(move || Content::of(&path, &name, form, |_| ())).await;
    let content = content.or_explain(|| format!("read {}", source.name))??;
    let (options, choice) = (LoadOptions::of(args), ResendChoice::of(args));
    let stamped = (source.path.as_path(), &stamp);
    let found = journal.last(api, &identity(options, &content, choice))?;
    let plan = plan(api, options, &content, stamped, choice, found.as_ref());
    Ok(json!({
        "file": source.name,
        "type": args.load_type.as_str(),
        "form": content.form.as_str(),
        "gzip": content.is_gzip,
        "bytes": content.bytes,
        "sha256": content.sha256,
        "way": plan.entry.way.as_str(),
        "key": plan.entry.key,
        "continues": plan.is_begun,
    }))
}
