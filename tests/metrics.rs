//! Tests of `GET /metrics`, the metrics of the deployment, also with a Prometheus that scrapes
//! them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use end_to_end::{Answer, Broker, Gateway, Ingest, KEY_A, Load, READONLY_KEY, variable};
use runtime::metrics::{self, ALL};
use serde_json::{Value, json};
use test_support::http_server::{Server, response};
use test_support::ports;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use uuid::Uuid;

const METRICS: &str = "/metrics";
/// Folder with the alerting rules for Prometheus and the tests of these rules.
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/prometheus");
/// Dashboard for Grafana, as JSON.
const DASHBOARD: &str = include_str!("../deploy/grafana/integrahub.json");
/// Maximum time until a snapshot, a first scrape or a start of Prometheus is done, even on a busy
/// machine.
const PATIENCE: Duration = Duration::from_secs(120);

async fn scrape() -> Answer {
    Gateway::new().get(METRICS).await.expect(200)
}

/// Returns the value of a series in the text of a scrape. Returns `None` if it has no such series.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

#[tokio::test]
async fn the_metrics_need_the_scope_of_operators_and_take_no_parameter() {
    let gateway = Gateway::new();
    gateway.send("GET", METRICS, &[], "").await.expect_problem(401, "API_KEY_REQUIRED");
    gateway.with_key(READONLY_KEY).get(METRICS).await.expect_problem(403, "SCOPE_REQUIRED");
    gateway.get("/metrics?family=batches").await.expect_problem(400, "INVALID_PARAMETER");
    for gateway in [Gateway::new(), Gateway::rest()] {
        let answer = gateway.get(METRICS).await.expect(200);
        assert_eq!(answer.header("content-type"), Some(metrics::CONTENT_TYPE));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

#[tokio::test]
async fn after_a_batch_every_metric_that_is_scraped_has_its_family() {
    let batch = Ingest::new().load(Load::delta(br#"[{"CNPJ": "no"}]"#)).await;
    assert_eq!(batch["items_failed"], 1, "{batch}");
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let put = queue.request(json!({"batch": {"count": 1, "messageSizeBytes": 1}}));
    gateway.produce(Uuid::new_v4(), &put).await.expect(201);
    broker.delete(&queue).await;
    let begin = Instant::now();
    let text = loop {
        let text = String::from_utf8(scrape().await.bytes).unwrap();
        // The snapshot may be of before, and a busy machine may leave a part out. The messages are
        // counted by a schedule.
        if text.contains("integrahub_item_errors_total{")
            && text.contains("integrahub_operation_messages_total{")
            && !["queues", "kafka"]
                .iter()
                .any(|part| text.contains(&format!("integrahub_up{{part=\"{part}\"}} 0")))
        {
            break text;
        }
        assert!(begin.elapsed() < PATIENCE, "{text}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    let has_kafka = std::env::var_os("KAFKA_BOOTSTRAP_SERVERS").is_some();
    for metric in ALL {
        let has_family = text.contains(&format!("# TYPE {} {}\n", metric.name, metric.kind.as_str()));
        let is_expected = metric.is_scraped && (*metric != metrics::KAFKA_LAG || has_kafka);
        assert_eq!(has_family, is_expected, "{} in\n{text}", metric.name);
    }
    let of = |series: &str| value(&text, series).unwrap_or_else(|| panic!("{series} is missing in\n{text}"));
    assert!(of(&format!("integrahub_batches_total{{status={}}}", batch["status"])) >= 1.0);
    assert!(of("integrahub_items_total{outcome=\"failed\"}") >= 1.0);
    let count = of("integrahub_batch_duration_seconds_count");
    assert!(count >= 1.0);
    assert!((of("integrahub_batch_duration_seconds_bucket{le=\"+Inf\"}") - count).abs() < 0.5);
    for part in ["database", "queues", "usage"] {
        assert!(of(&format!("integrahub_up{{part=\"{part}\"}}")) > 0.5, "{part}");
    }
    assert!(of("integrahub_operations_total{operation=\"produce\",outcome=\"done\"}") >= 1.0);
    for queue in ["notifications", "batches-received", "chunks-ready", "unhandled"] {
        for state in ["visible", "in_flight", "delayed"] {
            of(&format!("integrahub_queue_messages{{queue=\"{queue}\",state=\"{state}\"}}"));
        }
    }
    assert!(of("integrahub_snapshot_age_seconds") < 60.0);
}

/// Returns the folder with Prometheus' programs: installed ones, or Debian's package, unpacked.
/// Returns `None` if neither is available.
#[expect(clippy::print_stderr, reason = "who reads the test's output has to know that it checked nothing")]
async fn programs() -> Option<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let script = repository.join("scripts/prometheus.sh");
    let unpacked = Command::new(script).arg(repository.join(".local/prometheus")).output().await.unwrap();
    if unpacked.status.success() {
        return Some(PathBuf::from(String::from_utf8(unpacked.stdout).unwrap().trim()));
    }
    let reason = String::from_utf8_lossy(&unpacked.stderr).into_owned();
    eprintln!(
        "SKIPPED, NOTHING WAS CHECKED: there is no Prometheus, and Debian's is not to be had: {reason}"
    );
    None
}

/// Starts a proxy that adds the API key to scrapes, since Prometheus before 2.55 cannot send a
/// header of its own.
async fn with_key() -> Server {
    let (http, url) = (reqwest::Client::new(), format!("{}{METRICS}", variable("API")));
    Server::start(move |_| {
        let request = http.get(&url).header("x-api-key", KEY_A);
        async move {
            let answer = request.send().await.ok()?;
            let (status, content_type) =
                (answer.status().as_u16(), answer.headers().get("content-type").cloned());
            let mut passed = response(status, answer.bytes().await.ok()?);
            passed.headers_mut().extend(content_type.map(|value| (http::header::CONTENT_TYPE, value)));
            Some(passed)
        }
    })
    .await
}

/// Prometheus process that scrapes the deployment's metrics every second.
struct Prometheus {
    _process: Child,
    url: String,
}

impl Prometheus {
    fn start(programs: &Path, folder: &Path, port: u16) -> Self {
        let config = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: integrahub\n    static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n"
        );
        std::fs::write(&config, text).unwrap();
        let [own] = ports::free::<1>().unwrap();
        let process = Command::new(programs.join("prometheus"))
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{own}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { _process: process, url: format!("http://127.0.0.1:{own}/api/v1/query") }
    }

    /// Waits until a query has a result, and returns the value of its first series.
    async fn first(&self, query: &str) -> String {
        let (http, begin) = (reqwest::Client::new(), Instant::now());
        loop {
            let url = url::Url::parse_with_params(&self.url, [("query", query)]).unwrap();
            if let Ok(answer) = http.get(url).send().await
                && let Ok(answer) = answer.json::<Value>().await
                && let Some(value) = answer["data"]["result"][0]["value"][1].as_str()
            {
                return value.to_owned();
            }
            assert!(begin.elapsed() < PATIENCE, "{query} has no result");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Returns the names of this product's metrics in a text. The bucket series of a histogram count as
/// its name.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && !"_:".contains(letter));
    let names = words.filter(|word| word.starts_with("integrahub_"));
    names.map(|name| name.strip_suffix("_bucket").unwrap_or(name)).collect()
}

#[test]
fn the_rules_name_metrics_that_are_scraped() {
    let rules = std::fs::read_to_string(format!("{RULES}/rules.yml")).unwrap();
    let scraped: BTreeSet<_> =
        ALL.iter().filter(|metric| metric.is_scraped).map(|metric| metric.name).collect();
    let named = names(&rules);
    assert!(named.len() > 3 && named.is_subset(&scraped), "{named:?}");
}

#[tokio::test]
async fn the_rules_alarm_when_they_shall() {
    let Some(programs) = programs().await else { return };
    for arguments in [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]] {
        let run = Command::new(programs.join("promtool")).args(arguments).current_dir(RULES).output();
        let run = run.await.unwrap();
        let said = [run.stdout, run.stderr].concat();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}

/// Returns the expressions of the dashboard's panels as recording rules, with values in place of
/// Grafana's variables.
fn rules_of_the_dashboard() -> Value {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter().filter_map(|panel| panel.get("targets"));
    let targets = targets.flat_map(|targets| targets.as_array().unwrap());
    let rule = |(number, target): (usize, &Value)| {
        let expression = target["expr"].as_str().unwrap();
        let expression = expression.replace("$job", "integrahub").replace("$__rate_interval", "4m");
        assert!(!expression.contains('$'), "{expression} has a variable that nobody sets");
        json!({"record": format!("panel_{number}"), "expr": expression})
    };
    let rules: Vec<_> = targets.enumerate().map(rule).collect();
    json!({"groups": [{"name": "dashboard", "rules": rules}]})
}

#[tokio::test]
async fn prometheus_understands_the_expressions_of_the_dashboard() {
    let Some(programs) = programs().await else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    // Each text of JSON is one of YAML.
    std::fs::write(file.path(), rules_of_the_dashboard().to_string()).unwrap();
    let mut promtool = Command::new(programs.join("promtool"));
    let run = promtool.args(["check", "rules"]).arg(file.path()).output().await.unwrap();
    let said = [run.stdout, run.stderr].concat();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[tokio::test]
async fn prometheus_finds_no_fault_in_the_metrics_and_scrapes_them() {
    let Some(programs) = programs().await else { return };
    let mut promtool = Command::new(programs.join("promtool"));
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = promtool.spawn().unwrap();
    let text = scrape().await.bytes;
    check.stdin.take().unwrap().write_all(&text).await.unwrap();
    let checked = check.wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && said.is_empty(), "{said}");

    let (server, folder) = (with_key().await, tempfile::tempdir().unwrap());
    let prometheus = Prometheus::start(&programs, folder.path(), server.port);
    prometheus.first("up{job=\"integrahub\"} == 1").await;
    prometheus.first("integrahub_build_info").await;
    let visible = prometheus.first("integrahub_queue_messages{queue=\"unhandled\",state=\"visible\"}").await;
    assert!(visible.parse::<u64>().is_ok(), "{visible}");
}
