//! A request to an operation.

use bytes::Bytes;
use http::{Request, StatusCode};

use super::headers;
use super::input::Reader;
use super::route::Parameters;
use crate::error::Error;
use crate::service::{ClientInfo, KnowledgeService};

/// A request in progress.
pub(super) struct Call<'c> {
    pub(super) service: &'c KnowledgeService,
    pub(super) client: ClientInfo,
    pub(super) parameters: &'c Parameters,
    pub(super) request: &'c Request<Bytes>,
    /// Status of a successful response.
    pub(super) success: u16,
    /// True if the operation rejects parameters of the query that it does not know: it has an error
    /// for them.
    pub(super) rejects_unknown_parameters: bool,
}

impl Call<'_> {
    /// Checks the length of the body.
    pub(super) fn check_length(&self) -> Result<(), Error> {
        let bytes_max = self.service.limits().body_bytes_max;
        if self.request.body().len() > bytes_max {
            return Err(Error::PayloadTooLarge { bytes_max });
        }
        Ok(())
    }

    /// Checks that a body is declared as JSON.
    pub(super) fn require_json(&self) -> Result<(), Error> {
        headers::require_json(self.request.headers(), !self.request.body().is_empty())
    }

    /// Returns a reader of the inputs of the operation.
    pub(super) fn reader(&self) -> Reader<'_> {
        let mut reader = Reader::new(self.service, self.parameters, self.request);
        if self.rejects_unknown_parameters && self.request.uri().query().is_some() {
            reader.query();
        }
        reader
    }

    /// Returns the status of a successful response.
    pub(super) fn success(&self) -> StatusCode {
        StatusCode::from_u16(self.success).expect("a status of the table")
    }
}
