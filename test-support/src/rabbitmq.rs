//! RabbitMQ nodes in a directory of their own: name, port mapper, ports, cookie and data.

use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::ports;
use crate::root::Root;

/// Directory of Debian's RabbitMQ launchers that run as the calling user. The launchers in
/// `/usr/sbin` switch to the system's user and directories.
const PROGRAMS: &str = "/usr/lib/rabbitmq/bin";

/// RabbitMQ node: its programs, its home directory, and its ports on 127.0.0.1.
#[derive(Clone, Debug)]
pub struct Node {
    pub root: Root,
    pub home: PathBuf,
    /// Name of the node, such as `name@localhost`.
    pub name: &'static str,
    pub port: u16,
    pub distribution_port: u16,
    pub epmd_port: u16,
}

/// Returns the command that runs `epmd`, Erlang's port mapper. RabbitMQ would start its own as a
/// daemon that keeps running after the node ends.
pub fn epmd(root: &Root, port: u16) -> Command {
    let mut command = Command::from(root.command("epmd"));
    command.args(["-address", "127.0.0.1", "-port", &port.to_string()]);
    command
}

impl Node {
    /// Writes the files that the node reads at its start: `rabbitmq.conf` with its listener and
    /// these lines, and the list of enabled plugins.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn prepare(&self, configuration: &str, plugins: &[&str]) -> io::Result<()> {
        let listener = format!("listeners.tcp.1 = 127.0.0.1:{}\n", self.port);
        std::fs::write(self.home.join("rabbitmq.conf"), listener + configuration)?;
        std::fs::write(self.home.join("enabled_plugins"), format!("[{}].\n", plugins.join(",")))?;
        ["mnesia", "log", "generated"]
            .into_iter()
            .try_for_each(|directory| std::fs::create_dir_all(self.home.join(directory)))
    }

    /// Returns a command whose process becomes the node. The port mapper ([`epmd`]) must already
    /// run.
    pub fn server(&self) -> Command {
        let file = |name: &str| self.home.join(name);
        let mut command = self.command("rabbitmq-server");
        command
            // Makes the launcher become the server instead of waiting for it.
            .env("RUNNING_UNDER_SYSTEMD", "true")
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", self.port.to_string())
            .env("RABBITMQ_DIST_PORT", self.distribution_port.to_string())
            .env("RABBITMQ_CONFIG_FILE", file("rabbitmq.conf"))
            .env("RABBITMQ_ADVANCED_CONFIG_FILE", file("advanced.config"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", file("enabled_plugins"))
            .env("RABBITMQ_GENERATED_CONFIG_DIR", file("generated"))
            .env("RABBITMQ_MNESIA_BASE", file("mnesia"))
            .env("RABBITMQ_LOG_BASE", file("log"))
            .env("RABBITMQ_LOGS", "-")
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
            );
        command
    }

    /// Returns a `rabbitmqctl` command for this node. Its Erlang schedulers do not busy-wait.
    pub fn ctl(&self) -> Command {
        let mut command = self.command("rabbitmqctl");
        command.env("RABBITMQ_CTL_ERL_ARGS", "+sbwt none +sbwtdcpu none +sbwtdio none");
        command.args(["--node", self.name, "--quiet"]);
        command
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::from(self.root.command(Path::new(PROGRAMS).join(program)));
        command
            .current_dir(&self.home)
            // Where the cookie is made.
            .env("HOME", &self.home)
            .env("LC_ALL", "C.UTF-8")
            .env("ERL_EPMD_PORT", self.epmd_port.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODENAME", self.name)
            .env("RABBITMQ_CONF_ENV_FILE", self.home.join("no-env.conf"));
        command
    }
}

/// Running RabbitMQ node of one test, which the test may kill. The node ends when this is dropped.
#[derive(Debug)]
pub struct RabbitMq {
    pub node: Node,
    server: Child,
    /// Port mapper that this node shares with the nodes started together with it.
    _epmd: Arc<Child>,
    _home: TempDir,
}

impl RabbitMq {
    /// Starts a node of this version and name. `configure` returns lines of `rabbitmq.conf`,
    /// without the listener, and the plugins to enable. It may also write files into the node's
    /// home directory, such as `advanced.config`.
    ///
    /// # Panics
    /// If RabbitMQ is not installed, or does not start.
    pub async fn start<const N: usize>(
        root: Root,
        name: &'static str,
        configure: impl Fn(&Node) -> (String, [&'static str; N]),
    ) -> Self {
        assert!(
            root.directory().is_some() || Path::new(PROGRAMS).join("rabbitmq-server").exists(),
            "there is no RabbitMQ in {PROGRAMS}: `make test` installs it, or `apt-get install rabbitmq-server`"
        );
        let mut nodes = Self::start_together(root, &[name], configure).await;
        nodes.remove(0)
    }

    /// Starts nodes of these names at the same time, so that they can form a cluster. They share
    /// one port mapper, which ends with the last node.
    pub async fn start_together<const N: usize>(
        root: Root,
        names: &[&'static str],
        configure: impl Fn(&Node) -> (String, [&'static str; N]),
    ) -> Vec<Self> {
        let [epmd_port] = ports::free().unwrap();
        let mut epmd = epmd(&root, epmd_port);
        let epmd = epmd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let epmd = Arc::new(epmd.spawn().expect("start epmd"));
        listens(epmd_port).await;
        let mut nodes = Vec::new();
        for &name in names {
            let home = tempfile::Builder::new().prefix("integrahub-rabbitmq-").tempdir().unwrap();
            let [port, distribution_port] = ports::free().unwrap();
            let (root, directory) = (root.clone(), home.path().to_owned());
            let node = Node { root, home: directory, name, port, distribution_port, epmd_port };
            let (configuration, plugins) = configure(&node);
            node.prepare(&configuration, &plugins).unwrap();
            nodes.push(Self { server: launch(&node), node, _epmd: Arc::clone(&epmd), _home: home });
        }
        for node in &mut nodes {
            node.is_up().await;
        }
        nodes
    }

    /// Ends the node by this signal, and waits until its process has ended.
    pub async fn end(&mut self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.server.id().expect("it runs")).unwrap());
        kill(pid, signal).expect("signal the broker");
        self.server.wait().await.expect("wait for the broker");
    }

    /// Starts an ended node again, and waits until it has recovered its queues. The node listens
    /// before that, and rejects operations on queues that are not recovered.
    pub async fn start_again(&mut self) {
        self.server = launch(&self.node);
        self.is_up().await;
        self.ctl(&["await_startup"]).await;
    }

    /// Runs `rabbitmqctl` on the node, and returns its output.
    pub async fn ctl(&self, arguments: &[&str]) -> String {
        let mut ctl = self.node.ctl();
        let ctl = ctl.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let output = ctl.output().await.expect("run rabbitmqctl");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until the node listens. If its process ends instead, panics with the node's log.
    async fn is_up(&mut self) {
        tokio::select! {
            () = listens(self.node.port) => {}
            status = self.server.wait() => {
                let log = std::fs::read_to_string(self.node.home.join("server.log")).unwrap_or_default();
                panic!("RabbitMQ ended by itself ({status:?}):\n{log}");
            }
        }
    }
}

/// Starts the node's launcher, whose process becomes the node.
fn launch(node: &Node) -> Child {
    let log = std::fs::File::options().append(true).create(true).open(node.home.join("server.log")).unwrap();
    let mut command = node.server();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).kill_on_drop(true);
    command.spawn().expect("start rabbitmq-server")
}

async fn listens(port: u16) {
    for _ in 0..1800 {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nothing listens on port {port} after three minutes");
}
