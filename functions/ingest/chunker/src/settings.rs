use std::str::FromStr;

use ingestion::chunk::{ChunkItems, InvalidPlan, Plan};
use jiff::tz::TimeZone;
use runtime::Environment;

use crate::Bounds;

/// Time zone of dates without a UTC offset in payloads: that of the senders' clocks.
const ZONE: &str = "America/Sao_Paulo";

/// Settings of the chunker that the deployment chooses.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Plan for cutting new batches: the maximum number of products in a chunk. A batch that was
    /// begun with another plan keeps that plan.
    pub plan: Plan,
    /// Maximum number of bytes of a payload's decoded content.
    pub max_payload_bytes: u64,
    /// Upper limits of a payload besides its size.
    pub bounds: Bounds,
    /// Time zone of dates without a UTC offset in payloads.
    pub zone: TimeZone,
}

impl Settings {
    /// Reads the variables `CHUNK_ITEMS` (500 to 2000), `MAX_PAYLOAD_BYTES`, `MAX_CNPJS` and
    /// `LISTED_ITEM_ERRORS`, all optional.
    pub fn read<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> Self {
        let Items(items) = environment.optional("CHUNK_ITEMS", Items(ChunkItems::default()));
        let usual = Bounds::default();
        // UTC stands in for a zone that this program does not know, with which it does not start.
        let zone = TimeZone::get(ZONE).unwrap_or_else(|error| {
            environment.refuse(format!("{ZONE}: {error}"));
            TimeZone::UTC
        });
        Self {
            plan: Plan { items, ..Plan::default() },
            max_payload_bytes: environment.optional("MAX_PAYLOAD_BYTES", 200_000_000),
            bounds: Bounds {
                cnpjs: environment.optional("MAX_CNPJS", usual.cnpjs),
                listed_errors: environment.optional("LISTED_ITEM_ERRORS", usual.listed_errors),
                ..usual
            },
            zone,
        }
    }
}

struct Items(ChunkItems);

impl FromStr for Items {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let items: u16 = text.parse().map_err(|error: std::num::ParseIntError| error.to_string())?;
        ChunkItems::try_from(items).map(Self).map_err(|error: InvalidPlan| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_wrong_is_reported_together() {
        let mut environment = Environment::of(|name| match name {
            "CHUNK_ITEMS" => Some("20".to_owned()),
            "MAX_CNPJS" => Some("many".to_owned()),
            _ => None,
        });
        let settings = Settings::read(&mut environment);
        assert_eq!(settings.max_payload_bytes, 200_000_000);
        let wrong = environment.check().unwrap_err().to_string();
        assert!(wrong.contains("CHUNK_ITEMS: a chunk has 500") && wrong.contains("MAX_CNPJS"), "{wrong}");
    }

    #[test]
    fn the_time_zone_is_known_wherever_the_function_runs() {
        let mut environment = Environment::of(|_| None);
        assert_eq!(Settings::read(&mut environment).zone.iana_name(), Some(ZONE));
        environment.check().unwrap();
    }
}
