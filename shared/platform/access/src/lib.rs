//! Callers and their permissions: tenants, API keys with their scopes and establishments, the
//! tenants' target profiles, allow-lists, limits and budgets, their grants to drop objects into S3,
//! and the rate card. All are kept in one DynamoDB table. Beside keys, a deployment may take the
//! tokens of an issuer.

mod api_key;
mod caller;
mod items;
mod limits_in_force;
pub mod pk;
pub mod rates;
mod store;
mod token;

pub use api_key::{ApiKey, KeyHash, KeyHashError, PREFIX, RandomnessError};
pub use caller::{API_KEY, PRODUCTS_API_KEYS, Principal, Scope, ScopeError, authenticate, authenticate_by};
pub use items::{
    BudgetItem, DropGrant, Establishments, ItemError, KeyItem, KeyRefusal, LimitsItem, Month, MonthError,
    Rate, RateError, Reached, Settled, SpentItem, TargetLimits, TargetsItem, TenantItem, check_tenant_id,
    read_rates, without_version,
};
pub use limits_in_force::{DefaultLimits, DefaultLimitsError, LimitedTarget, LimitsInForce, TenantLimit};
pub use store::{AccessStore, AccessTableError, Account};
pub use token::{Audiences, JwksUrl, TokenSettingError, TokenSettings};
