//! Command-line arguments of `integrahub usage`.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use jiff::civil::Date;

use super::choice::choices;

/// Arguments of `integrahub usage`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "Examples:\n  \
integrahub usage\n  \
integrahub usage --from 2026-10-01 --to 2026-10-31 --group month\n  \
integrahub usage --csv > usage.csv\n\n\
Without dates, it is this month until today. Days are those of UTC. A key with the scope ops:read \
sees all tenants, any other its own.")]
pub(crate) struct Usage {
    /// First day to show; by default the first day of the month that --to is in
    #[arg(long, value_name = "DAY")]
    pub(crate) from: Option<Date>,
    /// Last day to show; by default today
    #[arg(long, value_name = "DAY")]
    pub(crate) to: Option<Date>,
    /// Sum by day or by month; by default by day
    #[arg(long, value_enum)]
    pub(crate) group: Option<Period>,
    /// Only the usage of the tenant with this id
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) tenant: Option<String>,
    /// Print the usage as CSV, as the API returns it
    #[arg(long)]
    pub(crate) csv: bool,
}

choices! {
    /// Period over which usage is summed up.
    Period {
        /// Sums of each day.
        Day = "day",
        /// Sums of each month.
        Month = "month",
    }
}
