//! The table.

use std::fmt::Write as _;

use super::measure::Load;
use super::{Options, Transport};
use crate::report::{machine, median, percentile};

pub(super) fn table(loads: &[(Transport, Load)], options: &Options) -> String {
    let mut text = format!(
        "{} catalogues of {} items at once, to new stacks in turn; medians of the rounds, and of all catalogues.\n\
         {}, {}.\n\n\
         | chunks over | rounds | rows/s | s to the end of all | s of a catalogue | 95 % within, s | one of 2000 items alone, s |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
        options.catalogues,
        options.items,
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
    );
    for transport in [Transport::Sqs, Transport::Kafka] {
        let of = || loads.iter().filter(|(of, _)| *of == transport).map(|(_, load)| load);
        let rounds = of().count();
        if rounds == 0 {
            continue;
        }
        let whole = median(&mut of().map(|load| load.whole).collect::<Vec<_>>());
        let mut each: Vec<_> = of().flat_map(|load| load.each.iter().copied()).collect();
        let late = percentile(each.clone(), 0.95);
        let _ = writeln!(
            text,
            "| {transport:?} | {rounds} | {:.0} | {whole:.1} | {:.1} | {late:.1} | {:.2} |",
            f64::from(options.catalogues) * f64::from(options.items) / whole,
            median(&mut each),
            median(&mut of().map(|load| load.alone).collect::<Vec<_>>()),
        );
    }
    text
}
