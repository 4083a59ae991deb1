//! Scheme of a client's request.

/// Scheme of a client's request, an extension of requests from front ends that know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientScheme {
    /// Plain HTTP, or a proxy that does not report the scheme or is not trusted.
    #[default]
    Http,
    /// HTTPS, to the front end or to a trusted proxy.
    Https,
}
