//! Reasons why there is no connection, which are logged when they change.

use std::sync::{Mutex, PoisonError};

use crate::error::OpenError;

/// Reasons of the last attempt to connect; none while that is possible.
#[derive(Debug, Default)]
pub(crate) struct Reasons {
    last: Mutex<Option<String>>,
}

impl Reasons {
    /// Notes the result of an attempt, and returns true if it differs from the previous result.
    pub(crate) fn is_news(&self, error: Option<&OpenError>) -> bool {
        let reasons = error.map(ToString::to_string);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *last != reasons;
        *last = reasons;
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_news_when_they_change() {
        let hosts = |reason: &str| OpenError::Hosts {
            errors: vec![
                OpenError::Unreachable {
                    server: "db1:5432".to_owned(),
                    reason: reason.to_owned(),
                },
                OpenError::ReadOnly {
                    server: "db2:5432".to_owned(),
                },
            ],
        };
        let reasons = Reasons::default();
        for (error, is_news) in [
            (None, false),
            (Some("no answer in time"), true),
            (Some("no answer in time"), false),
            (Some("refused"), true),
            (Some("refused"), false),
            (None, true),
            (None, false),
            (Some("refused"), true),
        ] {
            let error = error.map(hosts);
            assert_eq!(reasons.is_news(error.as_ref()), is_news, "{error:?}");
        }
    }
}
