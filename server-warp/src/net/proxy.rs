//! Address and scheme of a client behind trusted proxies.
//!
//! A proxy appends the address that it accepted the connection from to the header of a request. The
//! header may have been sent by the client with any content, so it is read from its end: each
//! address is believed only if the proxy that appended it is trusted.

use std::net::{IpAddr, Ipv6Addr};

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName};
use knowledge_core::model::IpNet;

/// Header with the scheme of the client's request, which goes with `X-Forwarded-For`.
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Trusted proxies. By default there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyConfig {
    /// Addresses of the proxies. A request from any other address is that address's own, whatever
    /// its header says.
    pub trusted: Vec<IpNet>,
    /// Header to which the proxies append the address of their client. The other header is ignored:
    /// a proxy that does not know it would pass on the invention of a client.
    pub header: ForwardingHeader,
    /// True if every connection from a trusted proxy begins with a PROXY protocol header, version
    /// 2, before TLS. A connection without one is closed. The address in the header becomes the
    /// address of the connection.
    pub protocol: bool,
}

knowledge_core::plain_string_enum! {
    /// Header with the addresses that a request came through.
    #[derive(Default)]
    ForwardingHeader {
        /// `X-Forwarded-For`: addresses separated by commas.
        #[default]
        XForwardedFor = "x-forwarded-for",
        /// `Forwarded` (RFC 7239), of which only `for` and `proto` are read.
        Forwarded = "forwarded",
    }
}

impl ForwardingHeader {
    /// Returns the name of the header.
    #[must_use]
    pub const fn name(self) -> HeaderName {
        HeaderName::from_static(self.as_str())
    }

    /// Returns the addresses in the order in which they were appended; `None` is one that cannot be
    /// read.
    fn addresses(self, headers: &HeaderMap) -> Vec<Option<IpAddr>> {
        let mut addresses = Vec::new();
        for value in headers.get_all(self.name()) {
            match (value.to_str(), self) {
                (Err(_), _) => addresses.push(None),
                (Ok(text), Self::XForwardedFor) => {
                    addresses.extend(text.split(',').map(|node| parse_node(node.trim())));
                }
                (Ok(text), Self::Forwarded) => {
                    let elements = parse_forwarded(text).into_iter();
                    addresses.extend(elements.map(|element| element.address));
                }
            }
        }
        addresses
    }

    /// True if the proxy that appended last received the request by HTTPS.
    fn is_https(self, headers: &HeaderMap) -> bool {
        let last = |name: &HeaderName| headers.get_all(name).into_iter().next_back()?.to_str().ok();
        match self {
            Self::XForwardedFor => {
                let schemes = last(&X_FORWARDED_PROTO).unwrap_or_default();
                let scheme = schemes.rsplit(',').next().unwrap_or_default().trim();
                scheme.eq_ignore_ascii_case("https")
            }
            Self::Forwarded => {
                let elements = last(&FORWARDED).map(parse_forwarded).unwrap_or_default();
                elements.last().is_some_and(|element| element.is_https)
            }
        }
    }
}

impl ProxyConfig {
    /// True if this is the address of a trusted proxy.
    pub(super) fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|range| range.contains(&address))
    }

    /// True if a trusted proxy says that its client used HTTPS.
    pub(super) fn is_https(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        self.trusts(peer) && self.header.is_https(headers)
    }

    /// Returns the client of a request: the last address that is not a trusted proxy's.
    ///
    /// If the header ends before that, or what comes next cannot be read, it is the address of the
    /// last trusted proxy that could be followed.
    pub(super) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        if !self.trusts(client) {
            return client;
        }
        for address in self.header.addresses(headers).into_iter().rev() {
            let Some(address) = address else { break };
            client = address;
            if !self.trusts(client) {
                break;
            }
        }
        client
    }
}

/// Parses an address with or without a port; an IPv6 address with a port is in brackets.
fn parse_node(text: &str) -> Option<IpAddr> {
    let (address, port): (IpAddr, &str) = match text.strip_prefix('[') {
        Some(text) => {
            let (address, port) = text.split_once(']')?;
            (address.parse::<Ipv6Addr>().ok()?.into(), port)
        }
        None => match text.parse() {
            Ok(address) => (address, ""),
            Err(_) => {
                let (address, port) = text.split_at(text.find(':')?);
                (address.parse().ok()?, port)
            }
        },
    };
    // The port may be a name that hides it.
    let is_port = |port: &str| port.len() > 1 && port[1..].bytes().all(is_token);
    (port.is_empty() || port.starts_with(':') && is_port(port)).then(|| address.to_canonical())
}

/// An element of a `Forwarded` header, which one proxy appended.
#[derive(Default)]
struct Element {
    /// Value of `for`, if it is an address.
    address: Option<IpAddr>,
    /// True if `proto` is `https`.
    is_https: bool,
}

/// Parses the elements of a `Forwarded` header. Nothing after a malformed element can be separated
/// into elements, so it is the last one.
fn parse_forwarded(line: &str) -> Vec<Element> {
    let mut elements = Vec::new();
    let mut rest = Some(line);
    while let Some(line) = rest {
        let (element, after) = parse_element(line).unwrap_or_default();
        elements.push(element);
        rest = after;
    }
    elements
}

/// Parses the first element, and returns the line after its comma.
fn parse_element(mut line: &str) -> Option<(Element, Option<&str>)> {
    let (mut address, mut is_https) = (None, false);
    loop {
        let (name, rest) = line.split_once('=')?;
        let name = name.trim();
        let (value, rest) = parse_value(rest)?;
        if name.is_empty() || !name.bytes().all(is_token) {
            return None;
        }
        if name.eq_ignore_ascii_case("for") && address.replace(parse_node(&value)).is_some() {
            return None;
        }
        is_https |= name.eq_ignore_ascii_case("proto") && value.eq_ignore_ascii_case("https");
        let rest = rest.trim_start();
        let after = match rest.bytes().next() {
            None => None,
            Some(b',') => Some(&rest[1..]),
            Some(b';') => {
                line = &rest[1..];
                continue;
            }
            Some(_) => return None,
        };
        let address = address.flatten();
        return Some((Element { address, is_https }, after));
    }
}

/// Parses the value of a pair, which may be quoted; returns it and what follows.
fn parse_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ';', '"', ' ', '\t']).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => value.push(characters.next()?),
            character => value.push(character),
        }
    }
}

/// True for the characters of a token (RFC 9110).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the client of a request with these header lines from 10.0.0.1, one of the proxies.
    fn client(header: ForwardingHeader, lines: &[&str]) -> String {
        let config = ProxyConfig {
            trusted: ["10.0.0.0/8", "fd00::/8"]
                .map(|range| range.parse().unwrap())
                .into(),
            header,
            protocol: false,
        };
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header.name(), line.parse().unwrap());
        }
        config
            .client("::ffff:10.0.0.1".parse().unwrap(), &headers)
            .to_string()
    }

    #[test]
    fn client_is_last_untrusted_address() {
        for (lines, expected) in [
            (vec![], "10.0.0.1"),
            (vec!["192.0.2.1"], "192.0.2.1"),
            (vec!["198.51.100.1, 192.0.2.1"], "192.0.2.1"),
            (vec!["198.51.100.1", "192.0.2.1"], "192.0.2.1"),
            (vec!["192.0.2.1,10.0.0.3 , fd00::1"], "192.0.2.1"),
            (vec!["192.0.2.1:8080, [fd00::1]:443"], "192.0.2.1"),
            (vec!["2001:db8::1"], "2001:db8::1"),
            (vec!["[2001:db8::1]"], "2001:db8::1"),
            (vec!["::ffff:192.0.2.1"], "192.0.2.1"),
            // Only proxies: the first of them.
            (vec!["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            // What cannot be read ends the walk at the last proxy before it.
            (vec!["192.0.2.1, unknown, 10.0.0.2"], "10.0.0.2"),
            (vec!["192.0.2.1, "], "10.0.0.1"),
            (vec!["192.0.2.1", "\u{fc}"], "10.0.0.1"),
            (vec!["192.0.2.1:"], "10.0.0.1"),
            (vec!["[2001:db8::1"], "10.0.0.1"),
            (vec!["[192.0.2.1]"], "10.0.0.1"),
            (vec!["[2001:db8::1]443"], "10.0.0.1"),
            (vec!["192.0.2.1:80:80"], "10.0.0.1"),
            (vec!["fe80::1%eth0"], "10.0.0.1"),
        ] {
            let found = client(ForwardingHeader::XForwardedFor, &lines);
            assert_eq!(found, expected, "{lines:?}");
        }
    }

    #[test]
    fn scheme_is_believed_only_of_a_trusted_proxy() {
        use ForwardingHeader::{Forwarded, XForwardedFor};

        let is_https = |header, peer: &str, name: &'static str, lines: &[&str]| {
            let config = ProxyConfig {
                trusted: vec!["10.0.0.0/8".parse().unwrap()],
                header,
                protocol: false,
            };
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(name, line.parse().unwrap());
            }
            config.is_https(peer.parse().unwrap(), &headers)
        };
        let (proxy, other, proto) = ("10.0.0.1", "192.0.2.1", "x-forwarded-proto");
        assert!(is_https(XForwardedFor, proxy, proto, &["https"]));
        assert!(is_https(XForwardedFor, proxy, proto, &["http, HTTPS"]));
        assert!(is_https(XForwardedFor, proxy, proto, &["http", "https"]));
        assert!(!is_https(XForwardedFor, other, proto, &["https"]));
        assert!(!is_https(Forwarded, proxy, proto, &["https"]));
        for lines in [&[][..], &["http"], &["https, http"], &["https", "wss"]] {
            assert!(!is_https(XForwardedFor, proxy, proto, lines), "{lines:?}");
        }
        let forwarded = "for=192.0.2.1;proto=https";
        assert!(is_https(Forwarded, proxy, "forwarded", &[forwarded]));
        assert!(!is_https(Forwarded, other, "forwarded", &[forwarded]));
        assert!(!is_https(XForwardedFor, proxy, "forwarded", &[forwarded]));
        let behind_another = "proto=https, for=10.0.0.2;proto=http";
        assert!(!is_https(Forwarded, proxy, "forwarded", &[behind_another]));
    }

    #[test]
    fn forwarded_elements_are_parsed_with_their_quotes() {
        for (line, expected) in [
            ("for=192.0.2.1", "192.0.2.1"),
            ("For=\"192.0.2.1:80\";proto=https;by=10.0.0.1", "192.0.2.1"),
            ("proto=https; for=\"[2001:db8::1]:_x\"", "2001:db8::1"),
            (
                "for=198.51.100.1, for=192.0.2.1;host=\"a, for=6.6.6.6\"",
                "192.0.2.1",
            ),
            ("for=192.0.2.1 , for=10.0.0.2", "192.0.2.1"),
            ("for=\"192.0.2\\.1\"", "192.0.2.1"),
            ("for=192.0.2.1, for=_hidden, for=10.0.0.2", "10.0.0.2"),
            ("for=192.0.2.1, proto=https", "10.0.0.1"),
            ("for=192.0.2.1;for=192.0.2.2", "10.0.0.1"),
            ("for=192.0.2.1;", "10.0.0.1"),
            ("192.0.2.1", "10.0.0.1"),
            ("", "10.0.0.1"),
            // A quote that a client opened hides the element that the proxy appended.
            ("for=\"6.6.6.6, for=192.0.2.1", "10.0.0.1"),
            ("for=6.6.6.6;by=\", for=\"[2001:db8::1]\"", "10.0.0.1"),
            ("a b=\"\", for=\"192.0.2.1\"", "10.0.0.1"),
        ] {
            let found = client(ForwardingHeader::Forwarded, &[line]);
            assert_eq!(found, expected, "{line}");
        }
    }
}
