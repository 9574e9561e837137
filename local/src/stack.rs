//! Start, use and end of a local stack, with the order in which its components start.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use runtime::Sdk;
use tempfile::TempPath;
use tokio::task::JoinHandle;

use crate::commands::Signals;
use crate::components::kafka::{self, Kafka};
use crate::components::ministack::{ACCESS_KEY_ID, Ministack, REGION, SECRET_ACCESS_KEY};
use crate::components::postgres::Postgres;
use crate::components::queue_manager::QueueManager;
use crate::components::rabbitmq::RabbitMq;
use crate::console::{complain, say};
use crate::deploy::{DROP_BUCKET, Deployment, EVENT_BUS, EVENT_TOPIC, INLINE_TARGETS, STACK_NAME, deploy};
use crate::env_file::{self, Variables};
use crate::failure::{Explain as _, Failure};
use crate::front::{self, Door, Front, Kind};
use crate::layout::Layout;
use crate::supervisor::{Supervisor, leftovers};
use crate::targets::Given;
use crate::{seed, setup};

/// Running local stack that answers requests.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) base_url: String,
    /// Settings that the user gave to the stack.
    pub(crate) given: Given,
    /// Environment variables with the stack's addresses and keys, also written to the env file.
    pub(crate) variables: Variables,
    front: JoinHandle<Result<(), Failure>>,
    env_file: TempPath,
}

/// Starts a stack, runs `work` with it, and stops it whatever the outcome is. The kind of API that
/// `door` names is served at the port of `door`, and the other kind at a free port.
///
/// # Errors
/// If a component cannot be started or ends by itself, or `work` fails.
pub(crate) async fn during(
    layout: &Layout,
    door: Door,
    signals: &mut Signals,
    given: Given,
    work: impl AsyncFnOnce(&Stack, &mut Signals) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let (supervisor, mut ends) = Supervisor::new(layout.clone());
    let started = tokio::select! {
        stopped = signals.wait() => Ok(Err(stopped)),
        Some(ended) = ends.recv() => Err(supervisor.describe(&ended)),
        stack = start(layout, &supervisor, door, given) => stack.map(Ok),
    };
    let outcome = match started {
        Ok(Ok(stack)) => {
            let outcome = tokio::select! {
                outcome = work(&stack, signals) => outcome,
                Some(ended) = ends.recv() => Err(supervisor.describe(&ended)),
            };
            drop(stack.env_file);
            stack.front.abort();
            outcome
        }
        Ok(Err(stopped)) => Ok(stopped),
        Err(failure) => Err(failure),
    };
    if let Err(failure) = &outcome {
        complain(failure);
    }
    say("\nStopping");
    let begin = Instant::now();
    supervisor.stop().await;
    say(format_args!("  everything is stopped after {:.1} s", begin.elapsed().as_secs_f64()));
    Ok(outcome.unwrap_or(ExitCode::FAILURE))
}

async fn start(layout: &Layout, supervisor: &Supervisor, door: Door, given: Given) -> Result<Stack, Failure> {
    let begin = Instant::now();
    say(format_args!("Starting the local stack in {}", layout.state.display()));
    // It describes a stack that is gone.
    let _missing = std::fs::remove_file(layout.env_file());
    let ended = leftovers::end(layout).await;
    if !ended.is_empty() {
        say(format_args!("  ended what an earlier stack had left running: {}", ended.join(", ")));
    }
    layout.start_afresh()?;
    setup::ensure(layout).await?;

    let [aws_port, database_port, amqp_port, distribution_port, epmd_port, kafka_port] =
        test_support::ports::free().or_explain(|| "find free ports on 127.0.0.1".to_owned())?;
    let ministack = Ministack::new(aws_port, given.ibm_mq_library.as_deref().and_then(Path::parent));
    let postgres = Postgres::new(database_port);
    let rabbitmq = RabbitMq::new(amqp_port, distribution_port, epmd_port);
    let queue_manager = QueueManager::new(layout, &rabbitmq.password)?;
    let library = given.ibm_mq_library.clone().unwrap_or_else(|| queue_manager.library());
    let kafka = kafka::is_wanted().then_some(Kafka { port: kafka_port });
    let sdk = Sdk::at(&ministack.endpoint(), REGION, ACCESS_KEY_ID, SECRET_ACCESS_KEY).await;
    let (deployment, (), ()) = tokio::try_join!(
        async {
            let database_secret = async {
                supervisor.start(ministack.component(layout)?).await?;
                seed::database_secret(&sdk, &postgres).await
            };
            let broker = async {
                match &kafka {
                    Some(kafka) => supervisor.start(kafka.component(layout)).await,
                    None => Ok(()),
                }
            };
            let database = async { supervisor.start(postgres.component(layout)?).await };
            let (secret, (), ()) = tokio::try_join!(database_secret, database, broker)?;
            deploy(layout, &ministack, &secret, &library, kafka.as_ref()).await
        },
        async {
            supervisor.start(rabbitmq.epmd(layout)?).await?;
            supervisor.start(rabbitmq.component(layout)?).await
        },
        async {
            match &given.ibm_mq_library {
                // Only the stand-in's library reaches it.
                Some(_) => Ok(()),
                None => supervisor.start(queue_manager.component()?).await,
            }
        },
    )?;
    if let Some(kafka) = &kafka {
        supervisor.start(kafka.poller(layout, &ministack, deployment.name("UpsertFunction")?)?).await?;
        say("  chunks and events of batches go through Kafka, here a stand-in");
    }
    seed::seed(&sdk, &deployment, &rabbitmq, &given).await?;
    say("  stored the local API keys, target profiles and secrets, and declared the queues");

    let other = front::bind(0, door.kind.other()).await?;
    let base_url = door.base_url();
    let rest_api = if door.kind == Kind::Rest { base_url.clone() } else { other.base_url() };
    let mut variables =
        variables(&base_url, &given, &deployment, &ministack, &postgres, &rabbitmq, &queue_manager)?;
    variables.push(("REST_API", rest_api));
    if let Some(kafka) = &kafka {
        variables.push(("KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap_servers()));
        variables.push(("KAFKA_EVENTS_TOPIC", kafka::EVENTS_TOPIC.to_owned()));
    }
    let [http, rest] = Front::both(&sdk, &deployment, front::Log::open(layout)?)?;
    let (one, another) = if door.kind == Kind::Http { (http, rest) } else { (rest, http) };
    let front =
        tokio::spawn(
            async move { tokio::try_join!(one.serve(door), another.serve(other)).map(|((), ())| ()) },
        );
    let env_file = env_file::publish(&layout.env_file(), &variables)?;
    say(format_args!("  answering at {base_url} after {:.1} s", begin.elapsed().as_secs_f64()));
    Ok(Stack { base_url, given, variables, front, env_file })
}

fn variables(
    base_url: &str,
    given: &Given,
    deployment: &Deployment,
    ministack: &Ministack,
    postgres: &Postgres,
    rabbitmq: &RabbitMq,
    queue_manager: &QueueManager,
) -> Result<Variables, Failure> {
    let [key, ..] = &seed::KEYS;
    Ok(vec![
        ("API", base_url.to_owned()),
        ("API_KEY", given.api_key(key.name)),
        ("TENANT", key.tenant.to_owned()),
        ("AWS_ENDPOINT_URL", ministack.endpoint()),
        ("AWS_REGION", REGION.to_owned()),
        // The first version of the AWS CLI knows this one alone.
        ("AWS_DEFAULT_REGION", REGION.to_owned()),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY.to_owned()),
        ("LOCAL_STACK_NAME", STACK_NAME.to_owned()),
        ("DATABASE_URL", postgres.url()),
        ("AMQP_URL", rabbitmq.url()),
        ("IDEMPOTENCY_TABLE", deployment.name("IdempotencyTable")?.to_owned()),
        ("RESULTS_BUCKET", deployment.name("ResultsBucket")?.to_owned()),
        ("ACCESS_TABLE", deployment.name("AccessTable")?.to_owned()),
        ("LIMITS_TABLE", deployment.name("LimitsTable")?.to_owned()),
        // The command line explains the rules by them, as it does by the parameters of a stack.
        ("INLINE_TARGETS", INLINE_TARGETS.to_owned()),
        ("ESTABLISHMENT_OWNERS", "first".to_owned()),
        ("RABBIT_CONN_NAME", rabbitmq.conn_name()),
        ("IBM_MQ_DIRECTORY", queue_manager.directory.display().to_string()),
        ("PAYLOAD_BUCKET", deployment.name("PayloadBucket")?.to_owned()),
        ("BATCHES_TABLE", deployment.name("BatchesTable")?.to_owned()),
        ("BATCHES_QUEUE_URL", deployment.name("BatchesReceivedQueue")?.to_owned()),
        ("DROP_BUCKET", DROP_BUCKET.to_owned()),
        ("EVENT_BUS_ARN", EVENT_BUS.to_owned()),
        ("EVENTS_QUEUE_URL", deployment.events_queue.clone()),
        ("EVENT_TOPIC_ARN", EVENT_TOPIC.to_owned()),
        ("DROPS_QUEUE_URL", deployment.name("DropsReceivedQueue")?.to_owned()),
        ("DROP_INTAKE_FUNCTION", deployment.name("DropIntakeFunction")?.to_owned()),
        ("CHUNKS_QUEUE_URL", deployment.name("ChunksReadyQueue")?.to_owned()),
        ("CHUNKER_FUNCTION", deployment.name("ChunkerFunction")?.to_owned()),
        ("UPSERT_FUNCTION", deployment.name("UpsertFunction")?.to_owned()),
        ("MQ_ACCESS_FUNCTION", deployment.name("MqAccessFunction")?.to_owned()),
        ("ESTABLISHMENTS_FUNCTION", deployment.name("EstablishmentsFunction")?.to_owned()),
        ("BATCHES_FAILED_QUEUE_URL", deployment.name("BatchesFailedQueue")?.to_owned()),
        ("CHUNKS_FAILED_QUEUE_URL", deployment.name("ChunksFailedQueue")?.to_owned()),
        ("UNHANDLED_QUEUE_URL", deployment.name("UnhandledQueue")?.to_owned()),
        ("AUDIT_LOG_GROUP", deployment.name("AuditEventLogs")?.to_owned()),
        ("DEAD_LETTER_FUNCTION", deployment.name("DeadLetterFunction")?.to_owned()),
        ("RECONCILE_FUNCTION", deployment.name("ReconcileFunction")?.to_owned()),
        ("TESTS_TABLE", deployment.name("TestsTable")?.to_owned()),
        ("LOAD_TEST_MACHINE", deployment.name("LoadTestMachine")?.to_owned()),
    ])
}
