//! Address policy of deliveries: the guard against server-side request forgery.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use ipnet::IpNet;
use ipnet::{Ipv4Net, Ipv6Net};

use super::WebhookUrl;

/// Maximum lengths of a host name and of its labels, in characters (RFC 1035, 2.3.4).
const NAME_CHARS_MAX: usize = 253;
const LABEL_CHARS_MAX: usize = 63;

/// A range of addresses that are not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialRange {
    /// Range of addresses.
    pub range: IpNet,
    /// Purpose of the range.
    pub name: &'static str,
    /// Number of the RFC that defines it; `None` for addresses of a cloud provider.
    pub rfc: Option<u16>,
}

impl fmt::Display for SpecialRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rfc {
            Some(rfc) => write!(f, "{} (RFC {rfc})", self.name),
            None => f.write_str(self.name),
        }
    }
}

/// Ranges of addresses that are not public.
///
/// They are those that the special-purpose registries of IANA list as not globally reachable,
/// multicast, deprecated ranges, and the public addresses at which a cloud provider serves the
/// virtual machines on a host. IPv6 addresses outside [`GLOBAL_UNICAST`] are not public
/// either, listed or not.
pub const SPECIAL_RANGES: &[SpecialRange] = &[
    v4([0, 0, 0, 0], 8, "this network", 791),
    v4([10, 0, 0, 0], 8, "private", 1918),
    v4([100, 64, 0, 0], 10, "shared address space", 6598),
    v4([127, 0, 0, 0], 8, "loopback", 1122),
    // Credentials and configuration of the machine, in clear text, as at 169.254.169.254.
    SpecialRange {
        range: IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(168, 63, 129, 16), 32)),
        name: "Azure host",
        rfc: None,
    },
    v4([169, 254, 0, 0], 16, "link-local", 3927),
    v4([172, 16, 0, 0], 12, "private", 1918),
    v4([192, 0, 0, 0], 24, "protocol assignments", 6890),
    v4([192, 0, 2, 0], 24, "documentation", 5737),
    v4([192, 88, 99, 0], 24, "6to4 relays", 7526),
    v4([192, 168, 0, 0], 16, "private", 1918),
    v4([198, 18, 0, 0], 15, "benchmarking", 2544),
    v4([198, 51, 100, 0], 24, "documentation", 5737),
    v4([203, 0, 113, 0], 24, "documentation", 5737),
    v4([224, 0, 0, 0], 4, "multicast", 5771),
    v4([255, 255, 255, 255], 32, "broadcast", 919),
    v4([240, 0, 0, 0], 4, "reserved", 1112),
    v6([0; 8], 128, "unspecified", 4291),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback", 4291),
    v6([0; 8], 96, "IPv4-compatible", 4291),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "local NAT64", 8215),
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "discard-only", 6666),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "Teredo", 4380),
    v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, "benchmarking", 5180),
    v6([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28, "ORCHID", 4843),
    v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28, "ORCHIDv2", 7343),
    v6(
        [0x2001, 0, 0, 0, 0, 0, 0, 0],
        23,
        "protocol assignments",
        2928,
    ),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "documentation", 3849),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "6to4", 3056),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "documentation", 9637),
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, "segment routing", 9602),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "unique local", 4193),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link-local", 4291),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "site-local", 3879),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast", 4291),
];

/// Range of the public IPv6 addresses (RFC 4291, 2.4).
pub const GLOBAL_UNICAST: Ipv6Net = Ipv6Net::new_assert(segments([0x2000, 0, 0, 0, 0, 0, 0, 0]), 3);

/// Range for addresses outside [`GLOBAL_UNICAST`] that no other range lists.
const NOT_GLOBAL_UNICAST: SpecialRange = v6([0; 8], 0, "not global unicast", 4291);

/// Range of IPv4 addresses behind a NAT64 (RFC 6052, 2.1).
const NAT64: Ipv6Net = Ipv6Net::new_assert(segments([0x64, 0xff9b, 0, 0, 0, 0, 0, 0]), 96);

const fn v4([a, b, c, d]: [u8; 4], length: u8, name: &'static str, rfc: u16) -> SpecialRange {
    let range = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length));
    let rfc = Some(rfc);
    SpecialRange { range, name, rfc }
}

const fn v6(address: [u16; 8], length: u8, name: &'static str, rfc: u16) -> SpecialRange {
    let range = IpNet::V6(Ipv6Net::new_assert(segments(address), length));
    let rfc = Some(rfc);
    SpecialRange { range, name, rfc }
}

const fn segments([a, b, c, d, e, f, g, h]: [u16; 8]) -> Ipv6Addr {
    Ipv6Addr::new(a, b, c, d, e, f, g, h)
}

/// Rules for the addresses of deliveries: by default only public ones, and only over TLS.
///
/// ```
/// use knowledge_core::model::AddressPolicy;
///
/// let policy = AddressPolicy {
///     allow: vec!["10.1.0.0/16".parse()?],
///     ..AddressPolicy::default()
/// };
/// assert!(policy.permits("10.1.2.3".parse()?));
/// assert!(policy.permits("::ffff:10.1.2.3".parse()?));
/// assert!(!policy.permits("10.2.0.1".parse()?));
/// assert!(policy.check_url(&"https://10.1.2.3/hook".parse()?).is_ok());
/// assert!(policy.check_url(&"https://2130706433/hook".parse()?).is_err()); // 127.0.0.1
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Ranges allowed besides public addresses. An IPv4 range covers IPv4-mapped addresses too.
    pub allow: Vec<IpNet>,
    /// True if deliveries may use plain `http` too.
    pub allow_http: bool,
}

/// Reason for which no delivery may go to a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RejectedUrl {
    /// Plain `http`.
    #[error("must begin with https:// (the operator can allow http)")]
    NotHttps,
    /// An address that is not public.
    #[error("must not name a non-public address (the operator can allow it): {0}")]
    Address(RejectedAddress),
    /// A name that always denotes the machine itself (RFC 6761, 6.3).
    #[error("must not name localhost (the operator can allow loopback addresses)")]
    Localhost,
    /// A host that cannot be resolved by DNS or sent to a server.
    #[error("must name a host that can be resolved")]
    Host,
    /// Port 0.
    #[error("must not have port 0")]
    Port,
}

/// An address that deliveries may not go to, with the range that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RejectedAddress(pub SpecialRange);

impl AddressPolicy {
    /// Returns true if deliveries may go to an address.
    ///
    /// An IPv4-mapped or NAT64 address is treated as the IPv4 address that it contains.
    #[must_use]
    pub fn permits(&self, address: IpAddr) -> bool {
        self.check_address(address).is_ok()
    }

    /// Checks an address as [`AddressPolicy::permits`] does.
    ///
    /// # Errors
    /// [`RejectedAddress`] if deliveries may not go there.
    pub fn check_address(&self, address: IpAddr) -> Result<(), RejectedAddress> {
        // The connection uses IPv4, so IPv6 ranges do not apply.
        let address = address.to_canonical();
        let mut allowed = self.allow.iter().copied().map(canonical);
        if allowed.any(|range| range.contains(&address)) {
            return Ok(());
        }
        if let Some(inside) = behind_nat64(address) {
            return self.check_address(inside.into());
        }
        match special(address) {
            Some(range) => Err(RejectedAddress(range)),
            None => Ok(()),
        }
    }

    /// Checks a URL, at registration and again before each attempt.
    ///
    /// An address in it is checked here, whatever its notation. The addresses of a name have to be
    /// checked when it is resolved.
    ///
    /// # Errors
    /// [`RejectedUrl`] names the reason.
    pub fn check_url(&self, url: &WebhookUrl) -> Result<(), RejectedUrl> {
        if !url.is_https() && !self.allow_http {
            return Err(RejectedUrl::NotHttps);
        }
        match url.address() {
            Some(address) => self.check_address(address)?,
            None => self.check_name(url.host())?,
        }
        if url.port() == 0 {
            return Err(RejectedUrl::Port);
        }
        match http::Uri::try_from(url.as_str()) {
            Ok(_) => Ok(()),
            Err(_) => Err(RejectedUrl::Host),
        }
    }

    fn check_name(&self, name: &str) -> Result<(), RejectedUrl> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_local = name == "localhost" || name.ends_with(".localhost");
        let may_be_local =
            self.permits(Ipv4Addr::LOCALHOST.into()) || self.permits(Ipv6Addr::LOCALHOST.into());
        if is_local && !may_be_local {
            return Err(RejectedUrl::Localhost);
        }
        let is_label = |label: &str| (1..=LABEL_CHARS_MAX).contains(&label.len());
        if name.len() > NAME_CHARS_MAX || !name.split('.').all(is_label) {
            return Err(RejectedUrl::Host);
        }
        Ok(())
    }
}

impl From<RejectedAddress> for RejectedUrl {
    fn from(refused: RejectedAddress) -> Self {
        Self::Address(refused)
    }
}

/// Converts a range of IPv4-mapped addresses to the IPv4 range.
fn canonical(range: IpNet) -> IpNet {
    let IpNet::V6(mapped) = range else {
        return range;
    };
    let length = mapped.prefix_len().checked_sub(96);
    let address = mapped.addr().to_ipv4_mapped();
    match address.zip(length) {
        Some((address, length)) => Ipv4Net::new(address, length).map_or(range, IpNet::V4),
        None => range,
    }
}

/// Returns the host of a URL in one spelling: without the final dot of a name, and as an IPv4
/// address where connections use IPv4.
pub(crate) fn canonical_host(url: &WebhookUrl) -> String {
    let address = url.address().map(|address| address.to_canonical());
    let v4 = address.and_then(|address| match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(_) => behind_nat64(address),
    });
    match v4 {
        Some(v4) => v4.to_string(),
        None => url.host().trim_end_matches('.').to_owned(),
    }
}

fn behind_nat64(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V6(address) if NAT64.contains(&address) => {
            let [.., a, b, c, d] = address.octets();
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}

/// Returns the range that makes an address non-public.
fn special(address: IpAddr) -> Option<SpecialRange> {
    let listed = SPECIAL_RANGES.iter().find(|it| it.range.contains(&address));
    match address {
        IpAddr::V6(v6) if !GLOBAL_UNICAST.contains(&v6) => {
            Some(*listed.unwrap_or(&NOT_GLOBAL_UNICAST))
        }
        _ => listed.copied(),
    }
}
