//! The table.

use std::fmt::Write as _;

use super::measure::{Cost, Measured, Pair};
use crate::report::{machine, median, percentile};

pub(super) fn table(measured: &[Measured], requests: u32) -> String {
    let mut text = format!(
        "{requests} requests of each kind and size; medians, and in parentheses the 95th percentile.\n{}, {}.\n\n\
         | | 202s a second | eight at once | puts alone | ms to a 202 | ms of a put alone | added, ms | CPU ms of a 202 | of that beyond the put |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
    );
    for one in measured {
        let accepts: f64 = one.pairs.iter().map(|pair| pair.accept.seconds).sum();
        let values = |value: &dyn Fn(&Pair) -> f64| one.pairs.iter().map(value).collect::<Vec<_>>();
        let both = |of: fn(&Pair) -> Cost| {
            let mut seconds = values(&|pair| of(pair).seconds * 1e3);
            let late = percentile(seconds.clone(), 0.95);
            format!("{:.1} ({late:.1})", median(&mut seconds))
        };
        let added = median(&mut values(&|pair| (pair.accept.seconds - pair.put.seconds) * 1e3));
        let cpu = median(&mut values(&|pair| pair.accept.cpu_seconds * 1e3));
        let beyond = median(&mut values(&|pair| (pair.accept.cpu_seconds - pair.put.cpu_seconds) * 1e3));
        let requests = f64::from(requests);
        let _ = writeln!(
            text,
            "| {} items, {:.0} KB of gzip | {:.0} | {:.0} | {:.0} | {} | {} | {added:.1} | {cpu:.2} | {beyond:.2} |",
            one.items,
            f64::from(one.bytes) / 1e3,
            requests / accepts,
            requests / one.accepts_at_once,
            requests / one.puts_at_once,
            both(|pair| pair.accept),
            both(|pair| pair.put),
        );
    }
    text
}
