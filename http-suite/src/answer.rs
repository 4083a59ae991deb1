//! Received responses.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

/// A received response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body, which may be compressed.
    pub body: Bytes,
}

impl Answer {
    /// Returns the body as JSON.
    ///
    /// # Panics
    /// If it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// Asserts the status and a field of the JSON object in the body.
    #[track_caller]
    pub(crate) fn assert_field(&self, status: u16, field: &str, value: &str) {
        let found = self.json()[field].clone();
        assert_eq!((self.status.as_u16(), found), (status, Value::from(value)));
    }

    /// Returns the text of a header that occurs once.
    ///
    /// # Panics
    /// If it does not occur once, or is no text.
    pub fn header(&self, name: &str) -> &str {
        let mut values = self.headers.get_all(name).into_iter();
        match (values.next(), values.next()) {
            (Some(value), None) => value.to_str().expect("visible ASCII"),
            _ => panic!("{name} is not there once: {self:?}"),
        }
    }
}
