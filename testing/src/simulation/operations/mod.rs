//! Operations of the simulation, one file for each capability.
//!
//! A file has everything that the simulation knows about its operations: the strategy, the parts of
//! the request, the expected result, and the entities that other operations can then refer to. To
//! add an operation, add it to one of these files.

mod audit;
mod bulk;
mod chats;
mod connectors;
mod deliveries;
mod erasures;
mod inbound;
mod inbound_posts;
mod ingest;
mod labels;
mod mcp_keys;
mod members;
mod memories;
mod operator;
mod recalls;
mod retention;
mod role_assignment;
mod roles;
mod subscriptions;
mod tokens;
mod webhooks;
mod workspaces;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;

pub(super) use self::audit::ListAuditEntries;
pub(super) use self::chats::CreateChat;
pub(super) use self::connectors::CreateConnector;
pub(super) use self::deliveries::Ping;
pub(super) use self::erasures::CreateErasure;
pub(super) use self::inbound::CreateInboundWebhook;
pub(super) use self::ingest::IngestMemories;
pub(super) use self::mcp_keys::CreateMcpKey;
pub(super) use self::memories::UpdateMemory;
pub(super) use self::operator::Maintain;
pub use self::operator::{delete_workspace, maintain};
pub(super) use self::recalls::CreateRecall;
pub(super) use self::role_assignment::AssignRole;
pub use self::role_assignment::{assign_role, end_workspace_role};
pub(super) use self::roles::CreateCustomRole;
pub use self::roles::{create_custom_role, delete_custom_role};
pub(super) use self::subscriptions::CreateCitationSubscription;
pub(super) use self::webhooks::CreateWebhook;
pub(super) use self::workspaces::CreateSource;
use super::call::{Call, Request};
use super::resolve::{Step, View};
use super::world::{Entity, PlacedEntity, World};
use crate::model::Caller;
use crate::strategies::{Actor, elsewhere, entity, etag, page};
use knowledge_core::model::WorkspaceId;
use knowledge_core::service::{IfMatch, PageRequest};

/// Resolution of an operation into a call.
type Resolve = dyn Fn(&World) -> Step + Send + Sync;

/// Generated operation, which refers to entities by choice.
///
/// It contains no identifiers, which the service creates: it chooses among the entities that exist
/// when it runs. A sequence therefore remains meaningful without some of its operations, and can be
/// shrunk.
#[derive(Clone)]
pub struct Op {
    name: &'static str,
    resolve: Arc<Resolve>,
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Op {
    fn new(name: &'static str, resolve: impl Fn(&World) -> Step + Send + Sync + 'static) -> Self {
        Self {
            name,
            resolve: Arc::new(resolve),
        }
    }

    /// Creates an operation of this caller.
    fn by<C: Into<Call> + 'static>(
        by: Actor,
        resolve: impl Fn(&View<'_>) -> C + Send + Sync + 'static,
    ) -> Self {
        Self::to(by.is_second_org, resolve)
    }

    /// Creates an operation in the first or the second organisation.
    fn to<C: Into<Call> + 'static>(
        is_second_org: bool,
        resolve: impl Fn(&View<'_>) -> C + Send + Sync + 'static,
    ) -> Self {
        Self::new(std::any::type_name::<C>(), move |world| {
            Step::Call(resolve(&world.view(is_second_org)).into())
        })
    }

    /// Returns an operation that advances the clock.
    #[must_use]
    pub fn advance(by: Duration) -> Self {
        Self::new("Advance", move |_| Step::Advance(by))
    }

    pub(super) fn resolve(&self, world: &World) -> Step {
        (self.resolve)(world)
    }
}

impl World {
    /// Resolves an operation against the current entities.
    #[must_use]
    pub fn resolve(&mut self, op: &Op) -> Step {
        let step = op.resolve(self);
        if let Step::Call(call) = &step {
            call.request().send(self);
        }
        step
    }
}

/// Defines requests, each with the function of the service that carries it out.
///
/// The operation is that of its name, unless it exists for webhooks and for citation subscriptions.
/// The word after the function makes a response of its result; by default it is `plain`.
macro_rules! requests {
    ($(
        $name:ident $(= $webhook:ident | $subscription:ident)? by $view:ident.$function:ident
        $($form:ident)?
        { $($field:ident: $type:ty),* $(,)? }
    )+) => {$(
        #[derive(Clone, Debug)]
        pub(in crate::simulation) struct $name {
            pub(in crate::simulation) by: $crate::model::Caller,
            $(pub(in crate::simulation) $field: $type,)*
        }

        impl $name {
            #[allow(dead_code, reason = "some requests are written with the names of their fields")]
            pub(in crate::simulation) fn new(
                by: $crate::model::Caller,
                $($field: $type),*
            ) -> Self {
                Self { by, $($field),* }
            }
        }

        impl $crate::simulation::call::Described for $name {
            fn operation(&self) -> Option<knowledge_core::api::Operation> {
                Some(requests!(@operation self, $name $($webhook $subscription)?))
            }

            fn caller(&self) -> Option<&$crate::model::Caller> {
                Some(&self.by)
            }

            fn api_call(
                &self,
                _now: knowledge_core::model::Timestamp,
            ) -> Option<$crate::call::ApiCall> {
                #[allow(unused_mut, reason = "some operations have no parts")]
                let mut call = $crate::call::ApiCall::new(self.operation()?);
                $($crate::simulation::part::Part::add_to(&self.$field, &mut call);)*
                Some(call)
            }

            fn list(&self) -> Option<String> {
                use $crate::simulation::part::Part;
                if ![$(requests!(@is_page $field)),*].contains(&true) {
                    return None;
                }
                let (operation, org) = (self.operation()?, self.org());
                let mut list = $crate::call::ApiCall::new(operation);
                $(if <$type as Part>::IDENTIFIES_LIST {
                    self.$field.add_to(&mut list);
                })*
                Some(format!("{operation:?} {org:?} {}{}", list.path, list.query))
            }

            fn run<'a>(
                &'a self,
                service: &'a knowledge_core::service::KnowledgeService,
            ) -> $crate::simulation::call::Run<'a> {
                Box::pin(async move {
                    Ok(requests!(@form $($form)?)(
                        service
                            .$view()
                            .$function(
                                &self.by.of_service(),
                                $($crate::simulation::part::Part::arg(&self.$field)),*
                            )
                            .await?,
                    ))
                })
            }
        }

        $(requests! { @listing $name $field })*
    )+};
    (@is_page page) => { true };
    (@is_page $other:ident) => { false };
    (@listing $name:ident page) => {
        impl $crate::simulation::call::Listing for $name {
            fn page(&self) -> &knowledge_core::service::PageRequest {
                &self.page
            }
        }
    };
    (@listing $name:ident $other:ident) => {};
    (@form) => { $crate::simulation::call::plain };
    (@form tagged) => { $crate::simulation::call::tagged };
    (@operation $request:expr, $name:ident) => { knowledge_core::api::Operation::$name };
    (@operation $request:expr, $name:ident $webhook:ident $subscription:ident) => {
        match $request.endpoint {
            knowledge_core::service::Endpoint::Webhook(..) => {
                knowledge_core::api::Operation::$webhook
            }
            knowledge_core::service::Endpoint::Subscription(_) => {
                knowledge_core::api::Operation::$subscription
            }
        }
    };
}
use requests;

/// Values that strategies generate for operations.
trait Generated: Clone + fmt::Debug + Send + Sync + 'static {}

impl<T: Clone + fmt::Debug + Send + Sync + 'static> Generated for T {}

/// Strategy for operations with its weight among those of its group.
struct Weighted {
    weight: u32,
    /// False if the result does not show one point in time, or if the call commits more than once.
    is_atomic: bool,
    strategy: BoxedStrategy<Op>,
}

/// Returns a strategy for operations that concurrent callers run too.
fn of(weight: u32, strategy: impl Strategy<Value = Op> + 'static) -> Weighted {
    Weighted {
        weight,
        is_atomic: true,
        strategy: strategy.boxed(),
    }
}

/// Returns a strategy for operations that concurrent callers do not run.
fn alone(weight: u32, strategy: impl Strategy<Value = Op> + 'static) -> Weighted {
    Weighted {
        is_atomic: false,
        ..of(weight, strategy)
    }
}

/// Returns a strategy for calls by the bearer of a token, with what is generated for them.
fn by_bearer<N: Generated, C: Into<Call> + 'static>(
    by: impl Strategy<Value = Actor>,
    what: impl Strategy<Value = N>,
    call: impl Fn(&View<'_>, Caller, N) -> C + Copy + Send + Sync + 'static,
) -> impl Strategy<Value = Op> {
    (by, what).prop_map(move |(by, what)| {
        Op::by(by, move |view| call(view, view.bearer(by), what.clone()))
    })
}

/// Returns a strategy for calls by the holder of a session, about the own organisation.
fn by_session<N: Generated, C: Into<Call> + 'static>(
    by: impl Strategy<Value = Actor>,
    what: impl Strategy<Value = N>,
    call: impl Fn(&View<'_>, Caller, String, N) -> C + Copy + Send + Sync + 'static,
) -> impl Strategy<Value = Op> {
    (by, what).prop_map(move |(by, what)| {
        Op::by(by, move |view| {
            let org = view.own.slug.clone();
            call(view, view.session(by), org, what.clone())
        })
    })
}

/// Returns a strategy for calls about a workspace.
fn in_workspace<C: Into<Call> + 'static>(
    by: impl Strategy<Value = Actor>,
    call: fn(Caller, WorkspaceId) -> C,
) -> impl Strategy<Value = Op> {
    by_bearer(by, entity(), move |view, by, place| {
        call(by, view.workspace(place))
    })
}

/// Returns a strategy for calls that create something in a workspace.
fn create_in<N: Generated, C: Into<Call> + 'static>(
    by: impl Strategy<Value = Actor>,
    new: impl Strategy<Value = N>,
    call: fn(Caller, WorkspaceId, N) -> C,
) -> impl Strategy<Value = Op> {
    by_bearer(by, (entity(), new), move |view, by, (place, new)| {
        call(by, view.workspace(place), new)
    })
}

/// Returns a strategy for calls for a page of a list.
fn lists<N: Generated, R: Request + Into<Call> + 'static>(
    by: impl Strategy<Value = Actor>,
    what: impl Strategy<Value = N>,
    call: impl Fn(&View<'_>, Caller, N, PageRequest) -> R + Copy + Send + Sync + 'static,
) -> impl Strategy<Value = Op> {
    by_bearer(by, (what, page()), move |view, by, (what, page)| {
        view.paged(page, |page| call(view, by.clone(), what.clone(), page))
    })
}

/// Returns a strategy for calls that list what is in a workspace.
fn list_in<R: Request + Into<Call> + 'static>(
    by: impl Strategy<Value = Actor>,
    call: fn(Caller, WorkspaceId, PageRequest) -> R,
) -> impl Strategy<Value = Op> {
    lists(by, entity(), move |view, by, place, page| {
        call(by, view.workspace(place), page)
    })
}

/// Returns a strategy for calls that list what is in the organisation.
fn list<R: Request + Into<Call> + 'static>(
    by: impl Strategy<Value = Actor>,
    call: fn(Caller, PageRequest) -> R,
) -> impl Strategy<Value = Op> {
    lists(by, Just(()), move |_, by, (), page| call(by, page))
}

/// Returns a strategy for calls about an entity of the organisation.
fn one_of<T: Entity, C: Into<Call> + 'static>(
    by: impl Strategy<Value = Actor>,
    call: fn(Caller, T) -> C,
) -> impl Strategy<Value = Op> {
    by_bearer(by, entity(), move |view, by, id| call(by, view.one(id)))
}

/// Returns a strategy for calls about an entity of a workspace, sometimes named with another one.
fn placed<T: PlacedEntity, C: Into<Call> + 'static>(
    by: impl Strategy<Value = Actor>,
    call: fn(Caller, WorkspaceId, T) -> C,
) -> impl Strategy<Value = Op> {
    let one = (entity(), elsewhere());
    by_bearer(by, one, move |view, by, (id, place)| {
        let (workspace, id) = view.placed(id, place);
        call(by, workspace, id)
    })
}

/// Returns a strategy for calls that send something to an entity of a workspace.
fn placed_with<T: PlacedEntity, N: Generated, C: Into<Call> + 'static>(
    by: impl Strategy<Value = Actor>,
    new: impl Strategy<Value = N>,
    call: fn(Caller, WorkspaceId, T, N) -> C,
) -> impl Strategy<Value = Op> {
    let one = (entity(), elsewhere());
    by_bearer(by, (one, new), move |view, by, ((id, place), new)| {
        let (workspace, id) = view.placed(id, place);
        call(by, workspace, id, new)
    })
}

/// Returns a strategy for updates of an entity of a workspace, some of them conditional.
fn update_placed<T: PlacedEntity, N: Generated, C: Into<Call> + 'static>(
    by: impl Strategy<Value = Actor>,
    update: impl Strategy<Value = N>,
    call: fn(Caller, WorkspaceId, T, N, Option<IfMatch>) -> C,
) -> impl Strategy<Value = Op> {
    let one = (entity(), elsewhere());
    let what = (one, update, etag());
    by_bearer(by, what, move |view, by, ((id, place), update, tag)| {
        let (workspace, id): (WorkspaceId, T) = view.placed(id, place);
        call(by, workspace, id, update, view.if_match(id.uuid(), tag))
    })
}

fn advance() -> impl Strategy<Value = Op> {
    const MINUTE: u64 = 60 * 1_000;
    const HOUR: u64 = 60 * MINUTE;
    const MILLIS: &[u64] = &[
        1,
        1_000,
        MINUTE,
        31 * MINUTE,
        HOUR,
        2 * HOUR,
        24 * HOUR - 1,
        24 * HOUR,
        25 * HOUR,
        8 * 24 * HOUR,
    ];
    prop_oneof![
        2 => select(&MILLIS[..3]).prop_map(Duration::from_millis),
        1 => select(MILLIS).prop_map(Duration::from_millis),
    ]
    .prop_map(Op::advance)
}

/// Strategies by group: memories, roles and members, and everything else in a workspace.
fn groups() -> [Vec<Weighted>; 3] {
    [
        [
            bulk::strategies(),
            ingest::strategies(),
            memories::strategies(),
            labels::strategies(),
            erasures::strategies(),
            audit::strategies(),
        ]
        .into_iter()
        .flatten()
        .collect(),
        [
            roles::strategies(),
            role_assignment::strategies(),
            members::strategies(),
            tokens::strategies(),
            operator::strategies(),
        ]
        .into_iter()
        .flatten()
        .collect(),
        [
            workspaces::strategies(),
            webhooks::strategies(),
            inbound::strategies(),
            inbound_posts::strategies(),
            recalls::strategies(),
            subscriptions::strategies(),
            deliveries::strategies(),
            connectors::strategies(),
            chats::strategies(),
            mcp_keys::strategies(),
            retention::strategies(),
        ]
        .into_iter()
        .flatten()
        .collect(),
    ]
}

/// Returns a strategy for operations of the groups with these weights.
fn mixed(weights: [u32; 3], is_concurrent: bool) -> Vec<(u32, BoxedStrategy<Op>)> {
    let group = |(weight, group): (u32, Vec<Weighted>)| {
        let strategies = group.into_iter();
        let strategies = strategies.filter(|of| of.is_atomic || !is_concurrent);
        let strategies = strategies.map(|of| (of.weight, of.strategy));
        (weight, Union::new_weighted(strategies.collect()).boxed())
    };
    let maintain = (2, Just(maintain()).boxed());
    let groups = weights.into_iter().zip(groups()).map(group);
    std::iter::once(maintain).chain(groups).collect()
}

/// Operations of any kind.
pub fn operation() -> impl Strategy<Value = Op> {
    let mut all = mixed([10, 8, 16], false);
    all.push((2, advance().boxed()));
    Union::new_weighted(all)
}

/// Sequences of 1 to `longest` operations.
pub fn operations(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(operation(), 1..=longest.max(1))
}

/// Sequences of 1 to `longest` operations, one for each of several concurrent callers.
///
/// They contend for the same memories, idempotency keys and roles.
pub fn concurrent_operations(
    callers: usize,
    longest: usize,
) -> impl Strategy<Value = Vec<Vec<Op>>> {
    let operation = Union::new_weighted(mixed([8, 6, 3], true));
    vec(vec(operation, 1..=longest.max(1)), callers..=callers)
}
