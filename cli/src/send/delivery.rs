//! Delivery of a file: inspection, sending, and waiting until its batch is final.

use std::path::Path;
use std::sync::Arc;

use http::Method;
use serde::Deserialize as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::content::Content;
use super::journal::{Entry, Journal, State, Way};
use super::load::{FileStamp, LoadOptions, MAX_REQUEST, ResendChoice, identity, plan};
use super::progress::{ProgressMessage, Step};
use super::source::{Source, changed};
use crate::api::{Answer, Api, Call, Refusal};
use crate::args::Send;
use crate::batches::{self, Batch, follow};
use crate::exit::{Exit, Explain as _, Failure};
use crate::input;
use crate::storage::{Attempts, Signed, Storage};

const PRODUCTS: &str = "/v1/inovafarma/products";
const UPLOADS: &str = "/v1/inovafarma/products/uploads";

/// Sender of files: the API client, the arguments that all files share, and the channel to the
/// progress display.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) api: Api,
    pub(crate) storage: Storage,
    pub(crate) journal: Journal,
    /// Arguments of `integrahub send`.
    pub(crate) args: Send,
    pub(crate) news: UnboundedSender<ProgressMessage>,
    /// True once a signal has asked the program to stop.
    pub(crate) stopping: watch::Receiver<bool>,
}

/// File that has been read, with the planned load, and not sent yet.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) source: Source,
    pub(crate) content: Content,
    pub(crate) entry: Entry,
    pub(crate) stamp: FileStamp,
    is_begun: bool,
    /// Failure to learn how an earlier load of the same content ended; `None` if that is known.
    /// With a failure, the plan may be wrong, so the file is not sent.
    unknown: Option<Failure>,
}

/// Load that the API has accepted, with its batch.
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    pub(crate) entry: Entry,
    pub(crate) batch_id: String,
    /// True if the API had accepted a load with the same idempotency key before, although this
    /// command did not continue a load from the journal.
    pub(crate) is_replay: bool,
}

/// Outcome of the delivery of one file.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// The batch has ended, with this result.
    Final(Batch),
    /// The API accepted the file as the batch with this id. The program did not wait for its end.
    Accepted(String),
    /// The batch did not end within `--timeout`. The value is its last known state.
    TimedOut(Batch),
    /// The file did not reach the API, or its batch cannot be followed.
    Failed(Failure),
    /// The file was not sent: a signal asked the program to stop, or under `--watch` an earlier
    /// file of its establishment failed.
    Stopped,
}

impl Sender {
    fn tell(&self, file: usize, step: Step) {
        // Nobody listens once the program ends.
        let _unheard = self.news.send(ProgressMessage { file, step });
    }

    /// Returns whether `--watch` is set, so that files come from a directory.
    pub(crate) const fn watches(&self) -> bool {
        self.args.watch.is_some()
    }

    /// Returns whether a signal has asked the program to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Reads a file and plans its load. `file` is the number of the file in progress messages.
    ///
    /// # Errors
    /// If the file cannot be read, is not a catalogue, or changed meanwhile, or if the journal
    /// cannot be read.
    pub(crate) async fn prepare(self: &Arc<Self>, file: usize, source: Source) -> Result<Prepared, Failure> {
        let stamp = source.stamp().await?;
        self.tell(file, Step::Found { name: source.name.clone(), bytes: stamp.bytes });
        let (path, name, form) = (source.path.clone(), source.name.clone(), self.args.format);
        let sender = Arc::clone(self);
        let look = move || Content::of(&path, &name, form, |bytes| sender.tell(file, Step::Read { bytes }));
        let content =
            tokio::task::spawn_blocking(look).await.or_explain(|| format!("read {}", source.name))??;
        if content.bytes != stamp.bytes || source.stamp().await? != stamp {
            return Err(changed(&source.name));
        }
        let (options, choice) = (LoadOptions::of(&self.args), ResendChoice::of(&self.args));
        let api = self.api.base();
        let identity = identity(options, &content, choice);
        let unknown = self.look_up(&identity).await.err();
        let found = self.journal.last(api, &identity)?;
        let stamped = (source.path.as_path(), &stamp);
        let plan = plan(api, options, &content, stamped, choice, found.as_ref());
        let (way, key) = (plan.entry.way, plan.entry.key.clone());
        self.tell(file, Step::Ready { way, key, goes_on: plan.is_begun });
        Ok(Prepared { source, content, entry: plan.entry, stamp, is_begun: plan.is_begun, unknown })
    }

    /// Asks the API about an accepted load with this identity, if the journal does not record the
    /// end of its batch. If the batch has ended, records its end in the journal, so that the same
    /// content is then a new load.
    async fn look_up(&self, identity: &str) -> Result<(), Failure> {
        let Some(entry) = self.journal.last(self.api.base(), identity)? else { return Ok(()) };
        let Some(batch_id) = entry.batch_id.as_deref().filter(|_| entry.state == State::Accepted) else {
            return Ok(());
        };
        match self.api.send(&Call::get(batches::path(batch_id))).await {
            Ok(answer) => {
                let batch = Batch::read(answer.json()?)?;
                if batch.is_final() { self.journal.add(&ended(&entry, &batch)) } else { Ok(()) }
            }
            // The batch was deleted some time after its end.
            Err(refusal) if refusal.is("BATCH_NOT_FOUND") => self.journal.add(&entry.now(State::Final)),
            // The key may permit to send, and not to read.
            Err(refusal) if refusal.status == Some(403) => Ok(()),
            Err(refusal) => Err(refusal.failure),
        }
    }

    /// Sends a file to the API, in a request or as an upload. The journal records the load before
    /// the first request. `file` is the number of the file in progress messages.
    ///
    /// # Errors
    /// If the API did not accept the file, as far as this program knows, or the journal cannot be
    /// written.
    pub(crate) async fn accept(&self, file: usize, prepared: &Prepared) -> Result<Accepted, Failure> {
        if let Some(failure) = &prepared.unknown {
            return Err(failure.clone());
        }
        let mut entry = prepared.entry.now(State::Sending);
        self.journal.add(&entry)?;
        let mut brought = match entry.way {
            Way::Request => self.request(prepared, &entry).await,
            Way::Upload => self.upload(file, prepared, &mut entry).await,
        };
        if let Err(refusal) = &brought
            && entry.way == Way::Request
            && needs_upload(refusal)
        {
            entry.way = Way::Upload;
            self.journal.add(&entry)?;
            brought = self.upload(file, prepared, &mut entry).await;
        }
        let answer = brought.map_err(|mut refusal| {
            // The address is wrong, and not the file.
            if refusal.is("ROUTE_NOT_FOUND") {
                refusal.failure.exit = Exit::Temporary;
            }
            // What the API refuses, it does not remember.
            if refusal.status.is_some() && refusal.failure.exit == Exit::Refused {
                let _unwritten = self.journal.add(&entry.now(State::Refused));
            }
            refusal.failure
        })?;
        let batch_id = member(&answer.json()?, "batch_id")?;
        entry.batch_id = Some(batch_id.clone());
        let entry = entry.now(State::Accepted);
        self.journal.add(&entry)?;
        let is_replay = answer.is_replay() && !prepared.is_begun;
        self.tell(file, Step::Accepted { batch_id: batch_id.clone(), is_replay });
        Ok(Accepted { entry, batch_id, is_replay })
    }

    fn headers(&self, call: Call, entry: &Entry) -> Call {
        let call = call.header("idempotency-key", &entry.key);
        let call = call.header("x-inova-load-type", self.args.load_type.as_str());
        match self.args.partial_items {
            Some(partial) => call.header("x-inova-partial-items", partial.as_str()),
            None => call,
        }
    }

    async fn request(&self, prepared: &Prepared, entry: &Entry) -> Result<Answer, Refusal> {
        let name = &prepared.source.name;
        let body = input::read(&prepared.source.path, MAX_REQUEST).await;
        let body = body.map_err(|_| changed(name))?;
        if hex::encode(Sha256::digest(&body)) != prepared.content.sha256 {
            return Err(changed(name).into());
        }
        let (media_type, encoding) = prepared.content.media_type();
        let call = Call::of(Method::POST, PRODUCTS).body(body, media_type);
        let call = match encoding {
            Some(encoding) => call.header("content-encoding", encoding),
            None => call,
        };
        self.api.send(&self.headers(call, entry)).await
    }

    /// Announces an upload to the API and puts the file to S3. Temporary failures of S3 are tried
    /// again, each time with a new URL for the same batch. Records the batch's id in `entry`.
    /// Returns the API's response to the first announcement.
    async fn upload(&self, file: usize, prepared: &Prepared, entry: &mut Entry) -> Result<Answer, Refusal> {
        let content = &prepared.content;
        let mut announcement = json!({
            "content_type": content.inner_type(),
            "content_length": content.bytes,
            "sha256": content.sha256,
        });
        if let (Some(members), true) = (announcement.as_object_mut(), content.is_gzip) {
            members.insert("content_encoding".to_owned(), "gzip".into());
        }
        let call = self.headers(Call::read(UPLOADS, &announcement), entry);
        let sent = |bytes| self.tell(file, Step::Sending { bytes });
        let (mut first, mut attempts) = (None, Attempts::default());
        loop {
            let answer = self.api.send(&call).await?;
            let said = answer.json()?;
            let first = first.get_or_insert(answer).clone();
            entry.batch_id = said.get("batch_id").and_then(Value::as_str).map(str::to_owned);
            self.journal.add(&entry.now(State::Sending))?;
            let signed = said.get("upload").filter(|upload| !upload.is_null()).map(Signed::deserialize);
            let Some(signed) = signed.transpose().or_explain(|| "read where to put the file".to_owned())?
            else {
                if said.get("status").and_then(Value::as_str) == Some("EXPIRED") {
                    return Err(self.expired(entry).into());
                }
                return Ok(first);
            };
            let put = self.storage.put(&signed, &prepared.source.path, content.bytes, &sent).await;
            let Err(error) = put else { return Ok(first) };
            if prepared.source.stamp().await? != prepared.stamp {
                return Err(changed(&prepared.source.name).into());
            }
            let what = error.or_refused()?;
            if self.is_stopping() || !attempts.wait(&self.api, &what).await {
                return Err(Failure::new(
                    Exit::Temporary,
                    format!("{} could not be uploaded", prepared.source.name),
                )
                .why(what)
                .next("run the same command again: it goes on with the same batch")
                .into());
            }
        }
    }

    /// Records the end of a load whose batch expired before the file was uploaded, so that the next
    /// `send` of the file begins another batch. Returns the failure to show.
    fn expired(&self, entry: &Entry) -> Failure {
        let _unwritten = self.journal.add(&entry.elsewhere(Path::new("")));
        Failure::new(Exit::Temporary, "the batch of an earlier run has expired")
            .why("its file was not uploaded within 30 days")
            .next("run the same command again: it begins a new batch")
    }

    /// Follows the batch of an accepted file to its end, and returns the outcome. With `--no-wait`,
    /// or once a signal asks the program to stop, returns [`End::Accepted`] at once. `file` is the
    /// number of the file in progress messages.
    pub(crate) async fn wait(&self, file: usize, accepted: &Accepted) -> End {
        if self.args.no_wait {
            return End::Accepted(accepted.batch_id.clone());
        }
        let followed = follow(&self.api, &accepted.batch_id, self.args.timeout, |batch| {
            let (status, parsed) = (batch.status.clone(), batch.items_parsed);
            let done = batch.items_processed.saturating_add(batch.items_failed);
            self.tell(file, Step::Processing { status, parsed, done });
        });
        let followed = tokio::select! {
            followed = followed => followed,
            () = stopped(self.stopping.clone()) => return End::Accepted(accepted.batch_id.clone()),
        };
        match followed {
            Ok(batch) if batch.is_final() => match self.journal.add(&ended(&accepted.entry, &batch)) {
                Ok(()) => End::Final(batch),
                Err(failure) => End::Failed(failure),
            },
            Ok(batch) => End::TimedOut(batch),
            Err(failure) => End::Failed(failure),
        }
    }
}

/// Returns the last journal entry of a load whose batch has ended. If the batch loaded nothing,
/// this entry makes `--watch` send the file again.
fn ended(entry: &Entry, batch: &Batch) -> Entry {
    if batch.is_lost() { entry.elsewhere(Path::new("")) } else { entry.now(State::Final) }
}

/// Completes when a signal asks the program to stop.
pub(crate) async fn stopped(mut stopping: watch::Receiver<bool>) {
    if stopping.wait_for(|&stop| stop).await.is_err() {
        // Nobody can ask any more.
        std::future::pending::<()>().await;
    }
}

/// Returns whether a request was refused because it is too large, so that the file must be
/// uploaded. A 413 without a reason comes from API Gateway itself.
fn needs_upload(refusal: &Refusal) -> bool {
    refusal.status == Some(413) && (refusal.reason.is_none() || refusal.is("USE_UPLOAD"))
}

fn member(answer: &Value, name: &str) -> Result<String, Failure> {
    let text = answer.get(name).and_then(Value::as_str).map(str::to_owned);
    text.ok_or_else(|| Failure::new(Exit::Error, format!("the API's answer has no {name}")))
}
