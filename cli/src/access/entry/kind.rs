//! Kinds of entries in the access table.

/// Kind of an entry of the access table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Tenant itself: its name, and whether it is enabled.
    Tenant,
    /// API key of a tenant.
    Key,
    /// Target profile: a named broker and queue.
    Profile,
    /// Allow-list of targets that a tenant's requests may name inline.
    Targets,
    /// Grant that permits a tenant to drop files into S3.
    Grant,
    /// Rate limits of a tenant's requests.
    Limits,
    /// Monthly budget of a tenant.
    Budget,
    /// Rate card: the prices of what tenants use.
    Rates,
}

impl Kind {
    /// Returns the name of the kind, as messages and documents show it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Key => "key",
            Self::Profile => "profile",
            Self::Targets => "targets",
            Self::Grant => "grant",
            Self::Limits => "limits",
            Self::Budget => "budget",
            Self::Rates => "rates",
        }
    }

    /// Returns the attributes that an item of the kind may have, besides its partition key.
    pub(crate) const fn members(self) -> &'static [&'static str] {
        match self {
            Self::Tenant => &["version", "name", "enabled", "limits"],
            Self::Key => &[
                "version",
                "tenantId",
                "name",
                "scopes",
                "cnpjs",
                "allCnpjs",
                "createdAt",
                "expiresAt",
                "disabled",
                "limits",
            ],
            Self::Profile => &[
                "version",
                "target",
                "queues",
                "exchanges",
                "routingKeys",
                "backout",
                "idleConnections",
                "connection",
                "overrides",
                "limits",
            ],
            Self::Targets => &["version", "entries"],
            Self::Grant => &["version", "cnpjs", "allCnpjs", "buckets"],
            Self::Limits => &["version", "requests", "targets", "queueManagers"],
            Self::Budget => &["version", "amount", "refuse", "warnAt"],
            Self::Rates => &["version", "currency", "rates"],
        }
    }
}
