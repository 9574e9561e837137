//! Rate limits of a tenant as a list, in which each one is for one subject and one unit.

use std::collections::BTreeMap;

use access::{LimitsItem, Rate};

/// Rate limit on requests, messages or bytes, for a tenant, one of its targets or a queue manager.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SingleLimit<'a> {
    /// Subject of the limit: `tenant`, `target` or `queueManager`.
    pub(crate) about: &'static str,
    /// Name of the target profile or queue manager; empty if the limit is for the tenant.
    pub(crate) name: &'a str,
    /// Unit of the limit: `requests`, `messages` or `bytes`.
    pub(crate) unit: &'static str,
    /// Rate of the limit, printed in the form that the command line accepts.
    pub(crate) rate: Rate,
}

impl SingleLimit<'_> {
    /// Returns the limit's subject for people, as in "target `orders`"; empty for the tenant.
    pub(super) fn place(&self) -> String {
        match self.about {
            "target" => format!("target `{}`", self.name),
            "queueManager" => format!("queue manager `{}`", self.name),
            _ => String::new(),
        }
    }

    /// Returns the limit's subject and unit for people, as in "target `orders` messages".
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.place(), self.unit).trim_start().to_owned()
    }
}

/// Returns the rate limits of a tenant as a list: those of the tenant as a whole, of its targets
/// and of its queue managers.
pub(crate) fn each(item: &LimitsItem) -> Vec<SingleLimit<'_>> {
    let own =
        item.requests.iter().map(|&rate| SingleLimit { about: "tenant", name: "", unit: "requests", rate });
    let mut all: Vec<SingleLimit<'_>> = own.collect();
    for (about, targets) in [("target", &item.targets), ("queueManager", &item.queue_managers)] {
        for (name, limits) in targets {
            let units =
                [("requests", limits.requests), ("messages", limits.messages), ("bytes", limits.bytes)];
            let rates = units.into_iter().filter_map(|(unit, rate)| Some((unit, rate?)));
            all.extend(rates.map(|(unit, rate)| SingleLimit { about, name, unit, rate }));
        }
    }
    all
}

/// Returns the rates of a tenant's limits as text, by subject and unit, so that two versions can be
/// compared.
pub(crate) fn values_as_text(item: &LimitsItem) -> BTreeMap<String, String> {
    each(item).iter().map(|one| (one.title(), one.rate.to_string())).collect()
}
