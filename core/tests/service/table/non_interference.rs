//! Test of non-interference: what a caller may not know changes no byte of any response.
//!
//! Two organisations are alike in all that the caller may know: members, records, clock and
//! randomness. They differ in hidden memories, in a recall that cites one, in a chat of others, and
//! in a private workspace.
//! The caller makes every call of the table in both, and calls that name the hidden memories.

use bytes::Bytes;
use http::{Request, Response};
use knowledge_core::access::TokenScope;
use knowledge_core::api::{Api, Authentication, OPERATIONS, Operation};
use knowledge_core::model::{
    MemoryChange, MemoryId, MemoryUpdate, ReviewStatus, SensitivityLabel, WorkspaceAccess,
};
use serde_json::{Value, json};

use super::callers::Caller;
use super::requests::Call;
use crate::make::{
    ADMIN, MEMBER, VIEWER, custom, new_chat, new_mcp_key, new_member, new_memory, new_recall,
    new_role, new_workspace, review,
};
use crate::world::World;
use knowledge_testing::requests::with;

/// Operations whose responses may tell more, each with the reason.
const EXCEPTIONS: [(Operation, &str); 4] = [
    (
        Operation::ListAuditEntries,
        "the audit log is for holders of audit:read",
    ),
    (
        Operation::GetAuditEntry,
        "the audit log is for holders of audit:read",
    ),
    (
        Operation::UpdateCustomRole,
        "the refusal tells that there is a private workspace",
    ),
    (
        Operation::DeleteCustomRole,
        "the refusal tells that there is a private workspace",
    ),
];

/// Fields of the dashboard and of the activity that are facts of the workspace for holders of
/// `dashboard:read`.
const FACTS: [&str; 4] = [
    "review_backlog_count",
    "first_value_checklist",
    "workspace",
    "days",
];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Viewer,
    Member,
    TeamMember,
    RestrictedAdmin,
    NarrowedToken,
    TokenWithLabels,
    McpKey,
}

const KINDS: [Kind; 7] = [
    Kind::Viewer,
    Kind::Member,
    Kind::TeamMember,
    Kind::RestrictedAdmin,
    Kind::NarrowedToken,
    Kind::TokenWithLabels,
    Kind::McpKey,
];

impl Kind {
    /// Returns true if the caller reviews memories in the workspace.
    fn reviews(self) -> bool {
        matches!(
            self,
            Self::Member | Self::TeamMember | Self::TokenWithLabels
        )
    }

    async fn caller(self, world: &World) -> Caller {
        let anywhere = TokenScope::default;
        match self {
            Self::Viewer => Caller::of(world, world.member(VIEWER).await, anywhere()).await,
            Self::Member => Caller::of(world, world.member(MEMBER).await, anywhere()).await,
            Self::TeamMember => {
                let new = with(new_member(&world.name("member"), MEMBER), |new| {
                    new.teams = vec!["legal".to_owned()];
                });
                Caller::of(world, world.add(&new).await, anywhere()).await
            }
            Self::RestrictedAdmin => {
                let member = world.member(ADMIN).await;
                let viewer = Some(VIEWER);
                let assigned = world.assign_in(member, world.workspace.id, viewer).await;
                assigned.unwrap();
                Caller::of(world, member, anywhere()).await
            }
            Self::NarrowedToken => {
                let scope = TokenScope {
                    workspaces: Some(vec![world.workspace("elsewhere").await]),
                    ..anywhere()
                };
                Caller::of(world, world.member(ADMIN).await, scope).await
            }
            Self::TokenWithLabels => {
                let scope = TokenScope {
                    audience: Some(vec!["workspace:research".parse().unwrap()]),
                    ..anywhere()
                };
                Caller::of(world, world.member(ADMIN).await, scope).await
            }
            Self::McpKey => {
                let member = world.member(ADMIN).await;
                let mut caller = Caller::of(world, member, anywhere()).await;
                let new = new_mcp_key("workspace:research");
                let key = world.by(&caller.trusted).create_mcp_key(&new);
                caller.token = key
                    .await
                    .unwrap()
                    .secret
                    .as_ref()
                    .unwrap()
                    .expose()
                    .to_owned();
                caller
            }
        }
    }
}

/// A world with things that the caller may not know.
struct Site {
    world: World,
    caller: Caller,
    /// Owner of the records that calls name.
    keeper: Caller,
    /// Memory that differs, and one that only the first of two sites has, where a recall cites it.
    hidden: [MemoryId; 2],
    api: Api,
}

impl Site {
    async fn new(kind: Kind, is_second: bool) -> Self {
        let world = World::new().await;
        let caller = kind.caller(&world).await;
        let keeper = Caller::admin(&world).await;
        let olga = world.trusted(world.add(&new_member("olga", ADMIN)).await);
        let workspace = world.workspace.id;
        let text = ["The merger is on Monday.", "There is no merger."][usize::from(is_second)];
        let new = |title: &str| {
            with(new_memory(title), |new| {
                new.content = text.to_owned();
                new.source_key = Some(title.to_owned());
                new.audience_tag = Some("user:olga".parse().unwrap());
            })
        };
        let batch = [new("hidden/1"), new("hidden/2")];
        let stored = world.ingest(workspace, world.source, &batch).await.unwrap();
        let hidden = [stored[0], stored[1]];
        let approved = review(ReviewStatus::Approved);
        let approved = world.bulk(&olga, &hidden, approved).await.unwrap();
        assert_eq!(approved.summary.succeeded, 2);
        if is_second {
            let update = MemoryUpdate::builder()
                .change(
                    MemoryChange::builder()
                        .sensitivity_label(SensitivityLabel::Restricted)
                        .review_status(ReviewStatus::Rejected)
                        .build(),
                )
                .build();
            let updated = world.by(&olga).update_memory(hidden[0], &update, None);
            updated.await.unwrap();
            // The author of these is the owner, so that only reviewers know them.
            if !kind.reviews() {
                world.memories(3).await;
            }
            world.delete_memory(hidden[1]).await.unwrap();
            add_private(&world).await;
        } else {
            let asked = new_recall(&hidden[1..]);
            world.by(&olga).create_recall(&asked).await.unwrap();
            let chat = new_chat("Merger");
            let chat = world.by(&olga).create_chat(&chat).await;
            let chat = chat.unwrap().id;
            world.by(&olga).post_message(chat, "Monday!").await.unwrap();
        }
        let api = Api::new(world.service.clone());
        Self {
            world,
            caller,
            keeper,
            hidden,
            api,
        }
    }

    async fn send(&self, request: Request<Bytes>) -> String {
        shown(self.api.handle(request).await)
    }

    /// Makes the call of an operation on records of its own.
    async fn call(&self, operation: Operation) -> String {
        let call = Call::new(&self.world, operation, &self.keeper).await;
        let request = call.request(Some(&self.caller));
        let is_dashboard =
            [Operation::GetDashboardSummary, Operation::GetActivity].contains(&operation);
        let response = self.api.handle(request).await;
        if is_dashboard && response.status() == 200 {
            let mut body: Value = serde_json::from_slice(response.body()).unwrap();
            for field in FACTS {
                body[field] = Value::Null;
            }
            return body.to_string();
        }
        shown(response)
    }

    /// Makes calls that name the hidden memories.
    async fn probe(&self) -> Vec<String> {
        let workspace = self.world.workspace.id;
        let [first, second] = self.hidden;
        let ingest = |text: &str| {
            let memory = json!({ "title": "hidden/1", "content": text, "source_key": "hidden/1" });
            json!({ "source_id": self.world.source, "memories": [memory] })
        };
        let of_workspace = |path: &str| format!("/v1/workspaces/{workspace}/{path}");
        let both = json!([first, second]);
        let mut calls = vec![
            ("GET", of_workspace("memories?limit=1"), Value::Null),
            (
                "GET",
                of_workspace("memories?reviewStatus=rejected"),
                Value::Null,
            ),
            ("GET", of_workspace("recalls"), Value::Null),
            ("GET", of_workspace("chats"), Value::Null),
            (
                "POST",
                of_workspace("ingest"),
                ingest("The merger is on Monday."),
            ),
            ("POST", of_workspace("ingest"), ingest("A guess.")),
            (
                "POST",
                of_workspace("recalls"),
                json!({ "query": "?", "memory_ids": both }),
            ),
            (
                "PATCH",
                "/v1/memories/bulk".to_owned(),
                json!({
                    "memoryIds": both, "audienceTag": "org:acme",
                }),
            ),
            (
                "POST",
                "/v1/memories/access-check".to_owned(),
                json!({
                    "memoryIds": both, "includeContent": true,
                }),
            ),
        ];
        for id in self.hidden {
            let memory = format!("/v1/memories/{id}");
            calls.push(("GET", memory.clone(), Value::Null));
            calls.push(("PATCH", memory.clone(), json!({ "title": "Mine" })));
            calls.push(("DELETE", memory, Value::Null));
        }
        let mut responses = Vec::new();
        for (method, uri, body) in calls {
            let body = match body {
                Value::Null => Bytes::new(),
                body => Bytes::from(body.to_string()),
            };
            let request = Request::builder()
                .method(method)
                .uri(&uri)
                .header("authorization", format!("Bearer {}", self.caller.token))
                .header("content-type", "application/json")
                .header("idempotency-key", self.world.name("probe"))
                .body(body);
            responses.push(format!(
                "{method} {uri}: {}",
                self.send(request.unwrap()).await
            ));
        }
        responses
    }
}

/// Adds a private workspace with a memory and a role that a member holds.
async fn add_private(world: &World) {
    let new = with(new_workspace("cellar"), |new| {
        new.access = WorkspaceAccess::Private;
    });
    let org = world.org.id;
    let cellar = world.service.provisioning();
    let cellar = cellar.create_workspace(org, &new).await.unwrap().id;
    let role = with(new_role("cellarer"), |new| new.workspace_id = Some(cellar));
    let role = world.create_role(&role).await.unwrap().id;
    let ids = world.memories_in(cellar, 1).await;
    world.approve(&ids).await;
    let olga = world.service.provisioning().member(org, "olga").await;
    let olga = olga.unwrap().expect("a member").id;
    let assigned = world.assign_in(olga, cellar, Some(custom(role)));
    assigned.await.unwrap();
}

/// Returns the status, the headers and the body of a response.
fn shown(response: Response<Bytes>) -> String {
    let (parts, body) = response.into_parts();
    let (status, headers) = (parts.status, parts.headers);
    format!("{status} {headers:?} {}", String::from_utf8_lossy(&body))
}

/// Returns two sites that differ only in what the caller may not know, and are alike from here on.
async fn sites(kind: Kind) -> [Site; 2] {
    let sites = [Site::new(kind, false).await, Site::new(kind, true).await];
    for site in &sites {
        site.world.reseed(1_000_000);
    }
    sites
}

#[tokio::test]
async fn hidden_records_change_no_byte_of_any_operation() {
    for spec in OPERATIONS {
        let is_excepted = EXCEPTIONS.iter().any(|(known, _)| *known == spec.operation);
        if is_excepted || spec.authentication == Authentication::Signature {
            continue;
        }
        for kind in KINDS {
            let [first, second] = sites(kind).await;
            let (first, second) = (
                first.call(spec.operation).await,
                second.call(spec.operation).await,
            );
            assert_eq!(first, second, "{kind:?} {:?}", spec.operation);
        }
    }
}

#[tokio::test]
async fn call_that_names_hidden_memory_tells_nothing_of_it() {
    for kind in KINDS {
        let [first, second] = sites(kind).await;
        let responses = first.probe().await.into_iter().zip(second.probe().await);
        for (first, second) in responses {
            assert_eq!(first, second, "{kind:?}");
        }
    }
}
