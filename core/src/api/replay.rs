//! Requests that create something with an idempotency key: each is carried out at most once.

use serde_json::{Map, Value};

use super::call::Call;
use super::headers;
use super::operations::dispatch;
use super::response::HandlerResult;
use crate::error::Error;
use crate::operation::Operation;
use crate::service::Caller;
use crate::service::operation::idempotency::KeyedRequest;

impl Call<'_> {
    /// Returns the request with its idempotency key, if the operation takes one and has one.
    ///
    /// Two requests are the same if their paths and the JSON of their bodies are; white space and
    /// the order of fields do not matter. An integer is another number than one with a fraction.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid key.
    pub(super) fn keyed_request(
        &self,
        operation: Operation,
    ) -> Result<Option<KeyedRequest>, Error> {
        if operation.spec().replay.is_none() {
            return Ok(None);
        }
        let key = headers::optional_idempotency_key(self.request.headers())?;
        Ok(key.map(|key| {
            // The operation itself rejects a body that is not JSON. An object without fields is as
            // good as no body.
            let body = serde_json::from_slice::<Value>(self.request.body()).ok();
            let is_empty = |fields: &Map<String, Value>| fields.is_empty();
            let body = body.filter(|body| !body.as_object().is_some_and(is_empty));
            let fingerprint = self.service.request_fingerprint(&(self.parameters, body));
            KeyedRequest {
                operation,
                key,
                fingerprint,
            }
        }))
    }

    /// Calls the function of an operation, which reads what an earlier request with the same key
    /// created.
    pub(super) async fn dispatch_once(
        &self,
        request: KeyedRequest,
        operation: Operation,
        caller: &Caller,
    ) -> HandlerResult {
        let run = |caller: Caller| async move { dispatch(self, operation, &caller).await };
        let handled = self.service.run_once(caller, &request, run).await?;
        if handled.replayed {
            Ok(handled.value.replayed())
        } else {
            Ok(handled.value)
        }
    }
}
