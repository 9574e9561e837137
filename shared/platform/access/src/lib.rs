//! Callers and their permissions: API keys with their scopes and establishments, the tenants'
//! target profiles, and their grants to drop objects into S3. All are kept in one DynamoDB table.

mod caller;
mod store;

pub use caller::{API_KEY, PRODUCTS_API_KEYS, Principal, Scope, authenticate, authenticate_by};
pub use store::{AccessStore, DropGrant, GrantError, KeyItem};
