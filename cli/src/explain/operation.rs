//! Operations of the API that `integrahub explain` knows, with their routes and the scopes that
//! they need. A test compares the scopes with `openapi.yaml`.

use access::Scope;

use crate::args::Operation;

/// Kind of resource that an operation works on, which determines the rules to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The operation works on a target with a queue.
    Queue,
    /// The operation works on a target with a queue or an exchange.
    QueueOrExchange,
    /// The operation works on a target, with a queue or without.
    Connection,
    /// The operation works on the products of establishments.
    Products,
    /// The operation works on neither a target nor products.
    Nothing,
}

/// Requirements of an operation: its route, its scopes and its subject.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needed {
    /// HTTP method and path of the API's route.
    pub(super) route: (&'static str, &'static str),
    /// Scopes of which the API key needs at least one.
    pub(super) scopes: &'static [Scope],
    pub(super) subject: Subject,
}

impl Operation {
    /// Returns the route, the scopes and the subject of the operation.
    pub(super) const fn needed(self) -> Needed {
        use Scope::{MqAdmin, MqRead, MqWrite, OpsRead, ProductsRead, ProductsWrite};

        let (route, scopes, subject): (_, &'static [Scope], _) = match self {
            Self::Produce => (("POST", "/messages/produce"), &[MqWrite], Subject::QueueOrExchange),
            Self::Consume => (("POST", "/messages/consume"), &[MqWrite], Subject::Queue),
            Self::Browse => (("POST", "/messages/consume"), &[MqRead], Subject::Queue),
            Self::Move => (("POST", "/messages/move"), &[MqWrite], Subject::Queue),
            Self::Depth => (("POST", "/queue/depth"), &[MqRead], Subject::Queue),
            Self::Connect => (("POST", "/connections/test"), &[MqRead], Subject::Connection),
            Self::Targets => (("GET", "/targets"), &[MqRead, MqWrite, MqAdmin], Subject::Nothing),
            Self::Test => (("POST", "/tests"), &[MqAdmin], Subject::Queue),
            Self::Send => (("POST", "/v1/inovafarma/products"), &[ProductsWrite], Subject::Products),
            Self::Batches => (("GET", "/v1/inovafarma/batches"), &[ProductsRead], Subject::Products),
            Self::Replay => {
                (("POST", "/v1/inovafarma/batches/{batch_id}/replay"), &[ProductsWrite], Subject::Products)
            }
            Self::Status => (("GET", "/status"), &[OpsRead], Subject::Nothing),
        };
        Needed { route, scopes, subject }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_contract_names_the_scopes_of_each_operation() {
        let contract: Value = serde_norway::from_str(include_str!("../../../openapi.yaml")).unwrap();
        for operation in Operation::value_variants() {
            let Needed { route: (method, path), scopes, .. } = operation.needed();
            let described = &contract["paths"][path][method.to_lowercase()]["description"];
            let words = described.as_str().unwrap_or_default().split_whitespace();
            let text = words.collect::<Vec<_>>().join(" ");
            for scope in scopes {
                assert!(text.contains(&format!("`{scope}`")), "{operation:?} {scope}: {text}");
            }
            let shown = operation.to_possible_value().unwrap().get_help().unwrap().to_string();
            assert!(shown.contains(&format!("{method} {path}")), "{shown}");
        }
    }
}
