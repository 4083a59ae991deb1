//! Calls of the service as data, with their results.

use std::fmt;
use std::sync::Arc;

use super::indeterminate::Changes;
use super::world::{OrgState, World};
use crate::model::{Caller, ErrorResponse, Expected, Model, Moment, Outcome, Response};
use knowledge_core::Error;
use knowledge_core::api::Operation;
use knowledge_core::model::{OrgId, Timestamp};
use knowledge_core::service::KnowledgeService;
use knowledge_core::store::BoxFuture;

/// Execution of a call.
pub(crate) type Run<'a> = BoxFuture<'a, Result<Response, Error>>;

/// Name and caller of a request.
pub(crate) trait Described: fmt::Debug + Send + Sync {
    /// Returns the operation of the interface; `None` for what only the operator does.
    fn operation(&self) -> Option<Operation>;

    /// Returns the caller; `None` for the operator.
    fn caller(&self) -> Option<&Caller>;

    /// Returns the organisation in which the request creates entities.
    fn org(&self) -> Option<OrgId> {
        self.caller()?.org()
    }
}

/// One operation: its service call, its expected result, and the effects on the simulation.
pub(crate) trait Request: Described {
    /// Makes the call to the service.
    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a>;

    /// Applies the call to the model and returns the expected result.
    ///
    /// A rejected call changes nothing.
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected;

    /// Records that the call is made.
    fn send(&self, _world: &mut World) {}

    /// Records the entities that the call has created or deleted.
    fn learn(&self, _org_state: &mut OrgState, _response: &Response) {}

    /// Reconstructs the response from what the call changed in the store.
    ///
    /// It contains only the parts that the model needs.
    ///
    /// # Errors
    /// If these are not the changes of exactly one such call.
    fn reconstruct(&self, _model: &Model, changes: &Changes<'_>) -> Result<Response, String> {
        changes.created()
    }

    /// Returns the list of this request, for cursors; `None` if it lists nothing.
    fn list(&self) -> Option<String> {
        None
    }

    /// Returns true if the response does not identify what the call creates.
    fn is_silent(&self) -> bool {
        false
    }

    /// Returns true if the call leaves work for maintenance that fails with the store.
    fn leaves_work(&self) -> bool {
        false
    }

    /// Returns true for maintenance.
    fn is_maintenance(&self) -> bool {
        false
    }
}

/// Call of the service with its arguments.
#[derive(Clone)]
pub struct Call(Arc<dyn Request>);

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<R: Request + 'static> From<R> for Call {
    fn from(request: R) -> Self {
        Self(Arc::new(request))
    }
}

impl Call {
    /// Returns the operation of the interface; `None` for what only the operator does.
    #[must_use]
    pub fn operation(&self) -> Option<Operation> {
        self.0.operation()
    }

    /// Returns the caller; `None` for the operator and for signed messages.
    #[must_use]
    pub fn caller(&self) -> Option<&Caller> {
        self.0.caller()
    }

    /// Returns the organisation in which the call creates entities; `None` for maintenance.
    #[must_use]
    pub fn org(&self) -> Option<OrgId> {
        self.0.org()
    }

    /// Returns true for maintenance, which every caller may run at any time.
    #[must_use]
    pub fn is_maintenance(&self) -> bool {
        self.0.is_maintenance()
    }

    pub(crate) fn request(&self) -> &dyn Request {
        &*self.0
    }
}

/// Makes a call to the service and returns its result.
pub async fn execute(service: &KnowledgeService, call: &Call) -> Outcome {
    let outcome = call.0.run(service).await;
    outcome.map_err(|error| ErrorResponse::from(&error))
}

impl Model {
    /// Applies a call and returns the expected result.
    ///
    /// `learned` is the actual response, from which the model takes only what the service created.
    /// A rejected call changes nothing.
    pub fn apply(&mut self, call: &Call, now: Timestamp, learned: Option<&Response>) -> Expected {
        let request: &dyn Request = call.request();
        request.expected(self, &Moment { now, learned })
    }

    /// Applies a call whose response was lost and that is known to be committed.
    ///
    /// `learned` is reconstructed from the stored data, without secrets.
    pub fn recover(&mut self, call: &Call, now: Timestamp, learned: &Response) -> Expected {
        self.is_recovering = true;
        let expected = self.apply(call, now, Some(learned));
        self.is_recovering = false;
        expected
    }
}
