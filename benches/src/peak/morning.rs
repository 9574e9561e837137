//! All tenants' catalogues within a window, of many sizes and by every way in.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::try_join;

use super::backlog::series;
use super::load::{Content, Load, WAYS};
use super::round::spread;
use super::tally::{LONGEST, NUMBER, P50, P95, P99};
use super::tenant::Tenant;
use super::{Options, Stack};
use crate::error::Error;
use crate::report::Column;

/// Sizes in turn, as parts of the largest one. Their number and that of the ways have no divisor in
/// common, so every size takes every way.
const PARTS: [u32; 7] = [100, 10, 100, 1, 100, 10, 100];
/// Most items of an establishment, about.
const EACH: u32 = 2000;

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
    let over = AtomicBool::new(false);
    let round = async {
        let round = stack.round(planned).await;
        over.store(true, Ordering::Relaxed);
        round
    };
    let ((ended, samples), ()) = try_join(round, stack.meanwhile(&over, tenants)).await?;
    for (load, times) in &ended {
        if load.content == Content::Sound {
            stack.tally.took(FINAL, &format!("{} items", load.items), times.seconds())?;
            stack.tally.took(FINAL, load.way.name, times.seconds())?;
        } else {
            stack.tally.took(FINAL, load.content.name(), times.seconds())?;
        }
    }
    stack.tally.report(about, &COLUMNS).print();
    #[expect(clippy::print_stdout, reason = "the report")]
    {
        println!("\nBatches over time.\n\n{}\n{}", series(&samples), stack.tally.answers());
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
