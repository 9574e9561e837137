//! Special IP addresses: loopback, link-local, multicast, unspecified, and AWS's instance services.
//! They lead to the function or the machine that it runs on, and not to a broker. So a target may
//! use one only if the operator listed the target's address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::address::Address;

/// First 32 bits of the IPv6 addresses of AWS's services for an EC2 instance, such as the metadata
/// service (`fd00:ec2::254`).
const AWS_INSTANCE_SERVICES: [u16; 2] = [0xfd00, 0xec2];
/// Prefix (96 bits) of the IPv6 addresses that stand for IPv4 addresses behind a NAT64 translator
/// (RFC 6052, section 2.1).
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

/// Addresses of a target that are allowed to be loopback, link-local, multicast or unspecified,
/// because the operator listed them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SpecialAddresses(Vec<Address>);

impl SpecialAddresses {
    /// True if the list has no address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if a connection to `address` may use the IP address `found`, which is its host or
    /// resolved from it. If `found` is special, this list must contain `address`; a host name in
    /// the list may resolve to loopback, but to no other special IP address.
    #[must_use]
    pub fn admit(&self, address: &Address, found: IpAddr) -> bool {
        if !is_special(found) {
            return true;
        }
        let is_literal = address.host.parse::<IpAddr>().is_ok();
        self.0.contains(address) && (is_literal || found.to_canonical().is_loopback())
    }
}

impl From<Vec<Address>> for SpecialAddresses {
    fn from(addresses: Vec<Address>) -> Self {
        Self(addresses)
    }
}

/// True if `host` is a literal IP address, and not a name, that is special: see [`is_special`].
pub(crate) fn is_special_literal(host: &str) -> bool {
    host.parse().is_ok_and(is_special)
}

/// True for loopback, link-local, multicast, broadcast and unspecified addresses and for AWS's
/// instance services. An IPv6 address with such an IPv4 address inside is special, too.
fn is_special(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_special_v4(address),
        IpAddr::V6(address) => is_special_v6(address) || carried(address).is_some_and(is_special_v4),
    }
}

fn is_special_v4(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    first == 0
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
}

fn is_special_v6(address: Ipv6Addr) -> bool {
    address.is_unspecified()
        || address.is_loopback()
        || address.is_unicast_link_local()
        || address.is_multicast()
        || address.segments().starts_with(&AWS_INSTANCE_SERVICES)
}

/// Returns the IPv4 address inside an IPv6 address: the NAT64 form, or the deprecated
/// IPv4-compatible form.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let is_carrier = segments.starts_with(&NAT64) || segments.starts_with(&[0; 6]);
    let [.., a, b, c, d] = address.octets();
    is_carrier.then(|| Ipv4Addr::new(a, b, c, d))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn special_addresses_are_special_in_every_spelling() {
        for special in [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.170.2",
            "224.0.0.1",
            "239.255.255.255",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::7f00:1",
        ] {
            assert!(is_special(special.parse().unwrap()) && is_special_literal(special), "{special}");
        }
        for usual in ["10.0.0.1", "192.168.1.1", "203.0.113.9", "2001:db8::1", "fd00::1", "64:ff9b::a00:1"] {
            assert!(!is_special(usual.parse().unwrap()), "{usual}");
        }
        assert!(!is_special_literal("localhost") && !is_special_literal("127.1"));
    }

    #[test]
    fn a_name_leads_to_loopback_if_it_is_listed_and_to_nothing_else_that_is_special() {
        let found = |text: &str| text.parse().unwrap();
        let none = SpecialAddresses::default();
        let listed =
            SpecialAddresses::from(vec![address("broker.example:5672"), address("169.254.1.1:5672")]);
        for (target, at, by_none, by_list) in [
            ("broker.example:5672", "10.0.0.1", true, true),
            ("broker.example:5672", "127.0.0.1", false, true),
            ("broker.example:5672", "::ffff:127.0.0.1", false, true),
            ("broker.example:5672", "169.254.169.254", false, false),
            ("broker.example:9001", "127.0.0.1", false, false),
            ("other.example:5672", "127.0.0.1", false, false),
            ("169.254.1.1:5672", "169.254.1.1", false, true),
        ] {
            let admitted = |list: &SpecialAddresses| list.admit(&address(target), found(at));
            assert_eq!((admitted(&none), admitted(&listed)), (by_none, by_list), "{target} at {at}");
        }
    }
}
