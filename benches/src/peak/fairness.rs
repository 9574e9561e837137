//! Quiet tenants' small catalogues, alone and beside another tenant's flood.

use std::time::Duration;

use super::Stack;
use super::load::{Content, FILE, GZIP, Load, UPLOAD, Way};
use super::round::spread;
use super::tally::{NUMBER, P50, P95, Tally};
use super::tenant::Tenant;
use crate::error::Error;
use crate::report::{Column, Goal};

const ALONE: &str = "alone";
const CHAIN: &str = "beside a chain's flood";
const DISTRIBUTOR: &str = "beside a distributor's flood";
const WHOLESALER: &str = "beside a wholesaler's flood";
/// Floods, with the establishments that each chunk of them has. A chunk of more than 32 waits at
/// one of six gates, one of more than 128 at the last gate, which all of them pass one by one.
const FLOODS: [(&str, Option<u32>); 4] =
    [(ALONE, None), (CHAIN, Some(4)), (DISTRIBUTOR, Some(64)), (WHOLESALER, Some(200))];
/// Ways in of the quiet catalogues in turn, and their establishments: those with many pass a gate.
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

pub(super) async fn measure(stack: &Stack<'_>, tenants: &[Tenant], flooding: &Tenant) -> Result<(), Error> {
    let (window, few) = (stack.options.window(), stack.options.few());
    let number = tenants.len() * usize::try_from(stack.options.catalogues)?;
    let items = u32::try_from(number)?.saturating_mul(few).saturating_mul(stack.options.flood);
    let about = format!(
        "{number} catalogues of {few} items within {} s, alone and beside floods of {items} items, from \
         receipt to end: those that were received before the flood was final.",
        window.as_secs(),
    );
    // So many catalogues that their notifications are a flood as well.
    let each = (stack.options.items / 10).max(1);
    let tally = Tally::default();
    for (who, establishments) in FLOODS {
        let mut flood = Vec::new();
        if let Some(establishments) = establishments {
            for _ in 0..items.div_ceil(each) {
                flood.push(Load::new(flooding, GZIP, Content::Sound, each, establishments)?);
            }
        }
        let quiet = tenants.iter().cycle().zip(QUIET.into_iter().cycle()).take(number);
        let quiet = quiet.map(|(tenant, (way, establishments))| {
            Load::new(tenant, way, Content::Sound, few, establishments)
        });
        let quiet = quiet.collect::<Result<_, _>>()?;
        // The flood begins first, so that its work is in the queues before theirs.
        let mut planned = spread(flood, Duration::ZERO, window / 2)?;
        planned.extend(spread(quiet, window / 2, window)?);
        let (ended, _) = stack.round(planned).await?;
        let is_flood = |load: &Load| load.tenant.id == flooding.id;
        let flood = ended.iter().filter(|(load, _)| is_flood(load));
        let end = flood.map(|(_, times)| times.finished_at).max();
        for (_, times) in ended.iter().filter(|(load, _)| !is_flood(load)) {
            if end.is_none_or(|end| times.received_at < end) {
                tally.took("", who, times.seconds())?;
            }
        }
    }
    tally.report(about, &COLUMNS).print();
    Ok(())
}
