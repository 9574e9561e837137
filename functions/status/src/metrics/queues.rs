//! Metrics of the deployment's SQS queues: the number of messages in each.

use std::convert::Infallible;
use std::error::Error;
use std::str::FromStr;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use futures_util::future::try_join_all;
use runtime::metrics::{QUEUE_MESSAGES, Scrape};

/// Attributes of an SQS queue that are read, each with its value of the metric's label `state`.
const STATES: [(QueueAttributeName, &str); 3] = [
    (QueueAttributeName::ApproximateNumberOfMessages, "visible"),
    (QueueAttributeName::ApproximateNumberOfMessagesNotVisible, "in_flight"),
    (QueueAttributeName::ApproximateNumberOfMessagesDelayed, "delayed"),
];

/// Names and URLs of SQS queues, parsed from a text such as `name=url name=url`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueUrls(Vec<(String, String)>);

impl FromStr for QueueUrls {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let queue = |part: &str| part.split_once('=').map(|(name, url)| (name.to_owned(), url.to_owned()));
        Ok(Self(text.split_whitespace().filter_map(queue).collect()))
    }
}

/// Client that reads the number of messages in the deployment's SQS queues.
#[derive(Debug)]
pub(crate) struct Queues {
    client: Client,
    urls: QueueUrls,
}

impl Queues {
    /// Creates the client; `None` if no queues are configured.
    pub(crate) fn new(client: impl FnOnce() -> Client, urls: QueueUrls) -> Option<Self> {
        (!urls.0.is_empty()).then(|| Self { client: client(), urls })
    }

    /// Requests the number of messages of every queue from SQS.
    ///
    /// # Errors
    /// If SQS does not respond for one of the queues.
    pub(crate) async fn metrics(&self) -> Result<Scrape, Box<dyn Error + Send + Sync>> {
        let asked = try_join_all(self.urls.0.iter().map(|(_, url)| self.messages(url))).await?;
        let mut scrape = Scrape::default();
        for ((name, _), messages) in self.urls.0.iter().zip(asked) {
            for ((_, state), messages) in STATES.iter().zip(messages) {
                scrape.put(QUEUE_MESSAGES, &[name.as_str(), *state], messages);
            }
        }
        Ok(scrape)
    }

    /// Returns the numbers of visible, in-flight and delayed messages of a queue.
    async fn messages(&self, url: &str) -> Result<[u64; 3], Box<dyn Error + Send + Sync>> {
        let names = STATES.map(|(name, _)| name);
        let asked =
            self.client.get_queue_attributes().queue_url(url).set_attribute_names(Some(names.to_vec()));
        let found = asked.send().await?.attributes.unwrap_or_default();
        Ok(names.map(|name| found.get(&name).and_then(|number| number.parse().ok()).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_read_by_name() {
        let urls: QueueUrls =
            "chunks-ready=http://sqs/1/chunks?a=b unhandled=http://sqs/1/unhandled".parse().unwrap();
        let expected = [("chunks-ready", "http://sqs/1/chunks?a=b"), ("unhandled", "http://sqs/1/unhandled")];
        assert_eq!(urls.0, expected.map(|(name, url)| (name.to_owned(), url.to_owned())));
        assert_eq!("".parse::<QueueUrls>(), Ok(QueueUrls::default()));
    }
}
