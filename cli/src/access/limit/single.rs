//! The single limits of an item, each of one unit.

use std::collections::BTreeMap;

use access::{LimitsItem, Rate};

/// Rate limit on requests, messages or bytes, for a tenant, a target or a queue manager.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct One<'a> {
    /// Subject of the limit: `tenant`, `target` or `queueManager`.
    pub(crate) about: &'static str,
    /// Name of the limit's subject; empty for the tenant.
    pub(crate) name: &'a str,
    /// Unit of the limit: `requests`, `messages` or `bytes`.
    pub(crate) unit: &'static str,
    /// Rate of the limit, printed in the form that the command line accepts.
    pub(crate) rate: Rate,
}

impl One<'_> {
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

/// Returns each single limit of an item: the tenant's own, and those of its targets and queue
/// managers.
pub(crate) fn each(item: &LimitsItem) -> Vec<One<'_>> {
    let own = item.requests.iter().map(|&rate| One { about: "tenant", name: "", unit: "requests", rate });
    let mut all: Vec<One<'_>> = own.collect();
    for (about, targets) in [("target", &item.targets), ("queueManager", &item.queue_managers)] {
        for (name, limits) in targets {
            let units =
                [("requests", limits.requests), ("messages", limits.messages), ("bytes", limits.bytes)];
            let rates = units.into_iter().filter_map(|(unit, rate)| Some((unit, rate?)));
            all.extend(rates.map(|(unit, rate)| One { about, name, unit, rate }));
        }
    }
    all
}

/// Returns the rates of an item by subject and unit, so that two items can be compared.
pub(crate) fn facts(item: &LimitsItem) -> BTreeMap<String, String> {
    each(item).iter().map(|one| (one.title(), one.rate.to_string())).collect()
}
