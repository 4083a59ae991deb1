//! URLs of webhooks and services, and origins of web pages.

use std::fmt;
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
pub struct WebhookUrl(url::Url);

/// Error of a text that is not a valid webhook URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// Longer than [`URL_CHARS_MAX`] characters.
    #[error("must have at most {URL_CHARS_MAX} characters")]
    TooLong,
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
    /// Returns the parsed URL.
    #[must_use]
    pub fn as_url(&self) -> &url::Url {
        &self.0
    }

    /// Returns the URL without its path and its query, which may contain a secret.
    pub(crate) fn origin(&self) -> Self {
        let mut url = self.0.clone();
        url.set_path("");
        url.set_query(None);
        Self(url)
    }

    /// Returns the URL as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for WebhookUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.chars().count() > URL_CHARS_MAX {
            return Err(InvalidUrl::TooLong);
        }
        let url = url::Url::parse(text).map_err(|_| InvalidUrl::NotHttp)?;
        if !matches!(url.scheme(), "https" | "http") || !url.has_host() {
            return Err(InvalidUrl::NotHttp);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidUrl::Credentials);
        }
        if url.fragment().is_some() {
            return Err(InvalidUrl::Fragment);
        }
        // Escaping lengthens the URL, and the stored text has to be parsed again.
        if url.as_str().len() > URL_CHARS_MAX {
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
        text.parse().map_err(serde::de::Error::custom)
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
        let url = url::Url::parse(text).ok()?;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
        (is_plain && is_http).then(|| Self(url.as_str().trim_end_matches('/').to_owned()))
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
    url::Url::parse(text).is_ok_and(|url| {
        // A serialised URL differs from its origin by the path only.
        let is_as_sent = url.as_str().strip_suffix('/') == Some(text);
        let has_user = !url.username().is_empty() || url.password().is_some();
        // The parser accepts an asterisk in a host name, but a pattern would match no origin.
        matches!(url.scheme(), "http" | "https") && is_as_sent && !has_user && !text.contains('*')
    })
}

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
            (
                &format!("https://example.com/{}", "a".repeat(2_048)),
                InvalidUrl::TooLong,
            ),
        ] {
            assert_eq!(text.parse::<WebhookUrl>().unwrap_err(), error, "{text}");
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
