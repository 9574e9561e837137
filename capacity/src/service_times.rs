use serde::Deserialize;

/// Measured or documented times, sizes and rates of all steps, as in `service-times.toml`, which
/// also names the source of each figure.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServiceTimes {
    pub(crate) functions: Functions,
    pub(crate) database: Database,
    pub(crate) sizes: Sizes,
    pub(crate) waits: Waits,
    pub(crate) storage: Storage,
    pub(crate) queues: Queues,
    pub(crate) local: Local,
}

/// Figure per row for each kind of row: new, changed, and unchanged.
pub(crate) type ByChange = [f64; 3];

/// Declares the type of a table in `service-times.toml`. The fields before the `;` are single
/// numbers, those after it are [`ByChange`].
macro_rules! table {
    ($name:ident: $($field:ident)* $(; $($by_change:ident)*)?) => {
        #[derive(Clone, Copy, Debug, Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        pub(crate) struct $name {
            $(pub(crate) $field: f64,)*
            $($(pub(crate) $by_change: ByChange,)*)?
        }
    };
}

table! { Functions:
    accept_ms accept_us_per_item cut_us_per_item cut_parallel object_ms finalize_us_per_row arm64_speed;
    write_us_per_row
}
table! { Database: finalize_us_per_row seal_ms speed; us_per_row log_bytes_per_row }
table! { Sizes: decoded gzip chunk row history log }
table! { Waits:
    object_get object_put table_write queue_send dispatch notification round_trip round_trips commit cold_start
    between_invocations gateway_request
}
table! { Storage: page_read_ms page_reads_per_second log_megabytes_per_second cache_share }
table! { Queues: order_window share_seconds quiet_after }
table! { Local: invocation_ms poll_ms }

impl Storage {
    /// Returns the pages per second that the database can read from its storage, and the bytes per
    /// second of write-ahead log that it can write. With `is_serverless` (Aurora), both limits are
    /// infinite, because Aurora documents none.
    pub(crate) fn limits(self, is_serverless: bool) -> (f64, f64) {
        if is_serverless {
            (f64::INFINITY, f64::INFINITY)
        } else {
            (self.page_reads_per_second, self.log_megabytes_per_second * 1e6)
        }
    }
}
