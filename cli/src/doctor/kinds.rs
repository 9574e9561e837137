//! Kinds of checks. `docs/doctor.md` has the table, which a test compares.

use super::report::{Group, Kind};

pub(crate) const CREDENTIALS: Kind = Kind {
    id: "account.credentials",
    group: Group::Account,
    title: "AWS credentials and region",
    docs: "docs/cli.md",
};
pub(crate) const CONCURRENCY: Kind = Kind {
    id: "account.concurrency",
    group: Group::Account,
    title: "Concurrent executions of the account",
    docs: "docs/network.md",
};
pub(crate) const STATE: Kind =
    Kind { id: "stack.state", group: Group::Stack, title: "State of the stack", docs: "docs/upgrade.md" };
pub(crate) const OUTPUTS: Kind =
    Kind { id: "stack.outputs", group: Group::Stack, title: "Outputs of the stack", docs: "docs/deploy.md" };
pub(crate) const VERSION: Kind =
    Kind { id: "stack.version", group: Group::Stack, title: "Version of the API", docs: "docs/upgrade.md" };
pub(crate) const READY: Kind = Kind {
    id: "stack.ready",
    group: Group::Stack,
    title: "Stores and functions behind the API",
    docs: "docs/operate.md",
};
pub(crate) const SUBNETS: Kind = Kind {
    id: "network.subnets",
    group: Group::Network,
    title: "Subnets and security groups of the functions",
    docs: "docs/network.md",
};
pub(crate) const DNS: Kind =
    Kind { id: "network.dns", group: Group::Network, title: "Private names", docs: "docs/database.md" };
pub(crate) const ROUTES: Kind = Kind {
    id: "network.routes",
    group: Group::Network,
    title: "Ways to S3 and DynamoDB",
    docs: "docs/network.md",
};
pub(crate) const ENDPOINTS: Kind = Kind {
    id: "network.endpoints",
    group: Group::Network,
    title: "Ways to the other services of AWS",
    docs: "docs/network.md",
};
pub(crate) const EGRESS: Kind = Kind {
    id: "network.egress",
    group: Group::Network,
    title: "Security groups of the functions",
    docs: "docs/network.md",
};
pub(crate) const OF_DEPLOYMENT: Kind = Kind {
    id: "secrets.deployment",
    group: Group::Secrets,
    title: "Secrets that parameters name",
    docs: "docs/database.md",
};
pub(crate) const OF_PROFILES: Kind = Kind {
    id: "secrets.profiles",
    group: Group::Secrets,
    title: "Secrets that target profiles name",
    docs: "docs/access.md",
};
pub(crate) const DATABASE: Kind = Kind {
    id: "database.answers",
    group: Group::Database,
    title: "The database, asked from its network",
    docs: "docs/database.md",
};
pub(crate) const PROFILE: Kind = Kind {
    id: "broker.profile",
    group: Group::Broker,
    title: "A target profile's broker, asked from its network",
    docs: "docs/access.md",
};
pub(crate) const IN_ALARM: Kind =
    Kind { id: "alarms.state", group: Group::Alarms, title: "Alarms", docs: "docs/runbook.md" };
pub(crate) const ALARM_TOPIC: Kind =
    Kind { id: "topics.alarms", group: Group::Topics, title: "Topic of the alarms", docs: "docs/operate.md" };
pub(crate) const EVENT_TOPIC: Kind =
    Kind { id: "topics.events", group: Group::Topics, title: "Topic of events", docs: "docs/events.md" };

/// All kinds, in the order in which they are checked.
pub(crate) const ALL: [Kind; 18] = [
    CREDENTIALS,
    CONCURRENCY,
    STATE,
    OUTPUTS,
    VERSION,
    READY,
    SUBNETS,
    DNS,
    ROUTES,
    ENDPOINTS,
    EGRESS,
    OF_DEPLOYMENT,
    OF_PROFILES,
    DATABASE,
    PROFILE,
    IN_ALARM,
    ALARM_TOPIC,
    EVENT_TOPIC,
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_page_has_every_kind_and_no_other() {
        let page = include_str!("../../../docs/doctor.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let ids = rows.map(|(id, _)| id).filter(|id| id.contains('.'));
        assert_eq!(ids.collect::<Vec<_>>(), ALL.map(|kind| kind.id));
    }

    #[test]
    fn the_pages_that_explain_them_exist() {
        for kind in ALL {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(kind.docs);
            assert!(path.is_file(), "{}", kind.docs);
            let group = serde_json::to_value(kind.group).unwrap();
            assert!(kind.id.starts_with(group.as_str().unwrap()), "{}", kind.id);
        }
    }
}
