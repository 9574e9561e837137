use std::str::FromStr;

use crate::limits::MOST_ACUS;

/// vCPUs of an ACU, which has 2 GiB (Amazon Aurora User Guide): as those of an r class, which has 8
/// GiB a vCPU.
const VCPUS_OF_ACU: f64 = 0.25;
const GIB_OF_VCPU: f64 = 8.0;
const BYTES_OF_GIB: f64 = 1_073_741_824.0;

/// Size of a database. More than the largest one stands for several, over which the pharmacies are
/// spread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DatabaseSize {
    pub(crate) vcpus: f64,
    /// True of Aurora Serverless v2, false of an instance of RDS for PostgreSQL.
    pub(crate) is_serverless: bool,
}

impl DatabaseSize {
    /// Memory between peaks. Aurora Serverless v2 gives it back as it scales down.
    pub(crate) fn kept_memory_bytes(&self) -> f64 {
        let vcpus = if self.is_serverless { self.idle_acus() * VCPUS_OF_ACU } else { self.vcpus };
        vcpus * GIB_OF_VCPU * BYTES_OF_GIB
    }

    /// ACUs between peaks (`DatabaseMinCapacity`).
    pub(crate) fn idle_acus(&self) -> f64 {
        0.5 * self.count()
    }

    pub(crate) fn acus(&self) -> f64 {
        self.vcpus / VCPUS_OF_ACU
    }

    /// Number of databases that it takes.
    pub(crate) fn count(&self) -> f64 {
        (self.acus() / MOST_ACUS).ceil()
    }
}

impl FromStr for DatabaseSize {
    type Err = &'static str;

    /// Reads `8acu`, `2` for vCPUs of Aurora, or an instance of an r class as `db.r7g.xlarge`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let instance = text.strip_prefix("db.r").and_then(|name| name.split_once('.'));
        let vcpus = match (instance, text.strip_suffix("acu")) {
            (Some((_, "large")), _) => Some(2.0),
            (Some((_, "xlarge")), _) => Some(4.0),
            (Some((_, size)), _) => {
                size.strip_suffix("xlarge").and_then(|times| times.parse().ok()).map(|times: f64| 4.0 * times)
            }
            (None, Some(acus)) => acus.parse().ok().map(|acus: f64| acus * VCPUS_OF_ACU),
            (None, None) => text.parse().ok(),
        };
        match vcpus {
            Some(vcpus) if (0.125..=10_000.0).contains(&vcpus) => {
                Ok(Self { vcpus, is_serverless: instance.is_none() })
            }
            _ => Err("must be like `8acu`, `2` for vCPUs, or `db.r7g.xlarge`"),
        }
    }
}
