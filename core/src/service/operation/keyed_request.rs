//! Requests with an idempotency key, as a clone of the service carries them out.

use std::sync::Arc;

use serde::Serialize;

use super::idempotency::KeyedRequest;
use crate::access::RequiredPermission;
use crate::operation::Operation;
use crate::service::KnowledgeService;

impl KnowledgeService {
    /// Returns a clone for this request.
    pub(crate) fn for_request(&self, request: Arc<KeyedRequest>) -> Self {
        Self {
            keyed: Some(request),
            ..self.clone()
        }
    }

    /// Returns the request with an idempotency key that asks for this operation.
    pub(crate) fn keyed(&self, operation: Operation) -> Option<&KeyedRequest> {
        let request = self.keyed.as_deref();
        request.filter(|request| request.operation == operation)
    }

    /// Returns the request with an idempotency key that is being replayed, if this operation reads
    /// what it created.
    pub(crate) fn replayed(&self, operation: Operation) -> Option<&KeyedRequest> {
        let request = self.keyed.as_deref();
        request.filter(|request| {
            request.operation.spec().replay == Some(operation) && request.earlier().is_some()
        })
    }

    /// Returns the permissions that an operation requires.
    ///
    /// A replay shows what was created to whoever may create it, so that its reading requires the
    /// permissions of the creation.
    pub(crate) fn permissions_of(&self, operation: Operation) -> &'static [RequiredPermission] {
        let replayed = self.replayed(operation);
        let decisive = replayed.map_or(operation, |request| request.operation);
        decisive.spec().permissions
    }

    /// Returns the fingerprint of a parsed request that creates.
    ///
    /// It depends on the sealing key: the request may have short content, which a dump without the
    /// key must not confirm once the content has been erased.
    pub(crate) fn request_fingerprint<T: Serialize>(&self, request: &T) -> String {
        let canonical = serde_json::to_vec(request).expect("requests serialise");
        self.inner.sealer.fingerprint_of(&canonical)
    }
}
