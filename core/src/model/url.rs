//! URLs of webhooks and services, and origins of web pages.
//!
//! JavaScript's own parser is used in a host that has it: the tables of international host names
//! would add 80 kB to the module. Everything else reads the serialised form, in which each part has a fixed
//! place (WHATWG URL, "URL serializing").

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum length of a URL, in characters.
pub const URL_CHARS_MAX: usize = 2_048;

/// An absolute `https` or `http` URL without credentials or fragment.
///
/// It has at most [`URL_CHARS_MAX`] characters, both as sent and as escaped.
/// [`AddressPolicy`](super::AddressPolicy) decides, at registration and again at connection, if
/// deliveries may go there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WebhookUrl(HttpUrl);

/// Error of a text that is not a valid webhook URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// Longer than [`URL_CHARS_MAX`] characters.
    #[error("must have at most {URL_CHARS_MAX} characters")]
    TooLong,
    /// A control character, which parsers would remove or escape.
    #[error("must not contain control characters")]
    ControlCharacter,
    /// Not a URL, or one of another scheme.
    #[error(
        "must be an absolute URL that begins with https://, for example https://example.com/hooks"
    )]
    NotHttp,
    /// A user name or password in the URL.
    #[error("must not contain a user name or a password")]
    Credentials,
    /// A part after `#`, which is never sent.
    #[error("must not have a fragment (#…)")]
    Fragment,
}

impl WebhookUrl {
    /// Returns the URL without its path and its query, which may contain a secret.
    pub(crate) fn origin(&self) -> Self {
        let scheme = if self.is_https() { "https" } else { "http" };
        Self(HttpUrl(format!("{scheme}://{}/", self.0.authority())))
    }

    /// Returns the URL as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.0
    }

    /// Returns true for a URL of the scheme `https`.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.is_https()
    }

    /// Returns the host: a name, or an address, which is in brackets for IPv6.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host_and_port().0
    }

    /// Returns the address if the host is one.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        let host = self.host();
        let v6 = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        match v6 {
            Some(v6) => v6.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        }
    }

    /// Returns the port, which is that of the scheme if the URL has none.
    #[must_use]
    pub fn port(&self) -> u16 {
        let port = self.0.host_and_port().1;
        port.unwrap_or(if self.is_https() { 443 } else { 80 })
    }
}

impl FromStr for WebhookUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.chars().count() > URL_CHARS_MAX {
            return Err(InvalidUrl::TooLong);
        }
        if text.contains(char::is_control) {
            return Err(InvalidUrl::ControlCharacter);
        }
        let url = HttpUrl::parse(text).ok_or(InvalidUrl::NotHttp)?;
        if url.has_credentials() {
            return Err(InvalidUrl::Credentials);
        }
        if url.0.contains('#') {
            return Err(InvalidUrl::Fragment);
        }
        // Escaping lengthens the URL, and the stored text has to be parsed again.
        if url.0.len() > URL_CHARS_MAX {
            return Err(InvalidUrl::TooLong);
        }
        Ok(Self(url))
    }
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for WebhookUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for WebhookUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let url = text.parse().or_else(|invalid| match HttpUrl::kept(&text) {
            Some(url) => Ok(Self(url)),
            None => Err(invalid),
        });
        url.map_err(|invalid: InvalidUrl| serde::de::Error::custom(invalid))
    }
}

/// An absolute `http` or `https` URL to which paths can be appended.
///
/// It has no trailing slash and no query, and no credentials, because configurations are displayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(String);

impl BaseUrl {
    /// Parses a URL and normalises it (WHATWG URL, "URL serializing"). `None` if it is not a base
    /// URL.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let url = HttpUrl::parse(text)?;
        let is_plain = !url.has_credentials() && !url.0.contains(['?', '#']);
        is_plain.then(|| Self(url.0.trim_end_matches('/').to_owned()))
    }

    /// Returns the URL, without a trailing slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns true if a text is the origin of web pages in the spelling of browsers.
///
/// An example is `https://app.example.com`, with the port only if it is not the default one. Any
/// other spelling would silently match no request.
#[must_use]
pub fn is_origin(text: &str) -> bool {
    HttpUrl::parse(text).is_some_and(|url| {
        // A serialised URL differs from its origin by the path only.
        let is_as_sent = url.0.strip_suffix('/') == Some(text);
        // The parser accepts an asterisk in a host name, but a pattern would match no origin.
        is_as_sent && !url.has_credentials() && !text.contains('*')
    })
}

/// A serialised `https` or `http` URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HttpUrl(String);

impl HttpUrl {
    fn parse(text: &str) -> Option<Self> {
        let text = serialize(text)?;
        let is_http = text.starts_with("https://") || text.starts_with("http://");
        is_http.then_some(Self(text))
    }

    /// Returns a serialised URL that only another parser accepts.
    ///
    /// Parsers differ in the international names (`xn--…`) that they accept. Such a name is never an
    /// address, so it is kept, wherever the store is opened.
    fn kept(text: &str) -> Option<Self> {
        let url = Self(text.to_owned());
        let name = url.host_and_port().0;
        let is_name = name.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte)
        });
        let is_international = name.split('.').any(|label| label.starts_with("xn--"));
        let is_stored = text.len() <= URL_CHARS_MAX && text.is_ascii() && !text.contains('#');
        let is_http = text.starts_with("https://") || text.starts_with("http://");
        (is_http && is_stored && is_name && is_international && !url.has_credentials())
            .then_some(url)
    }

    fn is_https(&self) -> bool {
        self.0.starts_with("https:")
    }

    /// Returns the part with the host, which ends where the path begins.
    fn authority(&self) -> &str {
        self.0.split('/').nth(2).unwrap_or_default()
    }

    fn has_credentials(&self) -> bool {
        self.authority().contains('@')
    }

    /// Returns the host and the port of a URL without credentials.
    fn host_and_port(&self) -> (&str, Option<u16>) {
        let authority = self.authority();
        // The colons of an IPv6 address are in brackets.
        match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
            _ => (authority, None),
        }
    }
}

/// Parses a URL and returns it in its serialised form.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
fn serialize(text: &str) -> Option<String> {
    url::Url::parse(text).ok().map(String::from)
}

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use super::host_url::serialize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_url_must_be_absolute_http() {
        assert!("https://example.com/hook?a=1".parse::<WebhookUrl>().is_ok());
        for (text, error) in [
            ("", InvalidUrl::NotHttp),
            ("/hook", InvalidUrl::NotHttp),
            ("ftp://example.com", InvalidUrl::NotHttp),
            ("mailto:a@example.com", InvalidUrl::NotHttp),
            ("https://", InvalidUrl::NotHttp),
            ("https://user@example.com", InvalidUrl::Credentials),
            ("https://:pass@example.com", InvalidUrl::Credentials),
            ("https://example.com/#part", InvalidUrl::Fragment),
            ("\0https://example.com/", InvalidUrl::ControlCharacter),
            ("https://example.com/a\0b", InvalidUrl::ControlCharacter),
            ("https://example.com/a\tb", InvalidUrl::ControlCharacter),
            ("https://example.com/\0", InvalidUrl::ControlCharacter),
            (
                &format!("https://example.com/{}", "a".repeat(2_048)),
                InvalidUrl::TooLong,
            ),
        ] {
            assert_eq!(text.parse::<WebhookUrl>().unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn host_address_and_port_are_read_from_the_text() {
        for (text, host, address, port) in [
            ("https://Example.com", "example.com", None, 443),
            ("http://example.com/a:1/@", "example.com", None, 80),
            ("https://example.com:8443?a=@", "example.com", None, 8_443),
            ("https://example.com:0", "example.com", None, 0),
            ("https://bücher.example", "xn--bcher-kva.example", None, 443),
            (
                "http://2130706433:8080",
                "127.0.0.1",
                Some("127.0.0.1"),
                8_080,
            ),
            ("https://[::1]", "[::1]", Some("::1"), 443),
            (
                "https://[2001:DB8::1]:444/",
                "[2001:db8::1]",
                Some("2001:db8::1"),
                444,
            ),
        ] {
            let url: WebhookUrl = text.parse().unwrap();
            assert_eq!((url.host(), url.port()), (host, port), "{text}");
            let address = address.map(|it| it.parse::<IpAddr>().unwrap());
            assert_eq!(url.address(), address, "{text}");
            assert_eq!(url.is_https(), text.starts_with("https"), "{text}");
        }
    }

    #[test]
    fn stored_url_of_another_parser_is_kept() {
        let read = |text| serde_json::from_value::<WebhookUrl>(serde_json::Value::from(text));
        for text in ["https://xn--zzzz/", "http://a.xn--zzzz.example:81/hook?a=1"] {
            assert!(text.parse::<WebhookUrl>().is_err(), "{text}");
            let url = read(text).unwrap();
            assert_eq!((url.as_str(), url.address()), (text, None));
        }
        for text in [
            "xn--zzzz",
            "ftp://xn--zzzz/",
            "https://user@xn--zzzz/",
            "https://xn--zzzz/#part",
            "https://zzzz zzzz/",
            "https://xn--zzzz zzzz/",
            "https://1.2.3.4.5/",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn base_url_must_be_plain_http_and_accepts_paths() {
        for (text, base) in [
            ("https://knowledge.example", "https://knowledge.example"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            (" HTTPS://Knowledge.example\n", "https://knowledge.example"),
            (
                "https://example.com/knowledge/",
                "https://example.com/knowledge",
            ),
        ] {
            let parsed = BaseUrl::parse(text).expect(text);
            assert_eq!(
                (parsed.as_str(), parsed.to_string()),
                (base, base.to_owned())
            );
        }
        for other in [
            "",
            "knowledge.example",
            "/knowledge",
            "not a url?x",
            "ftp://knowledge.example",
            "https://",
            "https://maya@knowledge.example",
            "https://:pass@knowledge.example",
            "https://knowledge.example/?a=1",
            "https://knowledge.example/#part",
        ] {
            assert_eq!(BaseUrl::parse(other), None, "{other}");
        }
    }

    #[test]
    fn origin_must_match_form_sent_by_browsers() {
        for origin in [
            "https://app.example.com",
            "http://localhost:3000",
            "http://127.0.0.1:8080",
            "https://[::1]:8443",
            "https://xn--bcher-kva.example",
        ] {
            assert!(is_origin(origin), "{origin}");
        }
        for other in [
            "",
            "*",
            "null",
            "app.example.com",
            "https://",
            "https://app.example.com/",
            "https://App.example.com",
            "https://app.example.com:443",
            "http://app.example.com:80",
            "https://user@app.example.com",
            "https://:pass@app.example.com",
            "https://app.example.com?",
            "https://app.example.com/path",
            "https://app.example.com//",
            "https:app.example.com",
            " https://app.example.com",
            "https://*.example.com",
            "https://app.example.com:port",
            "ftp://app.example.com",
        ] {
            assert!(!is_origin(other), "{other}");
        }
    }
}
