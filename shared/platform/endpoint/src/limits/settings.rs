//! Settings of the rate limiter, from environment variables.

use access::{DefaultLimits, TargetLimits, TenantLimit};
use aws_sdk_dynamodb::Client;
use runtime::Environment;

use crate::limits::limiter::Limiter;

/// Settings for a [`Limiter`], from environment variables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimiterSettings {
    /// Name of the DynamoDB table of buckets; empty if nothing is limited.
    table: String,
    defaults: DefaultLimits,
}

impl LimiterSettings {
    /// Reads the environment variables `LIMITS_TABLE`, `TENANT_LIMIT` and `TARGET_LIMIT`. All are
    /// optional; without the first nothing is limited.
    pub fn read<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> Self {
        let table = environment.optional("LIMITS_TABLE", String::new());
        let TenantLimit(requests) = environment.optional("TENANT_LIMIT", TenantLimit::default());
        let targets = environment.optional("TARGET_LIMIT", TargetLimits::default());
        Self { table, defaults: DefaultLimits { requests, targets } }
    }

    /// Creates the rate limiter with this DynamoDB client. Without a table, it admits every
    /// request.
    #[must_use]
    pub fn build(self, dynamodb: &Client) -> Limiter {
        if self.table.is_empty() {
            return Limiter::off();
        }
        Limiter::new(dynamodb.clone(), self.table, self.defaults)
    }
}

#[cfg(test)]
mod tests {
    use access::Rate;

    use super::*;

    fn read(tenant: &str, target: &str) -> Result<LimiterSettings, String> {
        let mut environment = Environment::of(|name| match name {
            "LIMITS_TABLE" => Some("limits".to_owned()),
            "TENANT_LIMIT" => Some(tenant.to_owned()),
            "TARGET_LIMIT" => Some(target.to_owned()),
            _ => None,
        });
        let settings = LimiterSettings::read(&mut environment);
        environment.check().map(|()| settings).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_come_from_the_environment() {
        let settings = read("requests=100/200", "messages=500 bytes=1000000").unwrap();
        assert_eq!(settings.table, "limits");
        let parsed = DefaultLimits::parse("requests=100/200", "messages=500 bytes=1000000");
        assert_eq!(parsed, Ok(settings.defaults));
        assert_eq!(settings.defaults.targets.messages, Rate::new(500.0, Some(500)).ok());
        assert_eq!(read("", "").unwrap().defaults, DefaultLimits::default());
    }

    #[test]
    fn a_wrong_default_is_reported_by_its_variable() {
        let refused = read("bytes=5", "messages=0").unwrap_err();
        assert!(refused.contains("TENANT_LIMIT: a tenant has a limit of requests alone"), "{refused}");
        assert!(refused.contains("TARGET_LIMIT: a rate is a number"), "{refused}");
    }
}
