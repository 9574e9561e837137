//! Deploys `template.yaml` into the AWS stand-in.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::components::kafka::Kafka;
use crate::components::ministack::{ACCESS_KEY_ID, Ministack, REGION, SECRET_ACCESS_KEY};
use crate::console;
use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;
use crate::supervisor::isolate;

/// Allow-list of inline targets for the tenants: brokers on this machine.
pub(crate) const INLINE_TARGETS: &str = "\
     rabbitmq://127.0.0.1:*/*?tenant=*&tls=optional&secrets=secret://local/*,secret://mq/app \
     rabbitmq://localhost:*/*?tenant=*&tls=optional&secrets=secret://local/*,secret://mq/app \
     ibmmq://127.0.0.1:*/*?tenant=*&tls=optional&channel=DEV.*,NO.*\
     &secrets=secret://local/*,secret://mq/app \
     ibmmq://localhost:1414/*?tenant=*&tls=optional&secrets=secret://mq/app&channel=DEV.*&login=none";

/// Template parameters of the local stack that differ from their defaults. They allow inline
/// targets on this machine for all tenants, records that are kept for up to 30 days, more
/// concurrent executions, dropped objects from a second bucket, and load tests of a size that one
/// machine can run. Events go to a bus and a topic, and the architecture is that of this machine.
const PARAMETERS: [(&str, &str); 12] = [
    ("InlineTargets", INLINE_TARGETS),
    ("IdempotencyExpiryMaxSeconds", "2592000"),
    ("IdempotencyTableName", "mq-probe-idempotency"),
    ("UpsertConcurrency", "10"),
    ("AcceptDrops", DROP_BUCKET),
    ("EventBusArn", EVENT_BUS),
    ("EventTopicArn", EVENT_TOPIC),
    ("LoadTests", "true"),
    ("LoadTestWorkers", "16"),
    ("LoadTestMessages", "2000000"),
    ("LoadTestRetained", "200000"),
    ("Architecture", ARCHITECTURE),
];

/// Name of the CloudFormation stack that is deployed locally.
pub(crate) const STACK_NAME: &str = "integrahub";

/// Bucket, besides the deployment's own, from which it accepts dropped objects. `local/deploy.py`
/// creates it, because the template expects it to exist.
pub(crate) const DROP_BUCKET: &str = "partner-files";
/// ARN of the event bus to which the deployment sends events. `local/deploy.py` creates it, because
/// the template expects it to exist.
pub(crate) const EVENT_BUS: &str = "arn:aws:events:us-east-1:000000000000:event-bus/integrahub-events";
/// ARN of the SNS topic to which the deployment sends events. `local/deploy.py` creates it, because
/// the template expects it to exist.
pub(crate) const EVENT_TOPIC: &str = "arn:aws:sns:us-east-1:000000000000:integrahub-events";

const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };

/// Report of `local/deploy.py` on the resources that the deployment created.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Deployment {
    pub(crate) routes: Vec<RouteEntry>,
    /// Routes of the REST API.
    pub(crate) rest_routes: Vec<RouteEntry>,
    /// Body of the REST API's response to a request without a route. It contains variables of API
    /// Gateway, such as `$context.requestId`.
    pub(crate) rest_unrouted: String,
    /// URL of the SQS queue that receives the events of the event bus.
    pub(crate) events_queue: String,
    /// Physical names of the resources by logical id.
    names: BTreeMap<String, String>,
}

/// Route of an API: its key (`METHOD /path` or `$default`), and the logical id of the function.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RouteEntry {
    pub(crate) key: String,
    pub(crate) function: String,
}

impl Deployment {
    /// Returns the physical name of the resource with this logical id.
    ///
    /// # Errors
    /// If the template has no such resource.
    pub(crate) fn name(&self, logical_id: &str) -> Result<&str, Failure> {
        self.names.get(logical_id).map(String::as_str).ok_or_else(|| {
            Failure::new(format!("template.yaml creates no resource {logical_id}, which is needed."))
        })
    }
}

/// Deploys the template with the database whose secret has the ARN `database_secret`, with this
/// client library of IBM MQ, and with Kafka for chunks and events if it is given. The database must
/// already answer, because the deployment migrates it.
///
/// # Errors
/// If the packaging or CloudFormation fails; the error has their messages.
pub(crate) async fn deploy(
    layout: &Layout,
    ministack: &Ministack,
    database_secret: &str,
    ibm_mq_library: &Path,
    kafka: Option<&Kafka>,
) -> Result<Deployment, Failure> {
    let directory = layout.component_directory("deploy")?;
    let output = directory.join("deployment.json");
    let log = layout.log("deploy");
    let explain = || "run local/deploy.py".to_owned();
    let binaries = std::env::current_exe().or_explain(explain)?;
    let binaries = binaries.parent().unwrap_or(&layout.root);
    let mut parameters = BTreeMap::from(PARAMETERS);
    parameters.insert("DatabaseSecretArn", database_secret);
    let servers = kafka.map(Kafka::bootstrap_servers);
    if let Some(servers) = &servers {
        parameters.extend([("KafkaAuthentication", "none"), ("KafkaBootstrapServers", servers)]);
    }
    let parameters = serde_json::to_string(&parameters).or_explain(explain)?;

    let mut command = Command::new(layout.python("python"));
    command.env_clear();
    isolate(&mut command, layout);
    command
        .arg(layout.root.join("local/deploy.py"))
        .arg("--template")
        .arg(layout.root.join("template.yaml"))
        .arg("--binaries")
        .arg(binaries)
        .args(["--endpoint", &ministack.endpoint(), "--stack", STACK_NAME, "--parameters", &parameters])
        .arg("--ibm-mq-library")
        .arg(ibm_mq_library)
        .arg("--output")
        .arg(&output)
        .env("HOME", &directory)
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)
        .env("AWS_DEFAULT_REGION", REGION)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log).or_explain(explain)?)
        .kill_on_drop(true);
    let mut child = command.spawn().or_explain(explain)?;
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout).lines();
        while let Some(line) = lines.next_line().await.or_explain(explain)? {
            console::say(format_args!("  {line}"));
        }
    }
    if !child.wait().await.or_explain(explain)?.success() {
        let reason = std::fs::read_to_string(&log).or_explain(explain)?;
        return Err(Failure::new(format!("The deployment failed.\n{}", reason.trim_end())));
    }
    let text = std::fs::read(&output).or_explain(explain)?;
    serde_json::from_slice(&text).or_explain(|| "understand what local/deploy.py reported".into())
}
