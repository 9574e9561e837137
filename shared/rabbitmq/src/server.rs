//! What a broker says of itself.

use amq_protocol::frame::{AMQPFrame, parsing::parse_frame};
use lapin::protocol::{AMQPClass, connection};
use lapin::types::{AMQPValue, FieldTable};

use crate::errors::PRODUCT;

/// The product, the version and the cluster's name of the server properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) product: String,
    pub(crate) version: Option<String>,
    pub(crate) cluster: Option<String>,
}

impl Default for Server {
    fn default() -> Self {
        Self { product: PRODUCT.to_owned(), version: None, cluster: None }
    }
}

impl Server {
    /// Reads `Connection.Start`, a broker's first frame.
    pub(crate) fn from_greeting(frame: &[u8]) -> Self {
        let Ok((_, AMQPFrame::Method(_, AMQPClass::Connection(connection::AMQPMethod::Start(start))))) =
            parse_frame(frame)
        else {
            return Self::default();
        };
        let text = |name| text(&start.server_properties, name);
        Self {
            product: text("product").unwrap_or_else(|| PRODUCT.to_owned()),
            version: text("version"),
            cluster: text("cluster_name"),
        }
    }
}

fn text(properties: &FieldTable, name: &str) -> Option<String> {
    match properties.inner().get(name)? {
        AMQPValue::LongString(text) => String::from_utf8(text.as_bytes().to_vec()).ok(),
        _ => None,
    }
}
