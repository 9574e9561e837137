use std::str::FromStr;

use crate::limits::MOST_ACUS;

/// Number of vCPUs of an ACU, Aurora's unit of capacity. An ACU has 2 GiB of memory (Amazon Aurora
/// User Guide), and is assumed to have the ratio of the r instance classes: 8 GiB for each vCPU.
const VCPUS_OF_ACU: f64 = 0.25;
const GIB_OF_VCPU: f64 = 8.0;
const BYTES_OF_GIB: f64 = 1_073_741_824.0;

/// Size and kind of the database. A size above the largest Aurora database stands for several
/// databases, over which the pharmacies are spread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DatabaseSize {
    pub(crate) vcpus: f64,
    /// True for Aurora Serverless v2, false for an instance of RDS for PostgreSQL.
    pub(crate) is_serverless: bool,
}

impl DatabaseSize {
    /// Returns the memory in bytes that the database has between peaks. Aurora Serverless v2 gives
    /// up memory when it scales down; an RDS instance keeps it.
    pub(crate) fn kept_memory_bytes(&self) -> f64 {
        let vcpus = if self.is_serverless { self.idle_acus() * VCPUS_OF_ACU } else { self.vcpus };
        vcpus * GIB_OF_VCPU * BYTES_OF_GIB
    }

    /// Returns the capacity in ACUs that the databases have between peaks: 0.5 for each, as with
    /// the template's `DatabaseMinCapacity`.
    pub(crate) fn idle_acus(&self) -> f64 {
        0.5 * self.count()
    }

    pub(crate) fn acus(&self) -> f64 {
        self.vcpus / VCPUS_OF_ACU
    }

    /// Returns the number of Aurora databases that this size stands for, each of at most 256 ACUs.
    pub(crate) fn count(&self) -> f64 {
        (self.acus() / MOST_ACUS).ceil()
    }
}

impl FromStr for DatabaseSize {
    type Err = &'static str;

    /// Parses `8acu` or a number of vCPUs such as `2` (both Aurora Serverless v2), or the name of
    /// an RDS instance of an r class, such as `db.r7g.xlarge`.
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
