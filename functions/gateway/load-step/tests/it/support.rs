//! Environment of one integration test: a store, a queue, and the function `load-step` on them.

use std::time::{Duration, SystemTime};

use broker_access::Brokers;
use jiff::{SignedDuration, Timestamp};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use load_step::{Answer, CloseEvent, Closed, Event, Lanes, LoadStep, LoadStepError, StepEvent, StepResponse};
use load_test::store::{Created, TestRecord, TestRun, TestStore};
use load_test::{Limits, LoadTest, LoadTestRequest, Report, TestStatus, Window};
use mq::{Address, BrokerKind, Endpoint, SecretRef, Target, Tls};
use serde_json::{Value, from_value, json};
use usage::{EndedTests, UsageTable};
use uuid::Uuid;

use crate::table::{TestTable, create_table};

pub(crate) const TENANT: &str = "tenant-1";
/// Name of the API key with which the load tests in these integration tests were started.
const KEY_NAME: &str = "till 1";

const LIMITS: Limits =
    Limits { workers: 20, hours: 1, messages: 1_000_000, retained: 50_000, retained_bytes: 1_000_000_000 };
/// Time limit of each invocation of the function in these tests.
const TO_WORK: Duration = Duration::from_secs(120);
/// Time in milliseconds after which RabbitMQ deletes a queue that a failed test left behind.
const EXPIRES: i32 = 600_000;

pub(crate) struct Stand {
    pub(crate) load_step: LoadStep,
    pub(crate) store: TestStore,
    pub(crate) usage: UsageTable,
    pub(crate) table: TestTable,
    /// Name of the test's DynamoDB table, of its S3 bucket and of its queue on the broker.
    pub(crate) name: String,
    channel: Channel,
    _connection: Connection,
}

fn url() -> String {
    std::env::var("AMQP_URL").expect(
        "AMQP_URL is not set: these tests need a RabbitMQ broker; run them with `make test`, which starts one",
    )
}

pub(crate) fn uri() -> AMQPUri {
    url().parse().expect("AMQP_URL is an AMQP URL")
}

/// Waits until the time of day `at`; returns at once if it has passed.
pub(crate) async fn until(at: Timestamp) {
    let left = at.duration_since(Timestamp::now());
    tokio::time::sleep(left.try_into().unwrap_or_default()).await;
}

impl Stand {
    pub(crate) async fn open() -> Self {
        let sdk = runtime::Sdk::from_environment().await;
        let table = TestTable::make().await;
        create_table(&table.dynamodb, &usage_of(&table.name)).await;
        let usage = UsageTable::new(table.dynamodb.clone(), usage_of(&table.name));
        let brokers = Brokers::new(LoadStep::CONNECTIONS * 8, ibm_mq::Settings::default(), &sdk);
        let connection = Connection::connect(&url(), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let stand = Self {
            load_step: LoadStep::new(table.store.clone(), usage.clone(), brokers, 1_152),
            store: table.store.clone(),
            usage,
            name: table.name.clone(),
            table,
            channel,
            _connection: connection,
        };
        stand.declare().await;
        stand
    }

    async fn declare(&self) {
        let mut arguments = FieldTable::default();
        arguments.insert("x-expires".into(), AMQPValue::LongInt(EXPIRES));
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        self.channel.queue_declare(self.name.as_str().into(), options, arguments).await.unwrap();
    }

    /// Returns a target with the test's queue: on the broker itself, or on the broker behind a
    /// proxy at `port` of this machine.
    pub(crate) fn target(&self, port: Option<u16>) -> Target {
        let uri = uri();
        let address = match port {
            Some(port) => Address { host: "127.0.0.1".to_owned(), port },
            None => Address { host: uri.authority.host, port: uri.authority.port },
        };
        Target {
            endpoint: Endpoint {
                broker: BrokerKind::RabbitMq,
                queue_manager: uri.vhost,
                channel: None,
                special: vec![address.clone()].into(),
                addresses: vec![address],
                ccdt_url: None,
                tls: Tls::Off,
                user: Some(uri.authority.userinfo.username),
                password_ref: Some(SecretRef::SecretsManager("local/rabbit".to_owned())),
            },
            queue: Some(self.name.clone().try_into().unwrap()),
            exchange: None,
            password_origin: mq::PasswordOrigin::default(),
            reach: mq::AllowedQueues::default(),
            backout: mq::BackoutRule::default(),
            idle_connections: mq::IdleRule::default(),
            limits: mq::ConnectionLimits::default(),
        }
    }

    /// Stores an accepted load test with this request body, and returns the key of its first run.
    pub(crate) async fn accepted(&self, body: Value) -> TestRun {
        self.accepted_at(self.target(None), body).await
    }

    pub(crate) async fn accepted_at(&self, target: Target, body: Value) -> TestRun {
        self.accepted_as(target, test(body)).await
    }

    pub(crate) async fn accepted_as(&self, target: Target, test: LoadTest) -> TestRun {
        let record = TestRecord::new(TENANT, Uuid::now_v7(), "trace-1", test, target, Timestamp::now());
        let record = TestRecord { key_name: KEY_NAME.to_owned(), ..record };
        assert_eq!(self.store.create(&record, u32::MAX).await.unwrap(), Created::Stored);
        TestRun { tenant: TENANT.to_owned(), test_id: record.test_id, run: 0 }
    }

    /// Begins a run of a load test without measuring the queue. The run starts after this number of
    /// milliseconds. Returns its start.
    pub(crate) async fn begin(&self, of: &TestRun, milliseconds: i64) -> Timestamp {
        let start = Timestamp::now() + SignedDuration::from_millis(milliseconds);
        let run = self.store.begin_run(of, None, start).await.unwrap();
        run.started_at
    }

    /// Stores a load test with this request body, and begins its run, which starts after this
    /// number of milliseconds. Returns the key and the start of the run.
    pub(crate) async fn begun(&self, body: Value, milliseconds: i64) -> (TestRun, Timestamp) {
        let of = self.accepted(body).await;
        let start = self.begin(&of, milliseconds).await;
        (of, start)
    }

    pub(crate) async fn handle(&self, event: Event) -> Result<Answer, LoadStepError> {
        Box::pin(self.load_step.handle(event, SystemTime::now() + TO_WORK)).await
    }

    pub(crate) async fn prepare(&self, of: &TestRun) -> Lanes {
        match self.handle(Event::Prepare(of.clone())).await.unwrap() {
            Answer::Prepared(lanes) => lanes,
            other => panic!("{other:?}"),
        }
    }

    /// Runs the invocation for the first minute of a lane (one of a worker's two series of
    /// invocations): minute 0 for lane A, minute 1 for lane B. `attempt` is the number of the
    /// attempt at this minute, from 0. Returns the response.
    pub(crate) async fn step(&self, of: &TestRun, lane: &str, attempt: u32) -> StepResponse {
        let lane = lane.parse().unwrap();
        self.step_in(of, lane, attempt).await.unwrap()
    }

    pub(crate) async fn step_in(
        &self,
        of: &TestRun,
        lane: load_test::Lane,
        attempt: u32,
    ) -> Result<StepResponse, LoadStepError> {
        let window = match lane.parity {
            load_test::MinuteParity::Even => Window::new(0),
            load_test::MinuteParity::Odd => Window::new(1),
        };
        let event = StepEvent { of: of.clone(), lane, window, attempt };
        match self.handle(Event::Step(event)).await? {
            Answer::Done(next) => Ok(next),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn close(&self, of: &TestRun) -> Closed {
        self.close_as(of, false).await
    }

    /// Closes a run in the way of an execution that only closes it, because the test's own
    /// execution is gone.
    pub(crate) async fn close_alone(&self, of: &TestRun) -> Closed {
        self.close_as(of, true).await
    }

    async fn close_as(&self, of: &TestRun, only_closes: bool) -> Closed {
        match self.handle(Event::Close(CloseEvent { of: of.clone(), only_closes })).await.unwrap() {
            Answer::Closed(closed) => closed,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn record(&self, of: &TestRun) -> TestRecord {
        self.store.get(TENANT, of.test_id).await.unwrap().unwrap()
    }

    /// Returns the tenant's recorded counts of load tests that ended, for the day on which the test
    /// `of` was created.
    pub(crate) async fn counted(&self, of: &TestRun) -> EndedTests {
        let day = usage::Hour::of(self.record(of).await.created_at).day();
        let lines = self.usage.days(day, day, Some(TENANT)).await.unwrap();
        assert!(
            lines
                .iter()
                .all(|line| (line.operation.as_str(), line.key_name.as_str()) == ("load_test", KEY_NAME))
        );
        lines.first().map(|line| line.counts.tests).unwrap_or_default()
    }

    pub(crate) async fn stop(&self, of: &TestRun) {
        self.store.request_stop(TENANT, of.test_id, Timestamp::now()).await.unwrap().unwrap();
    }

    pub(crate) async fn report(&self, of: &TestRun) -> Option<Report> {
        self.store.report(TENANT, of.test_id).await.unwrap()
    }

    /// Closes the last run of a load test, and returns the report. Checks that the test and its
    /// report have this state, and that the messages of all fates add up to those that were due.
    pub(crate) async fn closed_as(&self, of: &TestRun, status: TestStatus) -> Report {
        assert!(!self.close(of).await.more);
        let (record, report) = (self.record(of).await, self.report(of).await.unwrap());
        assert_eq!((record.status, report.status), (status, status), "{}", report.summary);
        assert_eq!(record.summary.as_ref(), Some(&report.summary));
        let accounting = &report.accounting;
        let fates = [
            accounting.received,
            accounting.lost.unwrap_or(0),
            accounting.retained,
            accounting.unrecorded,
            accounting.refused,
            accounting.in_doubt,
            accounting.not_sent,
        ];
        assert_eq!(fates.iter().sum::<u64>(), accounting.due, "{accounting:?}");
        report
    }

    /// Puts one message that belongs to no load test on the queue of this integration test.
    pub(crate) async fn publish(&self) {
        let (name, options) = (self.name.as_str().into(), BasicPublishOptions::default());
        let put = self.channel.basic_publish("".into(), name, options, b"x", BasicProperties::default());
        assert!(put.await.unwrap().await.unwrap().is_ack());
    }

    /// Puts messages that belong to no load test on the queue of this integration test, and waits
    /// until they are there.
    pub(crate) async fn put_foreign(&self, count: usize) {
        for _ in 0..count {
            self.publish().await;
        }
        let expected = u32::try_from(count).unwrap();
        assert_eq!(self.ready(expected).await, expected);
    }

    /// Returns the number of ready messages on the queue of this integration test, as soon as it is
    /// `expected` or after 5 seconds.
    pub(crate) async fn ready(&self, expected: u32) -> u32 {
        let mut ready = 0;
        for _ in 0..100 {
            let options = QueueDeclareOptions { passive: true, ..Default::default() };
            let name = self.name.as_str().into();
            let queue = self.channel.queue_declare(name, options, FieldTable::default()).await.unwrap();
            ready = queue.message_count();
            if ready == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        ready
    }

    pub(crate) async fn delete_queue(&self) {
        let name = self.name.as_str().into();
        self.channel.queue_delete(name, QueueDeleteOptions::default()).await.unwrap();
    }

    pub(crate) async fn remove(self) {
        self.delete_queue().await;
        let usage = usage_of(&self.name);
        self.table.dynamodb.delete_table().table_name(usage).send().await.unwrap();
        self.table.remove().await;
    }
}

/// Returns the name of the usage table of an integration test, which counts the load tests that
/// ended.
fn usage_of(name: &str) -> String {
    format!("{name}-usage")
}

/// Builds a load test from these members of a request, within [`LIMITS`].
pub(crate) fn test(members: Value) -> LoadTest {
    let mut body = json!({"targetRef": "local"});
    let Value::Object(members) = members else { panic!("members") };
    body.as_object_mut().unwrap().extend(members);
    let request: LoadTestRequest = from_value(body).unwrap();
    request.into_parts().unwrap().2.within(&LIMITS).unwrap()
}
