//! RabbitMQ cluster of three nodes on this machine, for the cluster test.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use mq::{Access, QueueName};
use nix::sys::signal::Signal;
use test_support::rabbitmq::{Node, RabbitMq};
use test_support::root::Root;

use crate::cluster::server::USER;
use crate::cluster::support;

pub(crate) const PASSWORD: &str = "only-for-tests";
const NAMES: [&str; 3] = ["one@localhost", "two@localhost", "three@localhost"];

pub(crate) struct Nodes(Vec<RabbitMq>);

impl Nodes {
    /// Starts three nodes with the RabbitMQ of `root`, and waits until they have formed a cluster.
    pub(crate) async fn start(root: Root) -> Self {
        let this = Self(RabbitMq::start_together(root, &NAMES, configure).await);
        this.0[0].ctl(&["await_online_nodes", "3"]).await;
        this
    }

    pub(crate) fn port(&self, node: usize) -> u16 {
        self.0[node].node.port
    }

    /// Returns the access to a target whose address list has all three nodes, beginning with node
    /// `first`.
    pub(crate) fn access(&self, first: usize) -> Access {
        let ports: Vec<_> = (first..3).chain(0..first).map(|node| ("127.0.0.1", self.port(node))).collect();
        support::access_at(&ports)
    }

    /// Makes `node` the leader of a quorum queue, and waits until it is.
    pub(crate) async fn lead(&self, node: usize, queue: &QueueName) {
        let name = queue.as_str();
        let transfer = format!(
            "Name = rabbit_misc:r(<<\"/\">>, queue, <<\"{name}\">>), \
             {{ok, Queue}} = rabbit_amqqueue:lookup(Name), \
             rabbit_quorum_queue:transfer_leadership(Queue, '{}').",
            NAMES[node]
        );
        for _ in 0..100 {
            self.0[2].ctl(&["eval", &transfer]).await;
            let leader = self.0[2].ctl(&["list_queues", "--no-table-headers", "name", "leader"]).await;
            if leader.lines().any(|line| line.contains(name) && line.contains(NAMES[node])) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{name} has no leader on {}", NAMES[node]);
    }

    /// Waits until a queue has a leader on a node other than `node`.
    pub(crate) async fn led_by_others(&self, node: usize, queue: &QueueName) {
        for _ in 0..100 {
            let leaders = self.0[2].ctl(&["list_queues", "--no-table-headers", "name", "leader"]).await;
            let led = |line: &str| {
                let mut others = NAMES.iter().filter(|name| **name != NAMES[node]);
                line.contains(queue.as_str()) && others.any(|name| line.contains(name))
            };
            if leaders.lines().any(led) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{queue} has no other leader");
    }

    pub(crate) async fn kill(&mut self, node: usize) {
        self.0[node].end(Signal::SIGKILL).await;
    }

    /// Starts a node that was killed, and waits until it has joined the cluster again.
    pub(crate) async fn start_again(&mut self, node: usize) {
        self.0[node].start_again().await;
        self.0[2].ctl(&["await_online_nodes", "3"]).await;
    }
}

/// Returns the configuration text of a node, and writes its Erlang cookie. All nodes share the
/// cookie and list each other's names.
fn configure(node: &Node) -> (String, [&'static str; 0]) {
    let cookie = node.home.join(".erlang.cookie");
    std::fs::write(&cookie, "ONECOOKIEFORTHREENODES").unwrap();
    std::fs::set_permissions(&cookie, std::fs::Permissions::from_mode(0o400)).unwrap();
    let mut lines = format!(
        "default_user = {USER}\ndefault_pass = {PASSWORD}\ndisk_free_limit.absolute = 50MB\n\
         cluster_formation.peer_discovery_backend = classic_config\n"
    );
    for (number, name) in (1..).zip(NAMES) {
        lines += &format!("cluster_formation.classic_config.nodes.{number} = {name}\n");
    }
    (lines, [])
}
