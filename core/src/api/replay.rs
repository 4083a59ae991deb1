//! Requests that create something with an idempotency key: each is carried out at most once.

use bytes::Bytes;
use http::Request;
use serde::Serialize;
use serde_json::{Map, Value};

use super::call::Call;
use super::headers;
use super::input::Input;
use super::operations::{dispatch, has_etag};
use super::response::{ApiResponse, HandlerResult};
use crate::error::Error;
use crate::model::{ChatId, ChatMessageId, CredentialId, McpKeySummary, WorkspaceId};
use crate::operation::Operation;
use crate::service::Caller;
use crate::service::operation::idempotency::{Creation, IdempotencyRecord, KeyedRequest, Replay};

/// An MCP key whose secret is not shown again.
#[derive(Serialize)]
struct KnownMcpKey {
    #[serde(flatten)]
    summary: McpKeySummary,
    secret: (),
}

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

    /// Calls the function of an operation, unless an earlier request with the same key did.
    pub(super) async fn dispatch_once(
        &self,
        request: KeyedRequest,
        operation: Operation,
        caller: &Caller,
    ) -> HandlerResult {
        let first = caller
            .clone()
            .with_creation(Creation::Request(request.clone()));
        loop {
            match dispatch(self, operation, &first).await {
                Err(Error::IdempotencyKeyReused) => {}
                handled => return handled,
            }
            // A record that has expired in between leaves the key to this request.
            if let Some(record) = self.service.earlier_request(caller, &request).await? {
                return self.replay(record, operation, caller).await;
            }
        }
    }

    /// Returns the response to a repeated request: what the first one created, as it is now.
    ///
    /// Its headers are those that the operation describes, not those of the operation that reads.
    ///
    /// # Errors
    /// [`Error::CreatedResourceGone`] if it does not exist for the caller; those of reading it.
    async fn replay(
        &self,
        record: IdempotencyRecord,
        operation: Operation,
        caller: &Caller,
    ) -> HandlerResult {
        let response = match record.kept {
            Some(response) if operation.spec().replay == Some(operation) => {
                Ok(ApiResponse::json(self.success(), &response))
            }
            kept => {
                let id = record.operation_id.0;
                let replay = Replay { operation, kept };
                let caller = caller.clone().with_creation(Creation::Replay(replay));
                self.read_created(id, operation, &caller).await
            }
        };
        match response {
            Ok(response) if has_etag(operation) => Ok(response.replayed()),
            Ok(response) => Ok(response.without_etag().replayed()),
            Err(Error::NotFound { .. } | Error::Forbidden { .. }) => {
                Err(Error::CreatedResourceGone)
            }
            failed => failed,
        }
    }

    /// Reads what an operation created, with the permissions of that operation.
    async fn read_created(
        &self,
        id: uuid::Uuid,
        operation: Operation,
        caller: &Caller,
    ) -> HandlerResult {
        let mut reader = self.reader();
        match operation.spec().replay {
            Some(Operation::ListChatMessages) => {
                let workspace = WorkspaceId::read(&mut reader, "id")?;
                let chat = ChatId::read(&mut reader, "sessionId")?;
                let id = ChatMessageId(id);
                let found = self.service.get_chat_message(caller, workspace, chat, id);
                Ok(ApiResponse::json(self.success(), &found.await?))
            }
            Some(Operation::GetMcpKey) => {
                let workspace = WorkspaceId::read(&mut reader, "id")?;
                let id = CredentialId(id);
                let key = KnownMcpKey {
                    summary: self.service.get_mcp_key(caller, workspace, id).await?,
                    secret: (),
                };
                Ok(ApiResponse::json(self.success(), &key))
            }
            Some(read) if read != operation => {
                // The identifier is the last parameter, in place of one of the same name.
                let path = read.spec().path;
                let last = path.rsplit('{').next().unwrap_or_default();
                let created = (last.trim_end_matches('}').to_owned(), id.to_string());
                let mut parameters = vec![created];
                parameters.extend_from_slice(self.parameters);
                let call = Call {
                    parameters: &parameters,
                    request: &Request::new(Bytes::new()),
                    ..*self
                };
                dispatch(&call, read, caller).await
            }
            _ => Err(Error::internal("a replay without what it shows")),
        }
    }
}
