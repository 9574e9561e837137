//! The destinations of events: a bus with a rule to a queue, and a topic with a queue that
//! subscribes to it.

use aws_sdk_eventbridge::types::Target;
use aws_sdk_sqs::types::QueueAttributeName;

use crate::components::ministack::REGION;
use crate::failure::{Explain as _, Failure};

/// The stand-in's account.
const ACCOUNT: &str = "000000000000";
/// The bus, the topic and the bus's queue have one name.
const NAME: &str = "integrahub-events";
const TOPIC_QUEUE: &str = "integrahub-events-of-the-topic";
/// Time that a queue without a reader keeps an event, in seconds.
const RETENTION_SECONDS: &str = "3600";

/// Pattern that every event of this project matches.
const PATTERN: &str = r#"{"source": ["integrahub"]}"#;

/// The bus's ARN, which the deployment needs before there is a bus.
pub(crate) fn bus_arn() -> String {
    format!("arn:aws:events:{REGION}:{ACCOUNT}:event-bus/{NAME}")
}

/// The topic's ARN.
pub(crate) fn topic_arn() -> String {
    format!("arn:aws:sns:{REGION}:{ACCOUNT}:{NAME}")
}

/// Clients that make the bus, the topic and the queues.
pub(super) struct Clients {
    pub(super) bus: aws_sdk_eventbridge::Client,
    pub(super) topic: aws_sdk_sns::Client,
    pub(super) sqs: aws_sdk_sqs::Client,
}

/// The URLs of the queue behind the bus, and of the one behind the topic.
#[derive(Clone, Debug)]
pub(crate) struct EventQueues {
    pub(crate) of_the_bus: String,
    pub(crate) of_the_topic: String,
}

/// # Errors
/// What could not be made.
pub(super) async fn destinations(clients: &Clients) -> Result<EventQueues, Failure> {
    let queues = EventQueues {
        of_the_bus: queue(&clients.sqs, NAME).await?,
        of_the_topic: queue(&clients.sqs, TOPIC_QUEUE).await?,
    };
    tokio::try_join!(bus(&clients.bus), topic(&clients.topic))?;
    Ok(queues)
}

async fn bus(client: &aws_sdk_eventbridge::Client) -> Result<(), Failure> {
    let explain = || format!("make the event bus {NAME}");
    client.create_event_bus().name(NAME).send().await.or_explain(explain)?;
    let rule = client.put_rule().name(NAME).event_bus_name(NAME).event_pattern(PATTERN);
    rule.send().await.or_explain(explain)?;
    let target = Target::builder().id("queue").arn(queue_arn(NAME)).build().or_explain(explain)?;
    let targets = client.put_targets().rule(NAME).event_bus_name(NAME).targets(target);
    targets.send().await.or_explain(explain)?;
    Ok(())
}

async fn topic(client: &aws_sdk_sns::Client) -> Result<(), Failure> {
    let explain = || format!("make the topic {NAME}");
    client.create_topic().name(NAME).send().await.or_explain(explain)?;
    let subscription = client.subscribe().topic_arn(topic_arn()).protocol("sqs");
    let subscription = subscription.endpoint(queue_arn(TOPIC_QUEUE)).attributes("RawMessageDelivery", "true");
    subscription.send().await.or_explain(explain)?;
    Ok(())
}

async fn queue(client: &aws_sdk_sqs::Client, name: &str) -> Result<String, Failure> {
    let explain = || format!("make the queue {name}");
    let queue = client.create_queue().queue_name(name);
    let queue = queue.attributes(QueueAttributeName::MessageRetentionPeriod, RETENTION_SECONDS);
    let made = queue.send().await.or_explain(explain)?;
    made.queue_url.ok_or_else(|| Failure::new(format!("The queue {name} has no URL.")))
}

fn queue_arn(name: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}")
}
