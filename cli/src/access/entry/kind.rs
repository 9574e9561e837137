//! Kinds of entries.

/// Kind of an entry of the access table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Tenant. It is sorted before its keys, profiles and other entries.
    Tenant,
    /// An API key.
    Key,
    /// A target profile.
    Profile,
    /// An allow-list.
    Targets,
    /// A grant to drop files.
    Grant,
    /// Limits of a tenant's requests.
    Limits,
    /// A budget of a tenant.
    Budget,
    /// The rate card.
    Rates,
}

impl Kind {
    /// Returns the name of the kind, for people and documents.
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

    /// Returns the attributes that an item of the kind may have, besides its key.
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
