//! A bucket that the deployment does not own, with the notifications that its owner configures.

use aws_sdk_s3::Client;
use aws_sdk_s3::types::{
    Event, FilterRule, FilterRuleName, NotificationConfiguration, NotificationConfigurationFilter,
    QueueConfiguration, S3KeyFilter,
};

use crate::components::ministack::REGION;
use crate::deploy::DROP_BUCKET;
use crate::failure::{Explain as _, Failure};

/// # Errors
/// The bucket could not be made or configured.
pub(super) async fn bucket(s3: Client, queue_url: &str) -> Result<(), Failure> {
    let explain = || format!("make the bucket {DROP_BUCKET}");
    s3.create_bucket().bucket(DROP_BUCKET).send().await.or_explain(explain)?;
    let prefix = FilterRule::builder().name(FilterRuleName::Prefix).value("drop/").build();
    let key = S3KeyFilter::builder().filter_rules(prefix).build();
    let queue = QueueConfiguration::builder()
        .queue_arn(arn(queue_url)?)
        .events(Event::from("s3:ObjectCreated:*"))
        .filter(NotificationConfigurationFilter::builder().key(key).build())
        .build()
        .or_explain(explain)?;
    let notifications = NotificationConfiguration::builder().queue_configurations(queue).build();
    let put = s3.put_bucket_notification_configuration().bucket(DROP_BUCKET);
    put.notification_configuration(notifications).send().await.or_explain(explain)?;
    Ok(())
}

/// A queue's URL ends with its account and its name.
fn arn(queue_url: &str) -> Result<String, Failure> {
    let mut parts = queue_url.rsplit('/');
    let (name, account) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if name.is_empty() || account.is_empty() {
        return Err(Failure::new(format!("{queue_url} is no queue's URL.")));
    }
    Ok(format!("arn:aws:sqs:{REGION}:{account}:{name}"))
}
