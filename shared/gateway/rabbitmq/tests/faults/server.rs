//! RabbitMQ broker on which the faults are inflicted, with its users, permissions, policies, limits
//! and certificates.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use serde_json::{Value, json};
use test_support::ports;
use test_support::rabbitmq::{Node, RabbitMq};
use test_support::root::Root;

use crate::authority::Authority;

/// Maximum size in bytes of a message that the broker accepts. Larger ones are refused with
/// `PRECONDITION_FAILED`.
pub(crate) const MAX_MESSAGE: i64 = 1_000_000;
/// Name prefix of queues that a policy limits to three messages.
pub(crate) const FULL_BY_POLICY: &str = "faults.policy.";

/// Name prefix of queues that a policy limits to three messages, with refused messages
/// dead-lettered to [`DEAD_BY_POLICY`].
pub(crate) const DEAD_LETTERING_BY_POLICY: &str = "faults.dead-lettering.";
pub(crate) const DEAD_BY_POLICY: &str = "faults.dead";

pub(crate) const USER: &str = "app";
/// User that may log in but has no permissions on any resource.
pub(crate) const OUTSIDER: &str = "outsider";
/// Virtual host to which the user [`USER`] has no access.
pub(crate) const CLOSED_VHOST: &str = "closed";

/// User without a password that logs in by a certificate with this common name.
pub(crate) const CERTIFIED: &str = "certified";

pub(crate) struct Broker {
    server: RabbitMq,
    /// Port of the TLS listener, which requests client certificates of `authority`.
    pub(crate) tls_port: u16,
    pub(crate) authority: Authority,
}

impl Broker {
    pub(crate) async fn start(password: &str, outsider: &str) -> Self {
        let [tls_port] = ports::free().unwrap();
        let authority = Authority::new();
        let server = RabbitMq::start(Root::of_rabbitmq(), "faults@localhost", |Node { home, .. }| {
            std::fs::write(home.join("definitions.json"), definitions(password, outsider)).unwrap();
            let limits = format!(
                "load_definitions = {}\nmax_message_size = {MAX_MESSAGE}\ndisk_free_limit.absolute = 50MB\n",
                home.join("definitions.json").display(),
            );
            (limits + &certificates(home, tls_port, &authority), ["rabbitmq_auth_mechanism_ssl"])
        })
        .await;
        Self { server, tls_port, authority }
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.node.port
    }
}

impl Deref for Broker {
    type Target = RabbitMq;

    fn deref(&self) -> &RabbitMq {
        &self.server
    }
}

impl DerefMut for Broker {
    fn deref_mut(&mut self) -> &mut RabbitMq {
        &mut self.server
    }
}

/// Returns the JSON of a policy for queues of virtual host `/` whose names begin with `start`.
fn policy(start: &str, definition: &Value) -> Value {
    let pattern = format!("^{}", start.replace('.', r"\."));
    json!({
        "vhost": "/",
        "name": start,
        "pattern": pattern,
        "apply-to": "queues",
        "priority": 0,
        "definition": definition,
    })
}

fn definitions(password: &str, outsider: &str) -> String {
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
        "policies": [
            policy(FULL_BY_POLICY, &json!({"max-length": 3, "overflow": "reject-publish"})),
            policy(DEAD_LETTERING_BY_POLICY, &json!({
                "max-length": 3,
                "overflow": "reject-publish-dlx",
                "dead-letter-exchange": "",
                "dead-letter-routing-key": DEAD_BY_POLICY,
            })),
        ],
    });
    definitions.to_string()
}

/// Writes certificates below `home`, and returns the configuration of a TLS listener on `port`. The
/// listener's certificate is valid for 127.0.0.1 but not for `localhost`.
fn certificates(home: &Path, port: u16, authority: &Authority) -> String {
    let (certificate, key) = authority.issue("127.0.0.1");
    for (name, pem) in [("ca.pem", &authority.pem), ("server.pem", &certificate), ("server-key.pem", &key)] {
        std::fs::write(home.join(name), pem).unwrap();
    }
    let file = |name: &str| home.join(name).display().to_string();
    format!(
        "listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.cacertfile = {}\nssl_options.certfile = {}\n\
         ssl_options.keyfile = {}\nssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n\
         ssl_cert_login_from = common_name\nauth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL\n",
        file("ca.pem"),
        file("server.pem"),
        file("server-key.pem"),
    )
}
