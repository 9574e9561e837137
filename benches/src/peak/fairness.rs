//! Time that quiet tenants' small catalogues take, alone and during another tenant's flood.

use std::time::Duration;

use super::Stack;
use super::load::{Content, FILE, GZIP, Load, UPLOAD, Way};
use super::round::spread;
use super::tenant::Tenant;
use crate::error::Error;
use crate::report::{Column, Goal};
use crate::tally::{NUMBER, P50, P95, Tally};

const ALONE: &str = "alone";
const CHAIN: &str = "beside a chain's flood";
const DISTRIBUTOR: &str = "beside a distributor's flood";
const WHOLESALER: &str = "beside a wholesaler's flood";
const AT_ONCE: &str = "beside a chain's flood at once";
/// Number of establishments in each chunk of a chain's flood.
const OF_A_CHAIN: u32 = 4;
/// Floods that leave half of the machine free, with the number of establishments in each of their
/// chunks. A chunk with more than 32 establishments has to take one of six gates, which are locks
/// in PostgreSQL; a chunk with more than 128 takes the last gate, of which there is only one.
const FLOODS: [(&str, u32); 3] = [(CHAIN, OF_A_CHAIN), (DISTRIBUTOR, 64), (WHOLESALER, 200)];
/// Maximum number of a flood's catalogues that are sent at once to measure how fast the machine
/// loads them.
const TRIAL: usize = 40;
/// Ways into the ingest that the quiet catalogues take in turn, with their number of
/// establishments. A chunk with 64 establishments has to take a gate, as those of a distributor's
/// flood do.
const QUIET: [(Way, u32); 3] = [(GZIP, 1), (FILE, 1), (UPLOAD, 64)];
const TWICE: Goal = Goal::AtMost(2.0);

const COLUMNS: [Column; 5] = [
    Column::mean(NUMBER),
    Column::median(P50, 2),
    Column::median(P95, 2),
    Column::of("p50, beside / alone", P50, ALONE),
    Column::of("p95, beside / alone", P95, ALONE).goals(&[
        (CHAIN, TWICE),
        (DISTRIBUTOR, TWICE),
        (WHOLESALER, TWICE),
    ]),
];

/// Schedule of a measurement: the time within which the flood is sent, and the start and length of
/// the time within which the quiet catalogues are sent.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    flood_within: Duration,
    quiet_from: Duration,
    quiet_within: Duration,
}

struct Fairness<'a> {
    stack: &'a Stack<'a>,
    quiet: &'a [Tenant],
    flooding: &'a Tenant,
    /// Number of catalogues that all quiet tenants send together.
    number: usize,
    /// Number of items in all catalogues of a flood together.
    items: u32,
    /// Number of items in one catalogue of a flood.
    each: u32,
    tally: Tally,
}

/// Measures quiet tenants alone, beside floods that leave half of the machine free, and beside a
/// flood that is sent at once. Lambda runs each invocation on a CPU of its own. On one machine, a
/// flood that uses every CPU delays the others by that alone, whatever the queues do.
pub(super) async fn measure(stack: &Stack<'_>, tenants: &[Tenant], flooding: &Tenant) -> Result<(), Error> {
    let (window, few) = (stack.options.window(), stack.options.few());
    let number = tenants.len() * usize::try_from(stack.options.catalogues)?;
    let items = u32::try_from(number)?.saturating_mul(few).saturating_mul(stack.options.flood);
    // So many catalogues that their notifications are a flood as well.
    let each = (stack.options.items / 10).max(1);
    let tally = Tally::default();
    let fairness = Fairness { stack, quiet: tenants, flooding, number, items, each, tally };
    let alone = Schedule { flood_within: window, quiet_from: Duration::ZERO, quiet_within: window };
    fairness.beside(ALONE, Vec::new(), alone).await?;
    let mut paces = Vec::new();
    for (who, establishments) in FLOODS {
        let flood = fairness.flood(establishments, usize::MAX)?;
        // At half of the pace that leaves nothing free.
        let within = 2 * fairness.takes(establishments).await? * u32::try_from(flood.len())?;
        paces.push(format!("{who} {:.0} s", within.as_secs_f64()));
        let schedule =
            Schedule { flood_within: within, quiet_from: within / 10, quiet_within: within.mul_f64(0.8) };
        fairness.beside(who, flood, schedule).await?;
    }
    // Its work is in the queues before theirs.
    let at_once = Schedule { flood_within: window / 2, quiet_from: window / 2, quiet_within: window };
    fairness.beside(AT_ONCE, fairness.flood(OF_A_CHAIN, usize::MAX)?, at_once).await?;
    let about = format!(
        "{number} catalogues of {few} items, alone within {} s and beside floods of {items} items, from \
         receipt to end: those that were received before the flood was final. Floods last as long as \
         leaves half of the machine free: {}. The one at once is sent within {} s.",
        window.as_secs(),
        paces.join(", "),
        (window / 2).as_secs(),
    );
    fairness.tally.report(about, &COLUMNS).print();
    Ok(())
}

impl Fairness<'_> {
    /// Creates the catalogues of a flood, at most `most` of them.
    fn flood(&self, establishments: u32, most: usize) -> Result<Vec<Load>, Error> {
        let numbers = (0..self.items.div_ceil(self.each)).take(most);
        numbers.map(|_| Load::new(self.flooding, GZIP, Content::Sound, self.each, establishments)).collect()
    }

    /// Measures the average time in which the machine loads one catalogue of a flood, if it does
    /// nothing else.
    async fn takes(&self, establishments: u32) -> Result<Duration, Error> {
        let trial = self.flood(establishments, TRIAL)?;
        let number = u32::try_from(trial.len())?.max(1);
        let (ended, _) = self.stack.round(spread(trial, Duration::ZERO, Duration::ZERO)?).await?;
        let first = ended.iter().map(|(_, times)| times.received_at).min();
        let last = ended.iter().map(|(_, times)| times.finished_at).max();
        let took = first.zip(last).map(|(first, last)| last.duration_since(first).unsigned_abs());
        Ok(took.unwrap_or_default() / number)
    }

    /// Sends the quiet catalogues beside a flood, and records the times of those that were received
    /// before the whole flood was loaded.
    async fn beside(&self, who: &'static str, flood: Vec<Load>, schedule: Schedule) -> Result<(), Error> {
        let few = self.stack.options.few();
        let quiet = self.quiet.iter().cycle().zip(QUIET.into_iter().cycle()).take(self.number);
        let quiet = quiet.map(|(tenant, (way, establishments))| {
            Load::new(tenant, way, Content::Sound, few, establishments)
        });
        let quiet = quiet.collect::<Result<_, _>>()?;
        let mut planned = spread(flood, Duration::ZERO, schedule.flood_within)?;
        planned.extend(spread(quiet, schedule.quiet_from, schedule.quiet_within)?);
        let (ended, _) = self.stack.round(planned).await?;
        let is_flood = |load: &Load| load.tenant.id == self.flooding.id;
        let flood = ended.iter().filter(|(load, _)| is_flood(load));
        let end = flood.map(|(_, times)| times.finished_at).max();
        for (_, times) in ended.iter().filter(|(load, _)| !is_flood(load)) {
            if end.is_none_or(|end| times.received_at < end) {
                self.tally.took("", who, times.seconds())?;
            }
        }
        Ok(())
    }
}
