//! The rules by which a caller may use a target with its secrets.

use std::net::IpAddr;
use std::slice;

use crate::address::Address;
use crate::allowed_queues::AllowedQueues;
use crate::inline::AllowedTargets;
use crate::profile::Profile;
use crate::rules::TargetRule;
use crate::secret_ref::SecretRef;
use crate::special_address::{SpecialAddresses, is_special_literal};
use crate::store_ref::StoreRef;
use crate::target::{AuthSpec, BrokerKind, SslSpec, Target, TargetError, TargetSpec};

/// Inputs of the check whether a caller may use `target`, with the check itself. `target` is
/// `inline` (the target in the request) merged over `profile`.
pub(crate) struct Authorization<'a> {
    pub(crate) profile: Option<&'a Profile>,
    pub(crate) inline: &'a TargetSpec,
    pub(crate) target: &'a Target,
    pub(crate) allowed: AllowedTargets<'a>,
}

impl Authorization<'_> {
    pub(crate) fn check(&self) -> Result<(), TargetError> {
        let covered = self.is_covered();
        self.rules().iter().try_for_each(|rule| self.check_rule(*rule, covered))
    }

    /// Returns the result of each rule about the target. [`Self::check`] returns only the first
    /// refusal.
    pub(crate) fn judge(&self) -> Vec<(TargetRule, Result<(), TargetError>)> {
        let covered = self.is_covered();
        self.rules().iter().map(|&rule| (rule, self.check_rule(rule, covered))).collect()
    }

    const fn rules(&self) -> &'static [TargetRule] {
        match self.profile {
            None => TargetRule::OF_A_LIST,
            Some(_) => TargetRule::OF_A_PROFILE,
        }
    }

    fn check_rule(&self, rule: TargetRule, covered: bool) -> Result<(), TargetError> {
        match (rule, self.profile) {
            (TargetRule::Secrets, _) => self.check_secrets(),
            (_, Some(profile)) => self.check_against(profile, rule, covered),
            (_, None) if covered => Ok(()),
            (_, None) => Err(self.uncovered()),
        }
    }

    /// Returns the queues that the caller may name instead of the target's own queue, with
    /// everything else of the target unchanged. The target itself must have passed [`Self::check`].
    pub(crate) fn reach(&self) -> AllowedQueues {
        let own = self.profile.filter(|profile| !self.redirects(&profile.target));
        let granted = self.named_secrets().map(|secret| self.allowed.granted_queues(secret, self.target));
        let covered = if self.is_fixed() { Vec::new() } else { self.allowed.covered_queues(self.target) };
        AllowedQueues {
            own_queue: own.and_then(|profile| profile.target.queue.clone()),
            own: own.map(|profile| profile.queues.clone()).unwrap_or_default(),
            covered,
            granted: granted.collect(),
        }
    }

    /// Returns the target's addresses that are permitted to be, or to resolve to, a loopback,
    /// link-local, multicast or unspecified IP address. The operator permits such an address by
    /// naming it in the profile or in an allow-list entry, or by an entry with a range of IP
    /// addresses.
    pub(crate) fn special_addresses(&self) -> SpecialAddresses {
        let is_own = |address: &Address| {
            self.profile.is_some_and(|profile| profile.covers_addresses(slice::from_ref(address)))
        };
        let may_be = |address: &&Address| {
            let is_name = address.host.parse::<IpAddr>().is_err();
            (is_name || is_special_literal(&address.host))
                && (is_own(address) || self.allowed.list(self.target, address))
        };
        let addresses: Vec<_> = self.target.endpoint.addresses.iter().filter(may_be).cloned().collect();
        addresses.into()
    }

    /// True if an allow-list entry covers the target, and the profile, if there is one, has
    /// `overrides: true`.
    fn is_covered(&self) -> bool {
        !self.is_fixed() && self.allowed.cover(self.target)
    }

    /// True if the target has a profile with `overrides: false`, so that no allow-list entry can
    /// permit more than the profile does.
    fn is_fixed(&self) -> bool {
        self.profile.is_some_and(|profile| !profile.overrides)
    }

    /// Builds the error for a target that no allow-list entry covers.
    fn uncovered(&self) -> TargetError {
        let is_at_fault = |address: &&Address| {
            is_special_literal(&address.host) && !self.allowed.list(self.target, address)
        };
        let special = self.target.endpoint.addresses.iter().find(is_at_fault);
        let detail = match special {
            Some(address) => format!(
                "no allowed inline target lists the address {address}, which is a loopback, link-local, multicast or unspecified one"
            ),
            None => "no allowed inline target covers this broker, host, virtual host, channel and queue or exchange, with TLS and login as they are; name a profile (targetRef), or let the operator allow it (InlineTargets)".to_owned(),
        };
        TargetError::NotAllowed(detail)
    }

    fn check_against(&self, profile: &Profile, rule: TargetRule, covered: bool) -> Result<(), TargetError> {
        let base = &profile.target;
        let (holds, refusal) = match rule {
            TargetRule::Overrides => (
                profile.overrides || !self.sets_more_than_a_destination(),
                "the profile takes a queue, an exchange and a routing key of a request, and nothing else",
            ),
            TargetRule::Queue => (
                covered || self.inline.queue.as_ref().is_none_or(|queue| profile.covers_queue(queue)),
                "the profile does not cover this queue",
            ),
            TargetRule::Exchange => {
                let names_exchange = self.inline.exchange.is_some() || self.inline.routing_key.is_some();
                let exchange = self.target.exchange.as_ref().filter(|_| names_exchange);
                (
                    covered || exchange.is_none_or(|exchange| profile.covers_exchange(exchange)),
                    "the profile does not cover this exchange with this routing key",
                )
            }
            TargetRule::Connection => (
                covered || !self.redirects(base),
                "no allowed inline target covers what the request changes in the profile",
            ),
            TargetRule::Credentials => (
                profile.covers_addresses(&self.target.endpoint.addresses) || !self.uses_credentials_of(base),
                "a profile's credentials go only to the profile's hosts",
            ),
            TargetRule::Tls => (!self.changes_tls(base), "an inline target may not change a profile's TLS"),
            // A profile needs no entry, and the secrets have a check of their own.
            TargetRule::AllowList | TargetRule::Secrets => (true, ""),
        };
        if holds { Ok(()) } else { Err(TargetError::NotAllowed(refusal.to_owned())) }
    }

    /// True if the profile enables TLS, and the request sets `enabled`, a store or the cipher
    /// specification to another value.
    fn changes_tls(&self, base: &TargetSpec) -> bool {
        let strict = base.ssl.as_ref().filter(|ssl| ssl.enabled == Some(true));
        let (Some(strict), Some(ssl)) = (strict, &self.inline.ssl) else { return false };
        differs(ssl.enabled.as_ref(), strict.enabled.as_ref())
            || differs(ssl.key_store_ref.as_ref(), strict.key_store_ref.as_ref())
            || differs(ssl.trust_store_ref.as_ref(), strict.trust_store_ref.as_ref())
            || differs(ssl.cipher_spec.as_ref(), strict.cipher_spec.as_ref())
    }

    /// True if the request sets the broker, queue manager, channel, addresses or login to a value
    /// that differs from the profile's. Queue and exchange do not count.
    fn redirects(&self, base: &TargetSpec) -> bool {
        differs(self.inline.broker.as_ref(), Some(&base.broker.unwrap_or_default()))
            || differs(self.inline.queue_manager.as_ref(), base.queue_manager.as_ref())
            || differs(self.inline.channel.as_ref(), base.channel.as_ref())
            || differs(self.inline.conn_name.as_ref(), base.conn_name.as_ref())
            || differs(self.inline.auth.as_ref(), base.auth.as_ref())
    }

    /// True if the request sets any member of the target besides queue, exchange and routing key.
    fn sets_more_than_a_destination(&self) -> bool {
        let none = TargetSpec::default();
        let TargetSpec { queue, exchange, routing_key, .. } = self.inline.clone();
        *self.inline != TargetSpec { queue, exchange, routing_key, ..none }
    }

    fn uses_credentials_of(&self, base: &TargetSpec) -> bool {
        let inline_auth = self.inline.auth.clone().unwrap_or_default();
        let inline_ssl = self.inline.ssl.clone().unwrap_or_default();
        let has = |auth: &AuthSpec| auth.password_ref.is_some() && inline_auth.password_ref.is_none();
        // IBM MQ's one key repository has the client's key, whichever member names it.
        let is_repository = self.target.endpoint.broker == BrokerKind::IbmMq;
        let names_key =
            |ssl: &SslSpec| ssl.key_store_ref.is_some() || is_repository && ssl.trust_store_ref.is_some();
        base.auth.as_ref().is_some_and(has)
            || base.ssl.as_ref().is_some_and(|ssl| names_key(ssl) && !names_key(&inline_ssl))
    }

    /// Checks that the allow-list grants every secret that the request names for every address of
    /// the target.
    fn check_secrets(&self) -> Result<(), TargetError> {
        for secret in self.named_secrets() {
            if !self.allowed.grant(secret, self.target) {
                return Err(TargetError::SecretNotAllowed(format!(
                    "`{secret}` is not granted for this target; a grant needs ssl.enabled unless it says otherwise"
                )));
            }
        }
        Ok(())
    }

    /// Lists the secrets that the request itself names: the password, the key store and the trust
    /// store. A request can name no objects in S3.
    fn named_secrets(&self) -> impl Iterator<Item = &SecretRef> {
        let auth = self.inline.auth.as_ref();
        let ssl = self.inline.ssl.as_ref();
        let named = [
            auth.and_then(|auth| auth.password_ref.as_ref()),
            ssl.and_then(|ssl| ssl.key_store_ref.as_ref()).and_then(StoreRef::secret),
            ssl.and_then(|ssl| ssl.trust_store_ref.as_ref()).and_then(StoreRef::secret),
        ];
        named.into_iter().flatten()
    }
}

/// True if a member is set in the request (`inline`) to another value than in the profile (`base`).
fn differs<T: PartialEq>(inline: Option<&T>, base: Option<&T>) -> bool {
    inline.is_some() && inline != base
}
