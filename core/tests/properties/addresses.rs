//! Properties of the address policy, over all addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use knowledge_core::model::{AddressPolicy, GLOBAL_UNICAST, IpNet, SPECIAL_RANGES, WebhookUrl};
use proptest::prelude::*;
use proptest::sample::select;

use crate::cases;

/// Generates IPv4 addresses, many of them at the border of a non-public range.
fn v4() -> impl Strategy<Value = Ipv4Addr> {
    let ranges: Vec<_> = SPECIAL_RANGES
        .iter()
        .filter_map(|it| match it.range {
            IpNet::V4(range) => Some(range),
            IpNet::V6(_) => None,
        })
        .collect();
    let at_border = (select(ranges), 0..4_usize).prop_map(|(range, which)| {
        let (first, last) = (range.network().to_bits(), range.broadcast().to_bits());
        let beside = [first.wrapping_sub(1), first, last, last.wrapping_add(1)];
        Ipv4Addr::from_bits(beside[which])
    });
    prop_oneof![any::<u32>().prop_map(Ipv4Addr::from_bits), at_border]
}

/// Generates IPv6 addresses, many of them at the border of a non-public range.
fn v6() -> impl Strategy<Value = Ipv6Addr> {
    let mut ranges = vec![GLOBAL_UNICAST];
    ranges.extend(SPECIAL_RANGES.iter().filter_map(|it| match it.range {
        IpNet::V4(_) => None,
        IpNet::V6(range) => Some(range),
    }));
    let at_border = (select(ranges), 0..4_usize).prop_map(|(range, which)| {
        let (first, last) = (range.network().to_bits(), range.broadcast().to_bits());
        let beside = [first.wrapping_sub(1), first, last, last.wrapping_add(1)];
        Ipv6Addr::from_bits(beside[which])
    });
    prop_oneof![any::<u128>().prop_map(Ipv6Addr::from_bits), at_border]
}

/// Generates the default policy, or one that allows a range of either family.
fn policy() -> impl Strategy<Value = AddressPolicy> {
    let v4 = (v4(), 0..=32_u8).prop_map(|(address, length)| IpNet::new(address.into(), length));
    let v6 = (v6(), 0..=128_u8).prop_map(|(address, length)| IpNet::new(address.into(), length));
    let range = prop_oneof![v4, v6].prop_map(|range| range.expect("a length that there is"));
    proptest::collection::vec(range, 0..3).prop_map(|allow| AddressPolicy {
        allow,
        allow_http: false,
    })
}

fn nat64(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets().map(u16::from);
    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a << 8 | b, c << 8 | d)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(2_000)))]

    #[test]
    fn ipv4_mapped_address_is_judged_by_its_ipv4_address(address in v4(), policy in policy()) {
        let mapped = address.to_ipv6_mapped();
        prop_assert_eq!(policy.check_address(mapped.into()), policy.check_address(address.into()));
    }

    #[test]
    fn nat64_address_is_judged_by_its_ipv4_address(address in v4()) {
        let policy = AddressPolicy::default();
        prop_assert_eq!(policy.permits(nat64(address).into()), policy.permits(address.into()));
    }

    #[test]
    fn addresses_outside_global_unicast_are_not_public(address in v6()) {
        let policy = AddressPolicy::default();
        let in_another = address.to_ipv4_mapped().is_some() || nat64(Ipv4Addr::UNSPECIFIED).segments()[..6] == address.segments()[..6];
        let is_unicast = address.segments()[0] >> 13 == 1;
        prop_assert!(is_unicast || in_another || !policy.permits(address.into()), "{}", address);
    }

    /// Compares with the standard library, as far as its stable functions go.
    #[test]
    fn addresses_special_to_standard_library_are_not_public(address in v4()) {
        let is_special = address.is_private() || address.is_loopback() || address.is_link_local()
            || address.is_broadcast() || address.is_documentation() || address.is_unspecified()
            || address.is_multicast();
        prop_assert!(!is_special || !AddressPolicy::default().permits(address.into()), "{}", address);
    }

    #[test]
    fn allowed_range_adds_to_public_addresses(address in v4(), length in 0..=32_u8, other in v4()) {
        let range = IpNet::new(address.into(), length).unwrap();
        let allowing = AddressPolicy { allow: vec![range], allow_http: false };
        prop_assert!(allowing.permits(address.into()));
        let is_public = AddressPolicy::default().permits(other.into());
        prop_assert_eq!(allowing.permits(other.into()), is_public || range.contains(&IpAddr::V4(other)));
    }

    /// Judges an address alike in every notation that URLs allow.
    #[test]
    fn address_is_judged_alike_in_every_notation(address in v4(), dot in prop_oneof![Just(""), Just(".")]) {
        let policy = AddressPolicy::default();
        let number = address.to_bits();
        let [a, b, c, d] = address.octets();
        let rest = number & 0x00ff_ffff;
        for host in [
            format!("{address}{dot}"),
            format!("{number}{dot}"),
            format!("0x{number:x}{dot}"),
            format!("0{number:o}{dot}"),
            format!("0x{a:X}.0{b:o}.{c}.0x{d:x}{dot}"),
            format!("{a}.{rest}{dot}"),
            format!("{a}.{b}.{}{dot}", number & 0xffff),
            format!("[{}]", address.to_ipv6_mapped()),
            format!("[::ffff:{:x}:{:x}]", number >> 16, number & 0xffff),
            format!("[{}]", nat64(address)),
        ] {
            let url: WebhookUrl = format!("https://{host}/hook").parse().unwrap();
            prop_assert_eq!(policy.check_url(&url).is_ok(), policy.permits(address.into()), "{}", host);
        }
    }
}
