//! Morning peak: within a window, all tenants send catalogues of many sizes, by every way in.

use std::time::Duration;

use futures_util::future::try_join;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

use super::backlog::series;
use super::load::{Content, Load, WAYS};
use super::round::spread;
use super::tenant::Tenant;
use super::{Options, Stack};
use crate::callers::messages::put_and_get;
use crate::callers::{BATCHES, Caller, Phase};
use crate::error::Error;
use crate::http_client::Call;
use crate::report::Column;
use crate::tally::{LONGEST, NUMBER, P50, P95, P99};

/// Divisors of the largest catalogue's number of items, taken in turn. Their number and that of the
/// ways into the ingest have no common divisor, so every size is sent by every way.
const PARTS: [u32; 7] = [100, 10, 100, 1, 100, 10, 100];
/// Approximate maximum number of items of an establishment.
const EACH: u32 = 2000;

/// Queue for the messages that are put and got during the peak.
const QUEUE: &str = "bench.peak";
/// Pause between requests that are sent during the peak besides the catalogues.
const PAUSE: Duration = Duration::from_millis(500);

const FINAL: &str = "final";
const COLUMNS: [Column; 5] = [
    Column::mean(NUMBER),
    Column::median(P50, 3),
    Column::median(P95, 3),
    Column::median(P99, 3),
    Column::median(LONGEST, 3),
];

pub(super) async fn measure(stack: &Stack<'_>, tenants: &[Tenant], hostile: &Tenant) -> Result<(), Error> {
    let window = stack.options.window();
    let (sound, broken) = (catalogues(stack.options, tenants)?, broken(stack.options, hostile)?);
    let about = format!(
        "{} catalogues of {} tenants with {} items within {} s, and {} broken ones of another tenant.",
        sound.len(),
        tenants.len(),
        sound.iter().map(|load| u64::from(load.items)).sum::<u64>(),
        window.as_secs(),
        broken.len(),
    );
    let mut planned = spread(sound, Duration::ZERO, window)?;
    planned.extend(spread(broken, Duration::ZERO, window)?);
    let (phase, phases) = watch::channel(Phase::Meanwhile);
    let caller = Caller { phase: phases, ..stack.caller.clone() };
    let round = async {
        let round = stack.round(planned).await;
        phase.send_replace(Phase::Over);
        round
    };
    let meanwhile = try_join(messages(stack, &caller), queries(&caller, tenants));
    let ((ended, samples), _) = try_join(round, meanwhile).await?;
    for (load, times) in &ended {
        if load.content == Content::Sound {
            stack.caller.tally.took(FINAL, &format!("{} items", load.items), times.seconds())?;
            stack.caller.tally.took(FINAL, load.way.name, times.seconds())?;
        } else {
            stack.caller.tally.took(FINAL, load.content.name(), times.seconds())?;
        }
    }
    stack.caller.tally.report(about, &COLUMNS).print();
    #[expect(clippy::print_stdout, reason = "the report")]
    {
        println!("\nBatches over time.\n\n{}\n{}", series(&samples), stack.caller.tally.answers());
    }
    Ok(())
}

fn catalogues(options: &Options, tenants: &[Tenant]) -> Result<Vec<Load>, Error> {
    let number = tenants.len() * usize::try_from(options.catalogues)?;
    let turns = tenants.iter().cycle().zip(WAYS.into_iter().cycle()).zip(PARTS.into_iter().cycle());
    let loads = turns.take(number).map(|((tenant, way), part)| {
        let items = (options.items / part).max(1);
        Load::new(tenant, way, Content::Sound, items, items.div_ceil(EACH))
    });
    loads.collect()
}

fn broken(options: &Options, tenant: &Tenant) -> Result<Vec<Load>, Error> {
    let mut loads = Vec::new();
    for content in Content::HOSTILE {
        for way in content.ways() {
            loads.push(Load::new(tenant, way, content, options.few(), 1)?);
        }
    }
    Ok(loads)
}

/// Puts messages and gets them again, at a low rate, until the peak is over.
async fn messages(stack: &Stack<'_>, caller: &Caller) -> Result<(), Error> {
    stack.queues.create(QUEUE).await?;
    let mut cycle = 0;
    while caller.goes_on() {
        cycle += 1;
        put_and_get(caller, QUEUE, cycle).await?;
        sleep(PAUSE).await;
    }
    stack.queues.expect(QUEUE, 0).await?;
    stack.queues.delete(QUEUE).await
}

/// Lists the newest batches of each tenant in turn and reads the newest one, until the peak is
/// over.
async fn queries(caller: &Caller, tenants: &[Tenant]) -> Result<(), Error> {
    for Tenant { api_key, .. } in tenants.iter().cycle().take_while(|_| caller.goes_on()) {
        let list = Call::get(format!("{BATCHES}?limit=20"), api_key);
        let list = caller.call("list of batches", &list, 200).await?.json();
        if let Some(batch_id) = list.pointer("/batches/0/batch_id").and_then(Value::as_str) {
            caller.call("batch", &Call::get(format!("{BATCHES}/{batch_id}"), api_key), 200).await?;
        }
        sleep(PAUSE).await;
    }
    Ok(())
}
