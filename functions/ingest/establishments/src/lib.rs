//! Lists, assigns, moves and releases the owners of establishments. Administrators invoke the
//! function directly, so IAM decides who may do so.
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

use request::{Change, Listing, Request};

/// State of the function `establishments`, reused by every invocation.
#[derive(Debug)]
pub struct Establishments {
    database: Database,
}

impl Establishments {
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self { database }
    }

    /// Executes the action that an event requests. For an invalid event, the response has only the
    /// member `error`: that is the administrator's mistake, and not a failure of the function.
    ///
    /// # Errors
    /// If the database fails.
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
        Ok(match request {
            Request::List { filter, listing: Listing { cursor, limit } } => {
                let owned = self.database.owned_establishments(&filter, cursor, limit).await?;
                answer::page(&owned, owned.last().map(|last| last.cnpj), limit)
            }
            Request::Unowned(Listing { cursor, limit }) => {
                let cnpjs = self.database.unowned_establishments(cursor, limit).await?;
                let unowned: Vec<Value> = cnpjs.iter().map(answer::unowned).collect();
                answer::page(&unowned, cnpjs.last().copied(), limit)
            }
            Request::Change(Change { change, cnpjs, by, dry_run }) => {
                let asked = OwnerRequest { change, cnpjs: &cnpjs, by: &by, dry_run };
                answer::changed(&self.database.change_owners(asked).await?, dry_run)
            }
        })
    }
}
