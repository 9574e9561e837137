//! Reports as tables in Markdown: medians of measured values, their spread, their ratios to those
//! of another row, and their goals.

use std::fmt::{self, Display, Formatter, Write as _};

/// Report of a benchmark: the measured values of all contenders, and the columns of their table.
#[derive(Debug)]
pub(crate) struct Report {
    about: String,
    columns: Vec<Column>,
    rows: Vec<Row>,
}

/// Values of one contender in one case, in one row of the table.
#[derive(Debug)]
struct Row {
    case: String,
    who: String,
    values: Vec<(&'static str, f64)>,
}

/// Column of a report's table. `figure` is the name under which its values are added.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    heading: &'static str,
    figure: &'static str,
    decimals: usize,
    shown: Shown,
    goals: &'static [(&'static str, Goal)],
}

#[derive(Clone, Copy, Debug)]
enum Shown {
    Median,
    Mean,
    Late,
    /// Difference between the largest and the smallest value, as a share of the median.
    Spread,
    /// Median of this other contender, as a multiple of the row's.
    Times(&'static str),
    /// Row's median, as a multiple of that of this other contender.
    Of(&'static str),
}

/// Goal for the values of a column: a lower or an upper bound.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Column {
    /// Creates a column with the median of a figure. Its heading is the figure's name.
    pub(crate) const fn median(figure: &'static str, decimals: usize) -> Self {
        Self::new(figure, figure, decimals, Shown::Median)
    }

    /// Creates a column with the mean of a counted figure. All decimals are shown, so that even one
    /// extra count is visible.
    pub(crate) const fn mean(figure: &'static str) -> Self {
        Self::new(figure, figure, 6, Shown::Mean)
    }

    /// Creates a column with the 95th percentile of a figure.
    pub(crate) const fn late(heading: &'static str, figure: &'static str, decimals: usize) -> Self {
        Self::new(heading, figure, decimals, Shown::Late)
    }

    /// Creates a column with the spread of a figure: the difference between the largest and the
    /// smallest value, as a share of the median.
    pub(crate) const fn spread(figure: &'static str) -> Self {
        Self::new("spread", figure, 0, Shown::Spread)
    }

    /// Creates a column with the figure of the contender `whose`, as a multiple of the row's in the
    /// same case.
    pub(crate) const fn times(heading: &'static str, figure: &'static str, whose: &'static str) -> Self {
        Self::new(heading, figure, 2, Shown::Times(whose))
    }

    /// Creates a column with the row's figure, as a multiple of that of the contender `whose` in
    /// the same case.
    pub(crate) const fn of(heading: &'static str, figure: &'static str, whose: &'static str) -> Self {
        Self::new(heading, figure, 2, Shown::Of(whose))
    }

    const fn new(heading: &'static str, figure: &'static str, decimals: usize, shown: Shown) -> Self {
        Self { heading, figure, decimals, shown, goals: &[] }
    }

    pub(crate) const fn decimals(mut self, decimals: usize) -> Self {
        self.decimals = decimals;
        self
    }

    /// Sets goals by the name of a row or a contender; `""` means every row with a value. The table
    /// shows the goals in a column of their own, and marks those that were missed.
    pub(crate) const fn goals(mut self, goals: &'static [(&'static str, Goal)]) -> Self {
        self.goals = goals;
        self
    }

    fn goal(&self, row: &Row, value: f64) -> String {
        let name = name(&row.case, &row.who);
        let is_of = |of: &str| of == name || of == row.who || (of.is_empty() && !value.is_nan());
        let goal = self.goals.iter().find(|(of, _)| is_of(of));
        goal.map(|(_, goal)| goal.judge(value)).unwrap_or_default()
    }

    /// Returns the contender that the column compares the others with; `None` if it compares none.
    const fn reference(&self) -> Option<&'static str> {
        match self.shown {
            Shown::Times(whose) | Shown::Of(whose) => Some(whose),
            _ => None,
        }
    }
}

impl Goal {
    /// Returns true if a value meets the goal. NaN never does.
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }

    /// Returns the goal as text, with `missed` if the value misses it.
    fn judge(self, value: f64) -> String {
        let text = match self {
            Self::AtLeast(least) => format!("≥ {least}"),
            Self::AtMost(most) => format!("≤ {most}"),
        };
        if self.is_met(value) { text } else { text + ", missed" }
    }
}

impl Report {
    pub(crate) fn new(about: impl Into<String>, columns: &[Column]) -> Self {
        Self { about: about.into(), columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds measured values to the row of a case and a contender. Rows are ordered by case and then
    /// by contender, each in the order in which they were first added.
    pub(crate) fn add(&mut self, case: &str, who: &str, values: &[(&'static str, f64)]) {
        let is_it = |row: &Row| row.case == case && row.who == who;
        if let Some(row) = self.rows.iter_mut().find(|row| is_it(row)) {
            row.values.extend(values);
        } else {
            let (case, who) = (case.to_owned(), who.to_owned());
            self.rows.push(Row { case, who, values: values.to_vec() });
        }
    }

    /// Adds measured values, and prints them to standard error as progress.
    #[expect(clippy::print_stderr, reason = "it takes minutes")]
    pub(crate) fn tell(&mut self, case: &str, who: &str, values: &[(&'static str, f64)]) {
        let shown: Vec<_> = values
            .iter()
            .filter_map(|(figure, value)| {
                let decimals = self.columns.iter().find(|column| column.figure == *figure)?.decimals;
                Some(format!("{value:.decimals$} {figure}"))
            })
            .collect();
        eprintln!("{:<50}  {}", name(case, who), shown.join(", "));
        self.add(case, who, values);
    }

    #[expect(clippy::print_stdout, reason = "the report")]
    pub(crate) fn print(&self) {
        println!("\n{self}");
    }

    pub(crate) fn median(&self, case: &str, who: &str, figure: &str) -> f64 {
        let row = self.rows.iter().find(|row| row.case == case && row.who == who);
        row.map_or(f64::NAN, |row| median(&row.values(figure)))
    }

    /// Returns the missed goals as text. A goal whose row has no value counts as missed.
    pub(crate) fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for column in &self.columns {
            for (of, goal) in column.goals {
                let row = self.rows.iter().find(|row| name(&row.case, &row.who) == *of);
                let value = row.map_or(f64::NAN, |row| self.value(row, column));
                if !goal.is_met(value) {
                    missed.push(format!("{of}, {}: {value:.2} ({})", column.heading, goal.judge(value)));
                }
            }
        }
        missed
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let mut cells = vec![name(&row.case, &row.who)];
        // What others are compared with is not compared itself.
        let is_reference = self.columns.iter().any(|column| column.reference() == Some(row.who.as_str()));
        for column in &self.columns {
            let value = match column.reference() {
                Some(_) if is_reference => f64::NAN,
                _ => self.value(row, column),
            };
            cells.push(number(value, column));
            if !column.goals.is_empty() {
                cells.push(column.goal(row, value));
            }
        }
        cells
    }

    fn value(&self, row: &Row, column: &Column) -> f64 {
        let values = row.values(column.figure);
        let other = |whose| self.median(&row.case, whose, column.figure);
        match column.shown {
            Shown::Median => median(&values),
            Shown::Mean => values.iter().sum::<f64>() / count(values.len()),
            Shown::Late => percentile(&values, 0.95),
            Shown::Spread => spread(&values) * 100.0,
            Shown::Times(whose) => other(whose) / median(&values),
            Shown::Of(whose) => median(&values) / other(whose),
        }
    }
}

impl Row {
    fn values(&self, figure: &str) -> Vec<f64> {
        self.values.iter().filter(|(name, _)| *name == figure).map(|(_, value)| *value).collect()
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut headings = vec![""];
        for column in &self.columns {
            headings.push(column.heading);
            headings.extend((!column.goals.is_empty()).then_some("goal"));
        }
        let first = |is_it: &dyn Fn(&Row) -> bool| self.rows.iter().position(is_it);
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by_key(|row| {
            (first(&|other| other.case == row.case), first(&|other| other.who == row.who))
        });
        let table = table(&headings, rows.into_iter().map(|row| self.cells(row)));
        write!(f, "{}\n{}.\n\n{table}", self.about, circumstances())
    }
}

fn name(case: &str, who: &str) -> String {
    [case, who].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn number(value: f64, column: &Column) -> String {
    let decimals = column.decimals;
    match column.shown {
        _ if value.is_nan() => String::new(),
        Shown::Spread => format!("{value:.0} %"),
        Shown::Mean => format!("{value:.decimals$}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        _ => format!("{value:.decimals$}"),
    }
}

/// Formats a Markdown table. All columns but the first are aligned for numbers.
pub(crate) fn table(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let numbers = "---:|".repeat(headings.len().saturating_sub(1));
    let mut text = format!("| {} |\n|---|{numbers}\n", headings.join(" | "));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// Returns the date, the number of cores and the processor's name, for the report.
fn circumstances() -> String {
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d");
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()))
        .unwrap_or("unknown processor");
    format!("{date}, {cpus} cores, {}, {model}", std::env::consts::ARCH)
}

fn median(values: &[f64]) -> f64 {
    let values = sorted(values);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { at(middle) } else { f64::midpoint(at(middle.wrapping_sub(1)), at(middle)) }
}

/// Returns the smallest of the values that this share of all values does not exceed, without
/// interpolation.
fn percentile(values: &[f64], share: f64) -> f64 {
    let values = sorted(values);
    let last = values.len().saturating_sub(1);
    let below = (0..last).filter(|rank| count(rank + 1) / count(values.len()) < share).count();
    values.get(below).copied().unwrap_or(f64::NAN)
}

/// Returns the difference between the largest and the smallest value, as a share of the median; NaN
/// for a single value.
fn spread(values: &[f64]) -> f64 {
    match sorted(values).as_slice() {
        [least, .., greatest] => (greatest - least) / median(values),
        _ => f64::NAN,
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// Converts a count to a floating-point number.
pub(crate) fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        for (values, expected) in
            [(vec![3.0], 3.0), (vec![9.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0, 2.0, 3.0], 2.5)]
        {
            assert!((median(&values) - expected).abs() < f64::EPSILON);
        }
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values = (1..=20).rev().map(f64::from).collect::<Vec<_>>();
        for (share, expected) in [(0.5, 10.0), (0.95, 19.0), (1.0, 20.0)] {
            assert!((percentile(&values, share) - expected).abs() < f64::EPSILON, "{share}");
        }
        assert!(percentile(&[], 0.5).is_nan());
    }

    #[test]
    fn others_are_compared_with_ours_and_held_to_their_goals() {
        const COLUMNS: [Column; 4] = [
            Column::median("rate", 0),
            Column::spread("rate"),
            Column::times("ours / it", "rate", "ours")
                .goals(&[("put, a", Goal::AtLeast(2.0)), ("get, a", Goal::AtMost(0.4))]),
            Column::mean("calls"),
        ];
        let mut report = Report::new("About.", &COLUMNS);
        report.add("put", "ours", &[("rate", 100.0)]);
        report.add("get", "ours", &[("rate", 50.0), ("calls", 1.0)]);
        for rate in [40.0, 60.0, 50.0] {
            report.add("put", "a", &[("rate", rate)]);
        }
        report.add("get", "a", &[("rate", 100.0), ("calls", 2.0)]);
        report.add("get", "a", &[("calls", 2.01)]);
        let text = report.to_string();
        assert!(text.starts_with("About.\n2"), "{text}");
        let table: Vec<_> = text.lines().skip(3).collect();
        assert_eq!(
            table,
            [
                "|  | rate | spread | ours / it | goal | calls |",
                "|---|---:|---:|---:|---:|---:|",
                "| put, ours | 100 |  |  |  |  |",
                "| put, a | 50 | 40 % | 2.00 | ≥ 2 |  |",
                "| get, ours | 50 |  |  |  | 1 |",
                "| get, a | 100 |  | 0.50 | ≤ 0.4, missed | 2.005 |",
            ]
        );
    }
}
