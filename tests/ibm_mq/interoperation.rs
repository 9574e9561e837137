//! Tests of the gateway and IBM's own client for Python at the same queue manager: each gets what
//! the other puts.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use test_support::built::{self, MQ_LIBRARY};
use test_support::environment::{python, repository};

use super::*;

/// Process with IBM's client for Python, which executes commands from its standard input.
struct Client {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    _library: tempfile::TempDir,
}

impl Client {
    fn of(manager: &QueueManager) -> Self {
        // In a directory of its own, because the client searches one for it.
        let library = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(built::find(MQ_LIBRARY).unwrap(), library.path().join(MQ_LIBRARY))
            .unwrap();
        let python = python("mqm-standin", "local/mqm-standin/requirements.txt");
        let target = manager.target("DEV.QUEUE.1");
        let member = |name: &str| target[name].as_str().unwrap().to_owned();
        let (host, port) =
            member("connName").rsplit_once(':').map(|(h, p)| (h.to_owned(), p.to_owned())).unwrap();
        let mut process = Command::new(python)
            .arg(repository().join("tests/ibm_mq/client.py"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("LD_LIBRARY_PATH", library.path())
            .env("MQM_STANDIN_DIR", &manager.directory)
            .env("QUEUE_MANAGER", &manager.name)
            .env("CHANNEL", member("channel"))
            .env("CONN_NAME", format!("{host}({port})"))
            .env("MQ_USER", "app")
            .env("MQ_PASSWORD", QueueManager::password())
            .env_remove("MQSERVER")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (commands, answers) =
            (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Self { process, commands, answers, _library: library }
    }

    fn ask(&mut self, command: &Value) -> Value {
        writeln!(self.commands, "{command}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{command}: {error}: {answer}"))
    }

    fn get(&mut self, queue: &str, more: &Value) -> Vec<Value> {
        let mut command = json!({"do": "get", "queue": queue});
        command.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ask(&command)["messages"].as_array().unwrap().clone()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn hex_of(base64: &Value) -> String {
    hex::encode(STANDARD.decode(base64.as_str().unwrap()).unwrap())
}

fn base64_of(hex: &str) -> String {
    STANDARD.encode(hex::decode(hex).unwrap())
}

#[tokio::test]
async fn ibm_s_client_gets_what_the_gateway_puts() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let mut client = Client::of(&manager);
    let mut members = texts(&["ação", "two"]);
    members["mqProps"] = json!({
        "persistence": "persistent", "priority": 7, "expiryMs": 60_000, "correlIdMode": "echoMsgId",
        "replyTo": "DEV.QUEUE.2", "messageType": "request"
    });
    members["headers"] = json!({"kind": "order", "x-trace": "t1", "count": 3, "flag": true});
    let answer = put(&gateway, &manager, "DEV.QUEUE.1", members).await;
    let first = hex_of(&answer["firstMsgIdBase64"]);

    assert_eq!(client.ask(&json!({"do": "depth", "queue": "DEV.QUEUE.1"}))["depth"], 2);
    let shown = client.get("DEV.QUEUE.1", &json!({"browse": true}));
    let back = client.get("DEV.QUEUE.1", &json!({"rollback": true}));
    let selected = client.get("DEV.QUEUE.1", &json!({"id": first}));
    assert_eq!((shown.len(), back.len(), selected.len()), (2, 2, 1));
    let message = &selected[0];
    assert_eq!((&message["body"], &message["id"]), (&json!(hex::encode("ação")), &json!(first)));
    assert_eq!(message["correlation"], message["id"]);
    let numbers = ["Persistence", "Priority", "MsgType", "CodedCharSetId", "BackoutCount"]
        .map(|name| message[name].clone());
    assert_eq!(numbers, [1, 7, 1, 1208, 1].map(|number| json!(number)));
    assert!((1..=600).contains(&message["Expiry"].as_i64().unwrap()), "{message}");
    let members = ["Format", "ReplyToQ", "UserIdentifier"].map(|name| message[name].clone());
    assert_eq!(members, ["MQSTR", "DEV.QUEUE.2", "app"].map(|text| json!(text)));
    let properties = &message["properties"];
    let found = ["kind", "x$2dtrace", "count", "flag", "sequence"].map(|name| properties[name].clone());
    // The client shows a truth value as a number.
    assert_eq!(found, [json!("order"), json!("t1"), json!(3), json!(1), json!(0)], "{properties}");
    assert!(properties["idempotencyKey"].is_string());
    let measured = gateway.post("/queue/depth", &manager.request("DEV.QUEUE.1", json!({}))).await.expect(200);
    assert_eq!(measured.json()["currentDepth"], 1);
}

#[tokio::test]
async fn the_gateway_gets_what_ibm_s_client_puts() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let mut client = Client::of(&manager);
    let (correlation, id) = ("0c".repeat(24), "1d".repeat(24));
    let latin = json!({
        "body": hex::encode(b"caf\xe9"),
        "descriptor": {"Format": "MQSTR   ", "CodedCharSetId": 819, "CorrelId": correlation, "Priority": 4, "Persistence": 1},
        "properties": [
            ["kind", "STRING", "order"], ["number", "INT32", -7], ["long", "INT64", 1_099_511_627_776_i64],
            ["yes", "BOOLEAN", true], ["raw", "BYTE_STRING", "00ff01"]
        ]
    });
    let bytes = json!({"body": "00ff", "descriptor": {"MsgId": id}});
    let answer = client.ask(&json!({"do": "put", "queue": "DEV.QUEUE.1", "messages": [latin, bytes]}));
    let first = answer["ids"][0].as_str().unwrap().to_owned();
    // What is not committed is nobody's.
    client.ask(&json!({"do": "put", "queue": "DEV.QUEUE.1", "messages": [{"body": "00"}], "rollback": true}));

    let browse = manager.request("DEV.QUEUE.1", taking(json!({"browseOnly": true})));
    let shown = gateway.post("/messages/consume", &browse).await.expect(200).json();
    assert_eq!(shown["count"], 2);
    let select = |member: &str, hex: &str| json!({"selector": {member: base64_of(hex)}, "ack": "rollback"});
    for (selector, body) in [
        (select("correlIdBase64", &correlation), hex::encode(b"caf\xe9")),
        (select("msgIdBase64", &first), hex::encode(b"caf\xe9")),
        (select("msgIdBase64", &id), "00ff".to_owned()),
    ] {
        let got = take(&gateway, &manager, "DEV.QUEUE.1", selector).await;
        assert_eq!((&got["count"], hex_of(&got["messages"][0]["bodyBase64"])), (&json!(1), body));
    }
    let back = client.get("DEV.QUEUE.1", &json!({"rollback": true}));
    assert_eq!(back.iter().map(|message| message["BackoutCount"].clone()).collect::<Vec<_>>(), [2, 1]);

    let got = take(&gateway, &manager, "DEV.QUEUE.1", json!({})).await;
    let message = &got["messages"][0];
    assert_eq!(
        (&message["bodyText"], &message["ccsid"], &message["format"]),
        (&json!("café"), &json!(819), &json!("MQSTR"))
    );
    assert_eq!(
        (&message["priority"], &message["persistence"], &message["backoutCount"]),
        (&json!(4), &json!("persistent"), &json!(3))
    );
    let headers = ["kind", "number", "long", "yes", "raw"].map(|name| message["headers"][name].clone());
    assert_eq!(
        headers,
        [
            json!("order"),
            json!({"int32": "-7"}),
            json!(1_099_511_627_776_i64),
            json!(true),
            json!({"base64": "AP8B"})
        ]
    );
    assert_eq!(got["messages"][1]["bodyText"], Value::Null);
    assert_eq!(client.ask(&json!({"do": "depth", "queue": "DEV.QUEUE.1"}))["depth"], 0);
}

#[tokio::test]
async fn both_meet_the_same_reason_codes() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let mut client = Client::of(&manager);
    let one = |queue: &str| json!({"do": "put", "queue": queue, "messages": [{"body": "00"}]});
    let produce =
        async |queue: &str, body: Value| gateway.produce(Uuid::new_v4(), &manager.request(queue, body)).await;
    assert_eq!(client.ask(&one("DEV.NO.SUCH.QUEUE"))["reason"], 2085);
    produce("DEV.NO.SUCH.QUEUE", texts(&["x"])).await.expect_problem(404, "QUEUE_NOT_FOUND");
    assert_eq!(client.ask(&json!({"do": "get", "queue": "DEV.GET.INHIBITED"}))["reason"], 2016);
    let inhibited = manager.request("DEV.GET.INHIBITED", taking(json!({})));
    refused(gateway.consume(Uuid::new_v4(), &inhibited).await, 502, "BROKER_REJECTED", 2016);
    for _ in 0..3 {
        assert!(client.ask(&one("DEV.SMALL"))["ids"].is_array());
    }
    assert_eq!(client.ask(&one("DEV.SMALL"))["reason"], 2053);
    refused(produce("DEV.SMALL", texts(&["x"])).await, 502, "QUEUE_FULL", 2053);
}
