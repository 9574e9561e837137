//! A RabbitMQ node of the tests' own, which may be killed: its own port mapper, ports, cookie, data
//! and users, in a temporary directory.

use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::authority::Authority;

/// The launchers that run as whoever calls them; the ones in `/usr/sbin` switch to the system's
/// user.
const BIN: &str = "/usr/lib/rabbitmq/bin";
const NODE: &str = "faults@localhost";

/// Larger messages are refused, with `PRECONDITION_FAILED`.
pub(crate) const MAX_MESSAGE: i64 = 1_000_000;
/// Queues whose names begin with this are full at three messages, by policy.
pub(crate) const FULL_BY_POLICY: &str = "faults.policy.";

pub(crate) const USER: &str = "app";
/// May log in and do nothing.
pub(crate) const OUTSIDER: &str = "outsider";
/// A virtual host that `USER` may not enter.
pub(crate) const CLOSED_VHOST: &str = "closed";

/// Logs in by a certificate with this common name; it has no password.
pub(crate) const CERTIFIED: &str = "certified";

pub(crate) struct Broker {
    home: TempDir,
    pub(crate) port: u16,
    /// Of the listener for TLS, which asks clients for a certificate of `authority`.
    pub(crate) tls_port: u16,
    pub(crate) authority: Authority,
    distribution_port: u16,
    epmd_port: u16,
    server: Child,
    _epmd: Child,
}

impl Broker {
    pub(crate) async fn start(password: &str, outsider: &str) -> Self {
        assert!(
            std::path::Path::new(BIN).join("rabbitmq-server").exists(),
            "there is no RabbitMQ in {BIN}: `make test` installs it, or `apt-get install rabbitmq-server`"
        );
        let home = tempfile::Builder::new().prefix("integrahub-faults-").tempdir().unwrap();
        let [port, tls_port, distribution_port, epmd_port] = ports::free().unwrap();
        let authority = Authority::new();
        write_configuration(&home, port, password, outsider);
        write_certificates(&home, tls_port, &authority);
        let epmd = Command::new("epmd")
            .args(["-address", "127.0.0.1", "-port", &epmd_port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("start epmd");
        listens(epmd_port).await;
        let server = launch(&home, port, distribution_port, epmd_port);
        let mut this =
            Self { home, port, tls_port, authority, distribution_port, epmd_port, server, _epmd: epmd };
        this.is_up().await;
        this
    }

    /// Ends the node and waits until it is gone: politely, or by `SIGKILL`.
    pub(crate) async fn end(&mut self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.server.id().expect("it runs")).unwrap());
        kill(pid, signal).expect("signal the broker");
        self.server.wait().await.expect("wait for the broker");
    }

    pub(crate) async fn start_again(&mut self) {
        self.server = launch(&self.home, self.port, self.distribution_port, self.epmd_port);
        self.is_up().await;
    }

    /// Waits until it listens, or fails with what it logged when it ended instead.
    async fn is_up(&mut self) {
        tokio::select! {
            () = listens(self.port) => {}
            status = self.server.wait() => {
                let log = std::fs::read_to_string(self.home.path().join("server.log")).unwrap_or_default();
                panic!("RabbitMQ ended by itself ({status:?}):\n{log}");
            }
        }
    }

    /// What an administrator does.
    pub(crate) async fn ctl(&self, arguments: &[&str]) {
        let mut command = Command::new(format!("{BIN}/rabbitmqctl"));
        environment(&mut command, &self.home, self.epmd_port);
        command.args(["--node", NODE, "--quiet"]).args(arguments).kill_on_drop(true);
        let output = command.stdin(Stdio::null()).output().await.expect("run rabbitmqctl");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The launcher becomes the node, so its process is the node's.
fn launch(home: &TempDir, port: u16, distribution_port: u16, epmd_port: u16) -> Child {
    let path = home.path();
    let log = std::fs::File::options().append(true).create(true).open(path.join("server.log")).unwrap();
    let mut command = Command::new(format!("{BIN}/rabbitmq-server"));
    environment(&mut command, home, epmd_port);
    command
        .env("RUNNING_UNDER_SYSTEMD", "true")
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODE_PORT", port.to_string())
        .env("RABBITMQ_DIST_PORT", distribution_port.to_string())
        .env("RABBITMQ_CONFIG_FILE", path.join("rabbitmq.conf"))
        .env("RABBITMQ_ADVANCED_CONFIG_FILE", path.join("no-advanced.config"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", path.join("enabled_plugins"))
        .env("RABBITMQ_GENERATED_CONFIG_DIR", path.join("generated"))
        .env("RABBITMQ_MNESIA_BASE", path.join("mnesia"))
        .env("RABBITMQ_LOG_BASE", path.join("log"))
        .env("RABBITMQ_LOGS", "-")
        .env(
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
        )
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .expect("start rabbitmq-server")
}

fn environment(command: &mut Command, home: &TempDir, epmd_port: u16) {
    command
        .env_clear()
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("LC_ALL", "C.UTF-8")
        .env("ERL_EPMD_PORT", epmd_port.to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODENAME", NODE)
        .env("RABBITMQ_CONF_ENV_FILE", home.path().join("no-env.conf"));
}

fn write_configuration(home: &TempDir, port: u16, password: &str, outsider: &str) {
    let path = home.path();
    let user = |name: &str, password: &str| json!({"name": name, "password": password, "tags": ""});
    let definitions = json!({
        "users": [
            user(USER, password),
            user(OUTSIDER, outsider),
            {"name": CERTIFIED, "password_hash": "", "tags": ""},
        ],
        "vhosts": [{"name": "/"}, {"name": CLOSED_VHOST}],
        "permissions": [
            {"user": USER, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
            {"user": CERTIFIED, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
            {"user": OUTSIDER, "vhost": "/", "configure": "", "write": "", "read": ""},
        ],
        "policies": [{
            "vhost": "/",
            "name": "full",
            "pattern": format!("^{}", FULL_BY_POLICY.replace('.', r"\.")),
            "apply-to": "queues",
            "priority": 0,
            "definition": {"max-length": 3, "overflow": "reject-publish"},
        }],
    });
    let configuration = format!(
        "listeners.tcp.1 = 127.0.0.1:{port}\nload_definitions = {}\nmax_message_size = {MAX_MESSAGE}\n\
         disk_free_limit.absolute = 50MB\n",
        path.join("definitions.json").display(),
    );
    std::fs::write(path.join("rabbitmq.conf"), configuration).unwrap();
    std::fs::write(path.join("enabled_plugins"), "[rabbitmq_auth_mechanism_ssl].\n").unwrap();
    std::fs::write(path.join("definitions.json"), definitions.to_string()).unwrap();
    for directory in ["mnesia", "log", "generated"] {
        std::fs::create_dir(path.join(directory)).unwrap();
    }
}

/// Adds a listener for TLS. Its certificate is for this machine's address and not for its name.
fn write_certificates(home: &TempDir, port: u16, authority: &Authority) {
    let path = home.path();
    let (certificate, key) = authority.issue("127.0.0.1");
    for (name, pem) in [("ca.pem", &authority.pem), ("server.pem", &certificate), ("server-key.pem", &key)] {
        std::fs::write(path.join(name), pem).unwrap();
    }
    let file = |name: &str| path.join(name).display().to_string();
    let configuration = format!(
        "listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.cacertfile = {}\nssl_options.certfile = {}\n\
         ssl_options.keyfile = {}\nssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n\
         ssl_cert_login_from = common_name\nauth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL\n",
        file("ca.pem"),
        file("server.pem"),
        file("server-key.pem"),
    );
    let path = path.join("rabbitmq.conf");
    let before = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, before + &configuration).unwrap();
}

async fn listens(port: u16) {
    for _ in 0..600 {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nothing listens on port {port} after a minute");
}
