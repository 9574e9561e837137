//! Load of a catalogue with many chunks of one establishment on a slow database. The chunks wait
//! for the establishment's lock. If a chunk waits too long, its message is sent again.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use tokio::time::sleep;

use super::Stack;
use super::load::{Content, Load, UPLOAD};
use super::tenant::Tenant;
use crate::error::Error;
use crate::report::table;

/// Number of items in a chunk.
const CHUNK_ITEMS: u32 = 1000;
/// Time to wait until the stack's log contains everything that the functions logged.
const LOGGED: Duration = Duration::from_secs(5);
/// Text in the log line of `upsert` for a chunk that waited for locks in vain, and whose event is
/// sent again. The chunk's name is before the text.
const WAITED: &str = " waited for locks";
const AS_FAST_AS_IT_IS: &str =
    "DROP TRIGGER IF EXISTS bench_slow ON batch_chunks; DROP FUNCTION IF EXISTS bench_slow()";

pub(super) async fn measure(stack: &Stack<'_>, tenant: &Tenant) -> Result<(), Error> {
    let (chunks, milliseconds) = (stack.options.chunks, stack.options.slow_ms);
    if chunks == 0 {
        return Ok(());
    }
    let load = Load::new(tenant, UPLOAD, Content::Sound, chunks * CHUNK_ITEMS, 1)?;
    let before = sent_again()?;
    stack.slow_down(milliseconds).await?;
    let round = stack.round(vec![(Duration::ZERO, load)]).await;
    stack.observer.batch_execute(AS_FAST_AS_IT_IS).await?;
    let (ended, _) = round?;
    sleep(LOGGED).await;
    let mut again = sent_again()?;
    again.retain(|chunk, _| !before.contains_key(chunk));
    let rows = ended.iter().map(|(load, times)| {
        let (sum, most) = (again.values().sum::<u32>(), again.values().max().copied().unwrap_or(0));
        let counts = [chunks, load.items, milliseconds, sum, most].map(|count| count.to_string());
        counts.into_iter().chain([format!("{:.0}", times.seconds())]).collect()
    });
    let headings = [
        "chunks",
        "items",
        "ms more for each chunk",
        "chunks sent again",
        "one of them, at most",
        "final after, s",
    ];
    #[expect(clippy::print_stdout, reason = "the report")]
    {
        println!(
            "\nOne establishment's catalogue on a database that holds its lock longer. Every item is \
             accounted for.\n\n{}",
            table(&headings, rows)
        );
    }
    Ok(())
}

impl Stack<'_> {
    /// Installs a database trigger by which each chunk's transaction takes this much longer before
    /// it commits and releases its locks.
    async fn slow_down(&self, milliseconds: u32) -> Result<(), Error> {
        let slow = format!(
            "{AS_FAST_AS_IT_IS}; \
             CREATE FUNCTION bench_slow() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM pg_sleep({milliseconds} / 1000.0); RETURN NEW; END $$; \
             CREATE TRIGGER bench_slow BEFORE UPDATE ON batch_chunks FOR EACH ROW \
             WHEN (NEW.status = 'DONE' AND OLD.status <> 'DONE') EXECUTE FUNCTION bench_slow()"
        );
        Ok(self.observer.batch_execute(&slow).await?)
    }
}

/// Counts how often the event of each chunk was sent again, from the log of the stack's functions.
/// The map is empty if the stack keeps no log.
fn sent_again() -> Result<HashMap<String, u32>, Error> {
    let mut chunks = HashMap::new();
    let Some(environment) = std::env::var_os("INTEGRAHUB_STACK_ENV") else { return Ok(chunks) };
    let log = Path::new(&environment).with_file_name("logs").join("functions.log");
    let log = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
    for chunk in log.lines().filter_map(chunk_of) {
        *chunks.entry(chunk.to_owned()).or_default() += 1;
    }
    Ok(chunks)
}

/// Returns the chunk that a log line reports as sent again, as text with its number and its batch.
fn chunk_of(line: &str) -> Option<&str> {
    line.split_once(WAITED)?.0.rsplit('"').next()
}
