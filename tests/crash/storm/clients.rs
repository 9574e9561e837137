//! AWS clients of the storm tests, and the queues, buckets and rules that the `World` of a test
//! creates with them.

use std::time::Duration;

use aws_sdk_eventbridge::types::Target;
use aws_sdk_s3::types::{
    Event, EventBridgeConfiguration, FilterRule, FilterRuleName, NotificationConfiguration,
    NotificationConfigurationFilter, QueueConfiguration, S3KeyFilter,
};
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::json;
use test_support::postgres::PASSWORD;

use super::delivery::Queue;

/// AWS clients of the storm test itself. They do not go through the proxy that injects faults.
pub(super) struct Clients {
    pub(super) sqs: aws_sdk_sqs::Client,
    pub(super) s3: aws_sdk_s3::Client,
    pub(super) dynamodb: aws_sdk_dynamodb::Client,
    events: aws_sdk_eventbridge::Client,
    secrets: aws_sdk_secretsmanager::Client,
}

impl Clients {
    pub(super) async fn new() -> Self {
        let sdk = runtime::Sdk::from_environment().await;
        // A test waits longer than the functions do.
        let sdk = sdk.single_attempt(Duration::from_secs(20));
        Self {
            sqs: aws_sdk_sqs::Client::new(&sdk),
            s3: aws_sdk_s3::Client::from_conf(
                aws_sdk_s3::config::Builder::from(&sdk).force_path_style(true).build(),
            ),
            dynamodb: aws_sdk_dynamodb::Client::new(&sdk),
            events: aws_sdk_eventbridge::Client::new(&sdk),
            secrets: aws_sdk_secretsmanager::Client::new(&sdk),
        }
    }

    /// Creates a queue for the test `world`. With `redrive`, SQS moves a message to that other
    /// queue after that many receives.
    pub(super) async fn queue(&self, world: &str, name: &str, redrive: Option<(&Queue, u32)>) -> Queue {
        let mut create = self.sqs.create_queue().queue_name(format!("{world}-{name}"));
        // Short, so that the test does not wait long for messages that a killed function held.
        create = create.attributes(QueueAttributeName::VisibilityTimeout, "8");
        if let Some((dead, receives)) = redrive {
            let policy = json!({"deadLetterTargetArn": dead.arn, "maxReceiveCount": receives});
            create = create.attributes(QueueAttributeName::RedrivePolicy, policy.to_string());
        }
        let url = create.send().await.unwrap().queue_url.unwrap();
        let get = self.sqs.get_queue_attributes().queue_url(&url);
        let attributes = get.attribute_names(QueueAttributeName::QueueArn).send().await.unwrap();
        let arn = attributes.attributes.unwrap()[&QueueAttributeName::QueueArn].clone();
        Queue { url, arn }
    }

    /// Creates a bucket that notifies the queue `notifications` of payloads and of dropped files,
    /// and EventBridge of all objects.
    pub(super) async fn bucket(&self, world: &str, notifications: &Queue) {
        self.s3.create_bucket().bucket(world).send().await.unwrap();
        let tell = |prefix: &str| {
            let prefix = FilterRule::builder().name(FilterRuleName::Prefix).value(prefix).build();
            let filter = S3KeyFilter::builder().filter_rules(prefix).build();
            let tell =
                QueueConfiguration::builder().queue_arn(&notifications.arn).events(Event::S3ObjectCreated);
            tell.filter(NotificationConfigurationFilter::builder().key(filter).build()).build().unwrap()
        };
        let told = NotificationConfiguration::builder()
            .queue_configurations(tell("incoming/"))
            .queue_configurations(tell("drop/"))
            .event_bridge_configuration(EventBridgeConfiguration::builder().build());
        let put = self.s3.put_bucket_notification_configuration().bucket(world);
        put.notification_configuration(told.build()).send().await.unwrap();
    }

    /// Creates a rule like the stack's, by which EventBridge sends notifications of payloads to the
    /// queue `receipts`.
    pub(super) async fn rule(&self, world: &str, receipts: &Queue) {
        let detail = json!({"bucket": {"name": [world]}, "object": {"key": [{"prefix": "incoming/"}]}});
        let pattern = json!({"source": ["aws.s3"], "detail-type": ["Object Created"], "detail": detail});
        self.events.put_rule().name(world).event_pattern(pattern.to_string()).send().await.unwrap();
        let target = Target::builder().id("receipts").arn(&receipts.arn).build().unwrap();
        self.events.put_targets().rule(world).targets(target).send().await.unwrap();
    }

    pub(super) async fn secret(&self, world: &str) {
        let secret = json!({"username": "postgres", "password": PASSWORD}).to_string();
        self.secrets.create_secret().name(world).secret_string(secret).send().await.unwrap();
    }
}
