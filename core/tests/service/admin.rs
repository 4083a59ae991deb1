//! Tests of the operator's interface.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use knowledge_core::access::{Action, ActionSet, BaseRole, CredentialKind, Secret, TokenScope};
use knowledge_core::api::{AdminApi, Api, OPERATOR_OPERATIONS, openapi};
use knowledge_core::limits::Limits;
use knowledge_core::service::{Caller, KnowledgeService};
use knowledge_store::faults::{CommitFault, FaultPlan};
use knowledge_testing::seed::Seed;
use serde_json::{Value, json};

use crate::audit::entries;
use crate::make::{HOUR, MILLISECOND, VIEWER, custom, new_mcp_key};
use crate::world::World;
use knowledge_testing::requests::with;

/// Sends a request and returns the status and the body of the response.
pub(crate) async fn ask(world: &World, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = match body {
        Value::Null => Bytes::new(),
        body => Bytes::from(body.to_string()),
    };
    let request = Request::builder()
        .method(method)
        .uri(format!("/admin/v1{path}"))
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let answer = AdminApi::new(world.service.clone()).handle(request).await;
    assert!(answer.headers().contains_key("request-id"));
    let body = answer.body();
    let body = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(body).unwrap()
    };
    check_described(&method, &path, answer.status(), &body);
    (answer.status().as_u16(), body)
}

/// Panics if the OpenAPI document does not describe the body of a response.
fn check_described(method: &Method, path: &str, status: StatusCode, body: &Value) {
    static DOCUMENT: LazyLock<Value> =
        LazyLock::new(|| openapi::operator_document(&Limits::default()));
    let matches = |template: &str| {
        let (parts, names) = (path.split('/'), template.split('/'));
        let mut pairs = parts.clone().zip(names.clone());
        parts.count() == names.count()
            && pairs.all(|(part, name)| part == name || name.starts_with('{'))
    };
    let mut rows = OPERATOR_OPERATIONS.iter();
    let Some(spec) = rows.find(|spec| spec.method == *method && matches(spec.path)) else {
        return assert!(status.is_client_error(), "{method} {path}: {status}");
    };
    let method = method.as_str().to_ascii_lowercase();
    let mut response = &DOCUMENT["paths"][spec.path][method]["responses"][status.as_str()];
    if let Some(reference) = response["$ref"].as_str() {
        response = DOCUMENT.pointer(&reference[1..]).unwrap();
    }
    let mut schema = response["content"]["application/json"]["schema"].clone();
    if schema.is_null() {
        assert!(response.is_object() && body.is_null(), "{path}: {status}");
        return;
    }
    schema["components"] = DOCUMENT["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let problem = validator.validate(body).err();
    assert!(problem.is_none(), "{path}: {status}: {problem:?}");
}

pub(crate) async fn get(world: &World, path: &str) -> Value {
    let (status, body) = ask(world, Method::GET, path, Value::Null).await;
    assert_eq!(status, 200, "{body}");
    body
}

/// Returns the problems of an error response, each as its path and its code.
pub(crate) fn problems(body: &Value) -> Vec<String> {
    let fields = body["details"]["fields"].as_array().unwrap();
    let part = |field: &Value, name: &str| field[name].as_str().unwrap().to_owned();
    fields
        .iter()
        .map(|field| format!("{} {}", part(field, "path"), part(field, "code")))
        .collect()
}

#[tokio::test]
async fn admin_api_creates_and_lists_organizations_and_workspaces() {
    let world = World::new().await;
    let globex =
        json!({"slug": "globex", "name": "Globex", "owner": {"handle": "hank", "name": "Hank"}});
    let (status, made) = ask(&world, Method::POST, "/orgs", globex.clone()).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["owner"]["role"], "owner");
    let (status, taken) = ask(&world, Method::POST, "/orgs", globex).await;
    assert_eq!((status, &taken["error"]), (409, &json!("slug_taken")));
    let listed = get(&world, "/orgs?limit=1").await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    let cursor = listed["next_cursor"].as_str().unwrap();
    let rest = get(&world, &format!("/orgs?limit=1&cursor={cursor}")).await;
    assert_eq!(rest["next_cursor"], Value::Null);
    assert_eq!(get(&world, "/orgs/globex").await, made["organization"]);

    let lab = json!({"slug": "lab", "name": "Lab", "audience": "team:science"});
    let (status, made) = ask(&world, Method::POST, "/orgs/globex/workspaces", lab).await;
    assert_eq!((status, &made["audience"]), (201, &json!("team:science")));
    let id = made["id"].as_str().unwrap();
    assert_eq!(get(&world, "/orgs/globex/workspaces/lab").await, made);
    assert_eq!(
        get(&world, &format!("/orgs/globex/workspaces/{id}")).await,
        made
    );
    let listed = get(&world, "/orgs/globex/workspaces").await;
    assert_eq!(listed["data"], json!([made]));
    let elsewhere = format!("/orgs/acme/workspaces/{id}");
    let (status, _) = ask(&world, Method::GET, &elsewhere, Value::Null).await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn admin_api_adds_members_assigns_roles_and_removes_members() {
    let world = World::new().await;
    let role = world.plain_role(BaseRole::Member).await;
    let bob = json!({"handle": "bob", "name": "Bob", "role": role.slug, "teams": ["core"]});
    let (status, made) = ask(&world, Method::POST, "/orgs/acme/members", bob).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(
        (&made["kind"], &made["role"]),
        (&json!("user"), &json!(role.slug))
    );
    let path = "/orgs/acme/members/bob";
    let place = json!({"role": "admin", "workspace": "research"});
    let (status, changed) = ask(&world, Method::PUT, &format!("{path}/role"), place).await;
    assert_eq!(status, 200, "{changed}");
    let held = json!([{"workspace": "research", "role": "admin"}]);
    assert_eq!(changed["workspace_roles"], held);
    let (status, changed) = ask(
        &world,
        Method::PUT,
        &format!("{path}/role"),
        json!({"role": "viewer"}),
    )
    .await;
    assert_eq!((status, &changed["role"]), (200, &json!("viewer")));
    let (status, refused) = ask(&world, Method::DELETE, &format!("{path}/role"), Value::Null).await;
    assert_eq!(
        (status, problems(&refused)),
        (400, vec!["workspace required".to_owned()])
    );
    let end = format!("{path}/role?workspace=research");
    let (status, changed) = ask(&world, Method::DELETE, &end, Value::Null).await;
    assert_eq!((status, &changed["workspace_roles"]), (200, &json!([])));
    let id = changed["id"].as_str().unwrap();
    assert_eq!(
        get(&world, &format!("/orgs/acme/members/{id}")).await,
        changed
    );
    let listed = get(&world, "/orgs/acme/members").await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    let (status, gone) = ask(&world, Method::DELETE, path, Value::Null).await;
    assert_eq!((status, gone), (204, Value::Null));
    let (status, _) = ask(&world, Method::DELETE, path, Value::Null).await;
    assert_eq!(status, 404);
    let (status, last) = ask(
        &world,
        Method::DELETE,
        "/orgs/acme/members/ada",
        Value::Null,
    )
    .await;
    assert_eq!(
        (status, problems(&last)),
        (400, vec!["member invalid_value".to_owned()])
    );
    let by_nobody = entries(&world)
        .await
        .into_iter()
        .filter(|entry| entry.actor_id.is_none() && entry.resource.id.to_string() == id);
    assert_eq!(by_nobody.count(), 5, "added, three roles, removed");
}

/// A lower-case UUID is also a valid slug.
#[tokio::test]
async fn handle_or_slug_like_an_identifier_does_not_shadow_it() {
    let world = World::new().await;
    let (target, workspace) = (world.member(VIEWER).await, world.workspace.id);
    let decoy = json!({"handle": target, "name": "Decoy", "role": "viewer"});
    let (status, decoy) = ask(&world, Method::POST, "/orgs/acme/members", decoy).await;
    assert_eq!(status, 201, "{decoy}");
    let lab = json!({"slug": workspace, "name": "Decoy"});
    let (status, lab) = ask(&world, Method::POST, "/orgs/acme/workspaces", lab).await;
    assert_eq!(status, 201, "{lab}");

    let path = format!("/orgs/acme/members/{target}");
    let place = json!({"role": "admin", "workspace": workspace});
    let (status, changed) = ask(&world, Method::PUT, &format!("{path}/role"), place).await;
    assert_eq!((status, &changed["id"]), (200, &json!(target)));
    let held = json!([{"workspace": "research", "role": "admin"}]);
    assert_eq!(changed["workspace_roles"], held);
    let found = get(&world, &format!("/orgs/acme/workspaces/{workspace}")).await;
    assert_eq!(found["slug"], "research");
    // No other member has that identifier now, so it is a handle like any other.
    let (status, _) = ask(&world, Method::DELETE, &path, Value::Null).await;
    assert_eq!(status, 204);
    assert_eq!(get(&world, &path).await["id"], decoy["id"]);
}

#[tokio::test]
async fn custom_role_with_built_in_name_is_distinguished() {
    let world = World::new().await;
    let new = with(crate::make::new_role("x"), |new| {
        new.slug = "admin".to_owned();
    });
    let made = Seed::role(&world, &new).await.unwrap();
    let member = world.member(custom(made.id)).await;
    let shown = get(&world, &format!("/orgs/acme/members/{member}")).await;
    assert_eq!(shown["role"], json!(made.id));
    let other = world.member(VIEWER).await;
    let path = format!("/orgs/acme/members/{other}/role");
    let (_, changed) = ask(&world, Method::PUT, &path, json!({"role": "admin"})).await;
    assert_eq!(changed["role"], "admin", "the built-in one");
}

#[tokio::test]
async fn admin_api_issues_lists_and_revokes_tokens_and_sessions() {
    let world = World::new().await;
    let path = "/orgs/acme/credentials";
    let token = json!({
        "member": "ada", "kind": "bearer", "name": "CI", "expires_in_seconds": 3600,
        "narrowing": {"workspaces": ["research"], "actions": ["memory:read"], "audience": ["team:core"]},
    });
    let (status, token) = ask(&world, Method::POST, path, token).await;
    assert_eq!(status, 201, "{token}");
    let secret: Secret = token["secret"].as_str().unwrap().parse().unwrap();
    let secret = secret.into();
    let known = world.service.authenticate(&secret, CredentialKind::Bearer);
    assert_eq!(known.await.unwrap().member_id(), world.owner_id);
    assert_eq!(
        token["credential"]["narrowing"]["workspaces"],
        json!([world.workspace.id])
    );
    world.time.pass(MILLISECOND);
    let session = json!({"member": world.owner_id, "kind": "session", "name": "Ada's", "expires_in_seconds": 60});
    let (status, session) = ask(&world, Method::POST, path, session).await;
    assert_eq!(
        (status, &session["credential"]["member"]),
        (201, &json!("ada"))
    );
    let listed = get(&world, path).await;
    assert_eq!(
        listed["data"],
        json!([token["credential"], session["credential"]])
    );
    let sessions = get(&world, &format!("{path}?kind=session")).await;
    assert_eq!(sessions["data"], json!([session["credential"]]));

    let one = format!("{path}/{}", token["credential"]["id"].as_str().unwrap());
    let (status, _) = ask(
        &world,
        Method::DELETE,
        &format!("{one}?kind=session"),
        Value::Null,
    )
    .await;
    assert_eq!(status, 404, "it is no session");
    for _ in 0..2 {
        let (status, revoked) = ask(
            &world,
            Method::DELETE,
            &format!("{one}?kind=bearer"),
            Value::Null,
        )
        .await;
        assert_eq!((status, &revoked["state"]), (200, &json!("revoked")));
    }
    world.time.pass(HOUR);
    let states = get(&world, path).await;
    assert_eq!(states["data"][1]["state"], "expired");
}

#[tokio::test]
async fn admin_api_returns_base_url_with_login_links_only() {
    let url = "https://knowledge.example.com";
    let world = World::with(|options| options.public_url = Some(url.to_owned())).await;
    for (kind, expected) in [
        ("bearer", Value::Null),
        ("session", Value::Null),
        ("link", json!(url)),
    ] {
        let new = json!({"member": "ada", "kind": kind, "name": "x", "expires_in_seconds": 60});
        let (status, issued) = ask(&world, Method::POST, "/orgs/acme/credentials", new).await;
        assert_eq!((status, &issued["base_url"]), (201, &expected), "{kind}");
    }
}

#[tokio::test]
async fn admin_api_reports_all_problems_at_once() {
    let world = World::new().await;
    let token = json!({"member": 7, "kind": "cookie", "name": "", "expires_in_seconds": -1, "more": true,
        "narrowing": {"actions": ["memory:own"], "audience": ["x"]}});
    let (status, refused) = ask(&world, Method::POST, "/orgs/acme/credentials", token).await;
    assert_eq!(status, 400);
    assert_eq!(
        problems(&refused),
        [
            "member invalid_type",
            "kind invalid_value",
            "name too_small",
            "expires_in_seconds invalid_type",
            "narrowing.actions[0] invalid_value",
            "narrowing.audience[0] invalid_value",
            "more unknown_field"
        ]
    );
    let token = json!({"member": "bob", "kind": "bearer", "name": "x", "expires_in_seconds": 1,
        "narrowing": {"workspaces": ["research", "lab", "attic"]}});
    let (_, refused) = ask(&world, Method::POST, "/orgs/acme/credentials", token).await;
    assert_eq!(
        problems(&refused),
        [
            "member not_found",
            "narrowing.workspaces[1] not_found",
            "narrowing.workspaces[2] not_found"
        ]
    );
    let token = json!({"member": "ada", "kind": "session", "name": "x", "expires_in_seconds": 0,
        "narrowing": {"workspaces": ["research"]}});
    let (_, refused) = ask(&world, Method::POST, "/orgs/acme/credentials", token).await;
    assert_eq!(
        problems(&refused),
        [
            "expires_in_seconds invalid_value",
            "narrowing invalid_value"
        ]
    );
    let member = json!({"handle": "No", "name": " ", "role": "king", "teams": "core"});
    let (_, refused) = ask(&world, Method::POST, "/orgs/acme/members", member).await;
    assert_eq!(
        problems(&refused),
        [
            "handle invalid_value",
            "name too_small",
            "teams invalid_type"
        ]
    );
    let member = json!({"handle": "bob", "name": "Bob", "role": "king"});
    let (_, refused) = ask(&world, Method::POST, "/orgs/acme/members", member).await;
    assert_eq!(problems(&refused), ["role not_found"]);
    let (status, unknown) = ask(&world, Method::GET, "/orgs/none/members", Value::Null).await;
    assert_eq!(
        (status, &unknown["message"]),
        (404, &json!("there is no such organisation"))
    );
    let (status, _) = ask(
        &world,
        Method::GET,
        "/orgs/acme/members?limit=0",
        Value::Null,
    )
    .await;
    assert_eq!(status, 400);
    let (status, method) = ask(&world, Method::PATCH, "/orgs", Value::Null).await;
    assert_eq!(
        (status, &method["error"]),
        (405, &json!("method_not_allowed"))
    );
}

#[tokio::test]
async fn admin_api_includes_error_details_hidden_from_clients() {
    let world = World::new().await;
    world.faults.close();
    let (status, refused) = ask(&world, Method::GET, "/orgs", Value::Null).await;
    assert_eq!(status, 503);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains('(') && message.len() > 60, "{message}");
}

#[tokio::test]
async fn public_api_has_no_admin_routes() {
    let world = World::new().await;
    let request = Request::get("/admin/v1/orgs").body(Bytes::new()).unwrap();
    let answer = Api::new(world.service.clone()).handle(request).await;
    assert_eq!(answer.status(), 404);
}

#[tokio::test]
async fn revoked_mcp_key_releases_its_quota() {
    let world = World::new().await;
    let made = world.mcp_key_for("workspace:research").await;
    let path = format!("/orgs/acme/credentials/{}", made.summary.id);
    let (status, _) = ask(&world, Method::DELETE, &path, Value::Null).await;
    assert_eq!(status, 200);
    assert_eq!(world.dashboard().await.mcp_keys, []);
}

#[tokio::test]
async fn mcp_key_of_revoked_token_is_listed_as_ended() {
    let world = World::new().await;
    let scope = TokenScope {
        actions: Some(ActionSet::of(&[Action::McpKeyManage])),
        ..TokenScope::default()
    };
    let token = world.token(world.owner_id, scope).await;
    let by = Caller::from(token.secret.clone());
    world.time.pass(MILLISECOND);
    let new = new_mcp_key("workspace:research");
    let key = world.by(&by).create_mcp_key(&new).await.unwrap();
    let state = async || {
        let listed = get(&world, "/orgs/acme/credentials").await;
        assert_eq!(listed["data"][0]["created_with"], Value::Null);
        let key = &listed["data"][1];
        (key["state"].clone(), key["created_with"].clone())
    };
    let created_with = json!(token.record.id);
    assert_eq!(state().await, (json!("valid"), created_with.clone()));
    let path = format!("/orgs/acme/credentials/{}", token.record.id);
    ask(&world, Method::DELETE, &path, Value::Null).await;
    assert_eq!(state().await, (json!("ended"), created_with));
    world.rotate_mcp_key(key.summary.id, None).await.unwrap();
    assert_eq!(state().await, (json!("valid"), Value::Null));
}

#[tokio::test]
async fn use_of_a_token_is_listed_and_written_once_an_hour() {
    let world = World::new().await;
    // The clock was at the beginning of an hour.
    world.time.pass(HOUR / 2);
    let token = world.token(world.owner_id, TokenScope::default()).await;
    let (first, id) = (world.time.now(), token.record.id);
    let send = async |service: &KnowledgeService, path: &str| {
        let request = Request::get(format!("/v1/{path}"))
            .header("authorization", format!("Bearer {}", token.secret.expose()))
            .body(Bytes::new())
            .unwrap();
        let response = Api::new(service.clone()).handle(request).await;
        response.status().as_u16()
    };
    let used = async || {
        let listed = get(&world, "/orgs/acme/credentials").await;
        let listed = &listed["data"][0];
        assert_eq!(
            (&listed["id"], &listed["created_by"]),
            (&json!(id), &Value::Null)
        );
        listed["last_used_at"].clone()
    };
    let here = &world.service;
    assert_eq!(send(here, "sources/unknown").await, 404);
    // A failure to write does not fail the request.
    let fault = FaultPlan::none().at_commit(1, CommitFault::Unavailable);
    let failing = world.served_with(fault).await;
    assert_eq!(send(&failing.service, "sources").await, 200);
    assert_eq!(used().await, Value::Null);
    assert_eq!(send(here, "sources").await, 200);
    assert_eq!(used().await, json!(first));
    let before = world.contents().await;
    world.time.pass(MILLISECOND);
    assert_eq!(send(here, "sources").await, 200);
    // Nor does another process write it again.
    let again = world.served_with(FaultPlan::none()).await;
    assert_eq!(send(&again.service, "sources").await, 200);
    assert_eq!(world.contents().await, before);
    world.time.pass(HOUR - MILLISECOND - MILLISECOND);
    assert_eq!(send(here, "sources").await, 200);
    assert_eq!(used().await, json!(world.time.now()));
    world.assert_whole().await;
    world.time.pass(MILLISECOND);
    world.maintain().await;
    let left = world.contents().await;
    let mut left = left.keys().map(ToString::to_string);
    assert!(left.all(|key| !key.starts_with("credential_use/")));
}
