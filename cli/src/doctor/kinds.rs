//! Kinds of checks that `doctor` makes. A test compares them with the table in `docs/doctor.md`.

use super::report::{Group, Kind};

/// Declares a constant for each kind of check, and lists all kinds in the order of the checks.
macro_rules! kinds {
    ($($name:ident: $id:literal, $group:ident, $title:literal, $docs:literal;)+) => {
        $(
            pub(crate) const $name: Kind =
                Kind { id: $id, group: Group::$group, title: $title, docs: $docs };
        )+

        /// All kinds of checks, in the order in which `doctor` makes them.
        pub(crate) const ALL: &[Kind] = &[$($name),+];
    };
}

kinds! {
    CREDENTIALS: "account.credentials", Account, "AWS credentials and region", "docs/cli.md";
    CONCURRENCY: "account.concurrency", Account, "Concurrent executions of the account", "docs/network.md";
    STATE: "stack.state", Stack, "State of the stack", "docs/upgrade.md";
    OUTPUTS: "stack.outputs", Stack, "Outputs of the stack", "docs/deploy.md";
    VERSION: "stack.version", Stack, "Version of the API", "docs/upgrade.md";
    READY: "stack.ready", Stack, "Stores and functions behind the API", "docs/operate.md";
    SUBNETS: "network.subnets", Network, "Subnets and security groups of the functions", "docs/network.md";
    DNS: "network.dns", Network, "Private names", "docs/database.md";
    ROUTES: "network.routes", Network, "Ways to S3 and DynamoDB", "docs/network.md";
    ENDPOINTS: "network.endpoints", Network, "Ways to the other services of AWS", "docs/network.md";
    EGRESS: "network.egress", Network, "Security groups of the functions", "docs/network.md";
    OF_DEPLOYMENT: "secrets.deployment", Secrets, "Secrets that parameters name", "docs/database.md";
    OF_PROFILES: "secrets.profiles", Secrets, "Secrets that target profiles name", "docs/access.md";
    DATABASE: "database.answers", Database, "The database, asked from its network", "docs/database.md";
    PROFILE: "broker.profile", Broker, "A target profile's broker, asked from its network", "docs/access.md";
    IN_ALARM: "alarms.state", Alarms, "Alarms", "docs/runbook.md";
    ALARM_TOPIC: "topics.alarms", Topics, "Topic of the alarms", "docs/operate.md";
    EVENT_TOPIC: "topics.events", Topics, "Topic of events", "docs/events.md";
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_page_has_every_kind_and_no_other() {
        let page = include_str!("../../../docs/doctor.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let ids = rows.map(|(id, _)| id).filter(|id| id.contains('.'));
        assert_eq!(ids.collect::<Vec<_>>(), ALL.iter().map(|kind| kind.id).collect::<Vec<_>>());
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
