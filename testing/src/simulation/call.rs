//! Calls of the service as data, with their results.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::indeterminate::Changes;
use super::world::{OrgState, World};
use crate::call::{ACT_FOR, ApiCall};
use crate::client::CLIENT;
use crate::model::{Asked, Caller, ErrorResponse, Expected, Model, Moment, Outcome, Response};
use knowledge_core::access::Credential;
use knowledge_core::api::{Api, Operation};
use knowledge_core::limits::PAGE_ITEMS_MAX;
use knowledge_core::model::{OrgId, Timestamp};
use knowledge_core::service::{KnowledgeService, PageRequest, WithEtag};
use knowledge_core::store::{BoxFuture, Direction};
use knowledge_core::{Error, ProblemCode};

/// Execution of a call by a function of the service.
pub(crate) type Run<'a> = BoxFuture<'a, Result<Response, Error>>;

/// Caller of a request, and the two ways to carry it out.
pub(crate) trait Described: fmt::Debug + Send + Sync {
    /// Returns the operation of the interface; `None` for what only the operator does.
    fn operation(&self) -> Option<Operation> {
        None
    }

    /// Returns the caller; `None` for the operator.
    fn caller(&self) -> Option<&Caller> {
        None
    }

    /// Returns the organisation in which the request creates entities.
    fn org(&self) -> Option<OrgId> {
        self.caller()?.org()
    }

    /// Returns the call over HTTP without its credential; `None` if the interface has none.
    fn api_call(&self, _now: Timestamp) -> Option<ApiCall> {
        None
    }

    /// Returns the list of this request, for cursors; `None` if it lists nothing.
    fn list(&self) -> Option<String> {
        None
    }

    /// Calls the service directly, for a trusted caller and for what HTTP does not have.
    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a>;
}

/// Returns the response that is a record, a page, or nothing.
pub(super) fn plain<T: Serialize>(record: T) -> Response {
    Response::of(&record)
}

/// Returns the response that has an entity tag.
pub(super) fn tagged<T: Serialize>(record: WithEtag<T>) -> Response {
    Response::tagged(&record)
}

/// One operation: its call, its expected result, and the effects on the simulation.
pub(crate) trait Request: Described {
    /// Applies the call to the model and returns the expected result.
    ///
    /// A rejected call changes nothing.
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected;

    /// Returns the caller and the operation that it asks for.
    fn asked(&self) -> Asked<'_> {
        Asked {
            by: self.caller().expect("the operator asks for nothing"),
            operation: self.operation().expect("a caller asks for an operation"),
        }
    }

    /// Removes texts for people from the response.
    fn trim(&self, _response: &mut Response) {}

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

/// Request for a page of a list.
pub(crate) trait Listing: Described {
    /// Returns the requested page.
    fn page(&self) -> &PageRequest;

    /// Returns the page of these records, which are in order of their identifiers.
    fn page_of(
        &self,
        model: &mut Model,
        direction: Direction,
        records: Vec<(Uuid, Value)>,
        at: &Moment<'_>,
    ) -> Expected {
        let list = (self.list().unwrap_or_default(), direction);
        model.page(list, records, self.page(), at)
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

    /// Returns the call over HTTP, which refuses trusted callers.
    pub(super) fn api_call(&self, now: Timestamp) -> Option<ApiCall> {
        let credential = self.caller().map(|caller| &caller.credential);
        let credential = match credential {
            Some(Credential::Trusted { .. }) => return None,
            Some(Credential::Secret(secret)) => Some(secret.clone()),
            None => None,
        };
        let mut call = self.0.api_call(now)?;
        let member = self.caller().and_then(|caller| caller.acting_for.as_ref());
        if let Some(member) = member {
            call.add_header(ACT_FOR, member.to_string());
        }
        Some(ApiCall { credential, ..call })
    }
}

/// Makes a call and returns its result.
///
/// It is a request to the interface, unless HTTP does not have it.
pub async fn execute(api: &Api, call: &Call) -> Outcome {
    let service = api.service();
    let outcome = match call.api_call(service.env().now()) {
        None => {
            let outcome = call.0.run(service).await;
            outcome.map_err(|error| ErrorResponse::from(&error))
        }
        Some(call) => {
            let mut request = call.request();
            request.extensions_mut().insert(CLIENT);
            let response = api.handle(request).await;
            Response::read(call.operation.spec(), &response)
        }
    };
    outcome.map(|mut response| {
        call.0.trim(&mut response);
        response
    })
}

impl Model {
    /// Applies a call and returns the expected result.
    ///
    /// `learned` is the actual response, from which the model takes only what the service created.
    /// A rejected call changes nothing.
    pub fn apply(&mut self, call: &Call, now: Timestamp, learned: Option<&Response>) -> Expected {
        self.take_shown_uses(learned);
        let request: &dyn Request = call.request();
        let expected = request.expected(self, &Moment { now, learned });
        expected.map_err(|errors| {
            let limit = call.api_call(now).and_then(|api_call| api_call.limit());
            let is_wrong = limit.is_some_and(|limit| !(1..=PAGE_ITEMS_MAX).contains(&limit));
            // Only an invalid credential takes precedence over the query.
            if !is_wrong || errors.contains(&ErrorResponse::Unauthenticated) {
                return errors;
            }
            // All problems of a query are reported at once.
            let problems = errors.into_iter().filter_map(|error| match error {
                ErrorResponse::Invalid(problems) => Some(problems),
                _ => None,
            });
            let mut problems: Vec<_> = problems.flatten().collect();
            problems.push(("limit".to_owned(), ProblemCode::InvalidValue));
            problems.sort();
            problems.dedup();
            vec![ErrorResponse::Invalid(problems)]
        })
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
