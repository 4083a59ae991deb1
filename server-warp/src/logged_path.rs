//! Paths of requests, as the log and traces have them.

use std::borrow::Cow;

use knowledge_core::access::CredentialKind;

/// Returns the path of a request with `…` in place of the secrets of credentials.
///
/// A login link that has lost its `#` on the way has its secret in the path, and is still valid.
pub(crate) fn logged_path(path: &str) -> Cow<'_, str> {
    if secret_in(path).is_none() {
        return Cow::Borrowed(path);
    }
    let segments = path.split('/').map(|segment| match secret_in(segment) {
        Some(start) => Cow::Owned(format!("{}…", &segment[..start])),
        None => Cow::Borrowed(segment),
    });
    Cow::Owned(segments.collect::<Vec<_>>().join("/"))
}

/// Returns where the first secret begins after its prefix.
fn secret_in(text: &str) -> Option<usize> {
    let found = CredentialKind::ALL.iter().filter_map(|kind| {
        let prefix = kind.prefix();
        Some(text.find(prefix)? + prefix.len())
    });
    found.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logged_path_omits_secrets() {
        for (path, logged) in [
            ("/login/wkl_1_ab", "/login/wkl_…"),
            ("/%23/login/wkl_1_ab/", "/%23/login/wkl_…/"),
            ("/a/wkt_1_ab/b/wks_2_cd", "/a/wkt_…/b/wks_…"),
            ("/link=wkl_1_wkt_ab/c", "/link=wkl_…/c"),
            ("/v1/memories", "/v1/memories"),
        ] {
            assert_eq!(logged_path(path), logged);
        }
    }
}
