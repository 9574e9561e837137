//! Options of an allow-list entry, such as `tenant=` and `tls=`.

use std::collections::BTreeSet;

use wildmatch::WildMatch;

use crate::target::BrokerKind;

/// Options of an allow-list entry, as written. An absent option is `None`, false or an empty list.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Options {
    pub(super) tenants: Option<Tenants>,
    pub(super) virtual_hosts: Vec<WildMatch>,
    pub(super) channels: Vec<WildMatch>,
    pub(super) needs_no_login: bool,
    pub(super) tls: Option<TlsRule>,
    pub(super) secrets: Vec<WildMatch>,
    pub(super) exchanges: Vec<WildMatch>,
    pub(super) routing_keys: Vec<WildMatch>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tenants {
    All,
    Only(BTreeSet<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsRule {
    Required,
    Optional,
}

impl Options {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut options = Self::default();
        let mut names = BTreeSet::new();
        for option in text.split('&').filter(|_| !text.is_empty()) {
            let (name, value) = option.split_once('=').ok_or("an option is name=value")?;
            if !names.insert(name) {
                return Err("an option is given twice");
            }
            if value.split(',').any(str::is_empty) {
                return Err("an option's value is empty");
            }
            options.set(name, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        let values = || value.split(',').map(WildMatch::new).collect();
        match name {
            "tenant" => self.tenants = Some(Tenants::parse(value)?),
            "vhost" => self.virtual_hosts = values(),
            "channel" => self.channels = values(),
            "secrets" => self.secrets = values(),
            "exchanges" => self.exchanges = values(),
            "routingKeys" => self.routing_keys = values(),
            "login" if value == "none" => self.needs_no_login = true,
            "login" => return Err("login is none, or left out"),
            "tls" => {
                self.tls = Some(match value {
                    "required" => TlsRule::Required,
                    "optional" => TlsRule::Optional,
                    _ => return Err("tls is neither required nor optional"),
                });
            }
            _ => {
                return Err(
                    "the options are tenant=, vhost=, channel=, login=, tls=, secrets=, exchanges= and routingKeys=",
                );
            }
        }
        Ok(())
    }

    /// Checks that the options of an entry for this broker do not contradict each other.
    pub(super) fn check(&self, broker: BrokerKind) -> Result<(), &'static str> {
        if self.exchanges.is_empty() && !self.routing_keys.is_empty() {
            return Err("routingKeys= goes with exchanges=");
        }
        if !self.secrets.is_empty() && self.tenants.is_none() {
            return Err("an entry with secrets= names its tenants (tenant=…), or all of them (tenant=*)");
        }
        match broker {
            BrokerKind::IbmMq if self.channels.is_empty() => {
                Err("an entry of ibmmq names its channels (channel=…), or all of them (channel=*)")
            }
            BrokerKind::RabbitMq if !self.channels.is_empty() || self.needs_no_login => {
                Err("channel= and login= go with ibmmq")
            }
            BrokerKind::IbmMq | BrokerKind::RabbitMq => Ok(()),
        }
    }
}

impl Tenants {
    fn parse(value: &str) -> Result<Self, &'static str> {
        match value {
            "*" => Ok(Self::All),
            value if value.contains('*') => Err("a tenant is named in full, or all are by `*`"),
            value => Ok(Self::Only(value.split(',').map(str::to_owned).collect())),
        }
    }

    pub(super) fn contain(&self, tenant: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(tenants) => tenants.contains(tenant),
        }
    }
}
