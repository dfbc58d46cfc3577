//! Which addresses a webhook may reach. Decided on the resolved address, when a connection is made:
//! a name may lead to another address every time it is looked up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that are not part of the public Internet, as in IANA's registries.
const RESERVED_V4: &[([u8; 4], u32)] = &[
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 3), // multicast and reserved
];

/// Returns true if an address is on the public Internet: not this machine, a private network, a
/// link, or reserved. An IPv6 address that contains one of IPv4 counts as that one.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !RESERVED_V4.iter().any(|(network, length)| {
        let shift = 32 - length;
        bits >> shift == u32::from_be_bytes(*network) >> shift
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, high, low] = address.segments();
    let v4 = |high: u16, low: u16| {
        let bits = (u32::from(high) << 16) | u32::from(low);
        is_public_v4(Ipv4Addr::from_bits(bits))
    };
    match [a, b, c, d, e, f] {
        // IPv4-mapped, and translated by NAT64.
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => v4(high, low),
        // 6to4.
        [0x2002, ..] => v4(b, c),
        // Teredo and other protocol assignments, and documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Global unicast. Everything else is local, multicast or unassigned.
        [first, ..] => first >> 13 == 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_public_addresses_are_reached() {
        for (text, expected) in [
            ("8.8.8.8", true),
            ("1.1.1.1", true),
            ("172.15.255.255", true),
            ("172.32.0.0", true),
            ("100.63.0.1", true),
            ("100.128.0.1", true),
            ("192.0.1.1", true),
            ("2606:4700:4700::1111", true),
            ("2001:4860:4860::8888", true),
            ("64:ff9b::808:808", true),
            ("::ffff:8.8.8.8", true),
            ("2002:808:808::1", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("127.0.0.1", false),
            ("127.255.0.9", false),
            ("10.1.2.3", false),
            ("192.168.0.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("198.18.0.1", false),
            ("224.0.0.1", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::7f00:1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:172.20.0.1", false),
            ("64:ff9b::a9fe:a9fe", false),
            ("64:ff9b:1::808:808", false),
            ("2002:7f00:1::1", false),
            ("2001::1", false),
            ("2001:db8::1", false),
            ("3fff::1", false),
            ("fc00::1", false),
            ("fd12:3456::1", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
            ("100::1", false),
        ] {
            assert_eq!(is_public(text.parse().unwrap()), expected, "{text}");
        }
        // The whole of 172.16.0.0/12, not only 172.16.
        for second in 16..32 {
            assert!(
                !is_public(Ipv4Addr::new(172, second, 1, 1).into()),
                "{second}"
            );
        }
    }

    proptest! {
        // Whatever form an IPv4 address has, the answer is the same.
        #[test]
        fn forms_of_an_address_agree(bits in any::<u32>()) {
            let v4 = Ipv4Addr::from_bits(bits);
            let [a, b, c, d] = v4.octets().map(u16::from);
            let (high, low) = ((a << 8) | b, (c << 8) | d);
            let forms = [
                v4.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
            ];
            for form in forms {
                prop_assert_eq!(is_public(form.into()), is_public(v4.into()), "{}", form);
            }
        }
    }
}
