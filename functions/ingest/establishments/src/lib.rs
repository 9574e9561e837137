//! Lists, assigns, moves and releases the owners of establishments. Administrators invoke the
//! function directly, so IAM decides who may.
//!
//! A change is made in transactions of at most 32 establishments. An invocation that fails may have
//! changed some of them, and can be repeated.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod answer;
mod error;
mod request;

pub use error::EstablishmentsError;

use catalog::{Database, OwnerRequest};
use serde_json::{Value, json};

use answer::{Changed, Owned, Page, Unowned};
use request::{Change, Listing, Request};

/// The function's state, which outlives invocations.
#[derive(Debug)]
pub struct Establishments {
    database: Database,
}

impl Establishments {
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self { database }
    }

    /// Executes the action of an event. The answer to an event that cannot be understood has the
    /// member `error` alone: it is the administrator's mistake, and no failure of the function.
    ///
    /// # Errors
    /// Database's error.
    pub async fn handle(&self, event: Value) -> Result<Value, EstablishmentsError> {
        match Request::read(event) {
            Ok(request) => self.answer(request).await,
            Err(error) => {
                tracing::warn!(
                    event_type = "establishments.malformed",
                    error = &error as &dyn std::error::Error,
                    "an event was not understood: {error}"
                );
                Ok(json!({"error": error.to_string()}))
            }
        }
    }

    async fn answer(&self, request: Request) -> Result<Value, EstablishmentsError> {
        let answer = match request {
            Request::List { filter, listing: Listing { cursor, limit } } => {
                let owned = self.database.owned_establishments(&filter, cursor, limit).await?;
                serde_json::to_value(Page::of(owned.into_iter().map(Owned::from).collect(), limit))
            }
            Request::Unowned(Listing { cursor, limit }) => {
                let unowned = self.database.unowned_establishments(cursor, limit).await?;
                let unowned = unowned.into_iter().map(|cnpj| Unowned { cnpj });
                serde_json::to_value(Page::of(unowned.collect(), limit))
            }
            Request::Change(change) => serde_json::to_value(self.change(&change).await?),
        };
        answer.map_err(EstablishmentsError::Answer)
    }

    async fn change(&self, request: &Change) -> Result<Changed, EstablishmentsError> {
        let Change { change, cnpjs, by, dry_run } = request;
        let asked = OwnerRequest { change: *change, cnpjs, by, dry_run: *dry_run };
        Ok(Changed::of(self.database.change_owners(asked).await?, *dry_run))
    }
}
