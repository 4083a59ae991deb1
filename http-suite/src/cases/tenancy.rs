//! Resources of another organisation are indistinguishable from non-existent ones.

use knowledge_core::model::{
    ChatId, ConnectorId, CredentialId, DeliveryId, MemberId, MemoryId, RecallId, RoleId, SourceId,
    SubscriptionId, WebhookId, WorkspaceId,
};
use knowledge_testing::fixture::{MemberFixture, OrgFixture};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{
    Answer, Call, Show, base_url, bulk, create_inbound_webhook, create_webhook, dashboard, delete,
    delete_role, error, foreign_org, get, list_roles, own_org, patch, post, put, quiet_org,
    roles_by_slug, subscribe, update_role,
};

suite![
    resources_of_another_org_appear_nonexistent,
    owner_gets_same_errors_for_another_org_as_others,
    audience_label_may_name_another_org,
];

/// The slug of no organisation, as long as those of the fixture.
const UNKNOWN_SLUG: &str = "org-__";

/// All identifiers of an organisation that a request can contain.
struct Names {
    slug: String,
    workspace: WorkspaceId,
    role: RoleId,
    memory: MemoryId,
    source: SourceId,
    recall: RecallId,
    member: MemberId,
    connector: ConnectorId,
    mcp_key: CredentialId,
    chat: ChatId,
    webhook: WebhookId,
    subscription: SubscriptionId,
    delivery: DeliveryId,
}

impl Names {
    /// Returns those of the fixture only.
    fn of(org: &OrgFixture) -> Self {
        Self {
            webhook: WebhookId(Uuid::nil()),
            subscription: SubscriptionId(Uuid::nil()),
            delivery: DeliveryId(Uuid::nil()),
            slug: org.slug.clone(),
            workspace: org.main.id,
            role: org.roles.unheld,
            memory: org.main.memories.internal[0],
            source: org.sources[0],
            recall: org.recall,
            member: org.members.viewer.id,
            connector: org.connectors[0],
            mcp_key: org.mcp_key_id,
            chat: org.chats[0],
        }
    }

    /// Returns those of the fixture, and of new endpoints and a new delivery.
    async fn with_endpoints_of(org: &OrgFixture) -> Self {
        let (token, url) = (&org.members.owner.token, "https://hooks.invalid/");
        let webhook = json!({ "event_type": "chunk.created", "url": url });
        let webhook = create_webhook(token, org.main.id, &webhook).await;
        let subscription = json!({ "recall_id": org.recall, "webhook_url": url });
        let subscription = subscribe(token, &subscription).await.json();
        let webhook = webhook.json()["id"].as_str().expect("an id").to_owned();
        let ping = format!("/v1/workspaces/{}/webhooks/{webhook}/ping", org.main.id);
        let delivery = post(ping).bearer(token).await.json();
        let id = |made: &Value| made["id"].as_str().expect("an id").parse::<Uuid>();
        Self {
            webhook: webhook.parse().expect("an id"),
            subscription: SubscriptionId(id(&subscription).expect("a UUID")),
            delivery: DeliveryId(id(&delivery).expect("a UUID")),
            ..Self::of(org)
        }
    }

    /// Returns identifiers of nothing, in the form of existing ones.
    fn of_nothing() -> Self {
        let id = || knowledge_core::env::Env::system().uuid();
        Self {
            slug: UNKNOWN_SLUG.to_owned(),
            workspace: WorkspaceId(id()),
            role: RoleId(id()),
            memory: MemoryId(id()),
            source: SourceId(id()),
            recall: RecallId(id()),
            member: MemberId(id()),
            connector: ConnectorId(id()),
            mcp_key: CredentialId(id()),
            chat: ChatId(id()),
            webhook: WebhookId(id()),
            subscription: SubscriptionId(id()),
            delivery: DeliveryId(id()),
        }
    }
}

/// Returns all operations with each identifier of `theirs` in each place, by a member of `own`.
fn probes(own: &Names, theirs: &Names, caller: &MemberFixture) -> Vec<Call> {
    let (token, session) = (&caller.token, &caller.session);
    let url = "https://example.com/hook";
    let webhook = json!({ "event_type": "chunk.created", "url": url });
    let relabel = |memory: MemoryId| json!({ "memoryIds": [memory], "audienceTag": "team:a" });
    let rename = json!({ "name": "Mine" });
    let reassign = json!({ "reassign_to": theirs.role });
    vec![
        bulk(token, &relabel(theirs.memory)),
        bulk(
            token,
            &json!({ "memoryIds": [theirs.memory, Uuid::max()], "reviewStatus": "pending" }),
        ),
        bulk(
            token,
            &json!({ "memoryIds": [own.memory], "sourceId": theirs.source }),
        ),
        dashboard(token, theirs.workspace),
        list_roles(session, &theirs.slug),
        update_role(session, &theirs.slug, own.role, &rename),
        update_role(session, &own.slug, theirs.role, &rename),
        update_role(session, &theirs.slug, theirs.role, &rename),
        update_role(session, &own.slug, theirs.role, &rename).header("if-match", "*"),
        delete_role(session, &theirs.slug, own.role),
        delete_role(session, &own.slug, theirs.role),
        delete_role(session, &theirs.slug, theirs.role),
        delete_role(session, &own.slug, own.role).json(&reassign),
        subscribe(
            token,
            &json!({ "recall_id": theirs.recall, "webhook_url": url }),
        ),
        create_webhook(token, theirs.workspace, &webhook),
        create_inbound_webhook(token, theirs.workspace, &json!({ "name": "Mine" })),
    ]
}

/// Returns the same for further operations.
fn more_probes(own: &Names, theirs: &Names, caller: &MemberFixture) -> Vec<Call> {
    let mut probes = Vec::new();
    for slug in [&own.slug, &theirs.slug] {
        let org = format!("/v1/orgs/{slug}");
        let role = format!("{org}/custom-roles/{}", theirs.role);
        let member = format!("{org}/members/{}", theirs.member);
        let held = format!("{member}/workspace-roles/{}", theirs.workspace);
        let viewer = json!({ "role": "viewer" });
        probes.extend([
            get(role),
            get(&member),
            patch(&member).json(&json!({ "name": "Mine" })),
            delete(&member),
            put(&held).json(&viewer),
            delete(&held),
        ]);
    }
    let org = format!("/v1/orgs/{}", theirs.slug);
    let new = json!({ "name": "Spy", "handle": "spy", "role": "viewer" });
    probes.extend([
        get(format!("{org}/members")),
        post(format!("{org}/members")).json(&new),
    ]);
    let mut probes: Vec<_> = probes
        .into_iter()
        .map(|call| call.session(&caller.session))
        .collect();
    let calls = by_identifier(own, theirs).into_iter();
    probes.extend(calls.map(|call| call.bearer(&caller.token)));
    for workspace in [own.workspace, theirs.workspace] {
        let calls = in_workspace(workspace, theirs);
        let calls = calls.into_iter();
        probes.extend(calls.map(|call| call.bearer(&caller.token)));
    }
    probes
}

/// Returns requests for memories and recalls of `theirs` by identifier.
fn by_identifier(own: &Names, theirs: &Names) -> Vec<Call> {
    let memory = format!("/v1/memories/{}", theirs.memory);
    let here = format!("/v1/workspaces/{}", own.workspace);
    let there = format!("/v1/workspaces/{}", theirs.workspace);
    let title = json!({ "title": "Mine" });
    let new = |source| json!({ "sourceId": source, "title": "Mine", "content": "Mine." });
    let item = json!({ "title": "Mine", "content": "Mine." });
    let batch = |source| json!({ "source_id": source, "memories": [item] });
    let cited = json!({ "query": "Mine?", "memory_ids": [theirs.memory] });
    let of_recall = format!("/v1/citation-subscriptions?recall_id={}", theirs.recall);
    let of_actor = format!("/v1/audit-log?actor_id={}", theirs.member);
    let subscription = format!("/v1/citation-subscriptions/{}", theirs.subscription);
    let mut calls = vec![
        get(&memory),
        patch(&memory).json(&title),
        delete(&memory),
        get(&there),
        get(format!("{there}/memories")),
        post(format!("{there}/memories")).json(&new(own.source)),
        post(format!("{here}/memories")).json(&new(theirs.source)),
        post(format!("{there}/ingest")).json(&batch(own.source)),
        post(format!("{here}/ingest")).json(&batch(theirs.source)),
        get(format!("/v1/recalls/{}", theirs.recall)),
        get(format!("{there}/recalls")),
        post(format!("{there}/recalls")).json(&cited),
        post(format!("{here}/recalls")).json(&cited),
        get(of_recall),
        get(of_actor),
        get(&subscription),
        delete(&subscription),
        post(format!("{subscription}/rotate-secret")),
    ];
    calls.extend(of_endpoint(&subscription, theirs));
    calls
}

/// Returns requests for deliveries to an endpoint, with identifiers of `theirs`.
fn of_endpoint(endpoint: &str, theirs: &Names) -> Vec<Call> {
    let deliveries = format!("{endpoint}/deliveries");
    let delivery = format!("{deliveries}/{}", theirs.delivery);
    vec![
        get(&deliveries),
        get(&delivery),
        post(format!("{delivery}/redeliver")),
        post(format!("{deliveries}/redeliver-dead")),
        post(format!("{endpoint}/ping")),
    ]
}

/// Returns requests for resources of a workspace, with identifiers of `theirs`.
fn in_workspace(workspace: WorkspaceId, theirs: &Names) -> Vec<Call> {
    let path = format!("/v1/workspaces/{workspace}");
    let connector = format!("{path}/connectors/{}", theirs.connector);
    let key = format!("{path}/mcp-keys/{}", theirs.mcp_key);
    let chat = format!("{path}/chats/{}", theirs.chat);
    let report = json!({ "outcome": "success" });
    let mut calls = vec![
        get(&connector),
        patch(&connector).json(&json!({ "is_paused": true })),
        delete(&connector),
        post(format!("{connector}/sync-reports")).json(&report),
        get(&key),
        post(format!("{key}/rotate")),
        delete(&key),
        get(&chat),
        get(format!("{chat}/messages")),
        post(format!("{chat}/messages")).json(&json!({ "content": "Mine" })),
    ];
    let webhook = format!("{path}/webhooks/{}", theirs.webhook);
    calls.extend([
        get(&webhook),
        patch(&webhook).json(&json!({ "is_active": false })),
        delete(&webhook),
        post(format!("{webhook}/rotate-secret")),
    ]);
    calls.extend(of_endpoint(&webhook, theirs));
    if workspace == theirs.workspace {
        for list in [
            "connectors",
            "mcp-keys",
            "chats",
            "webhooks",
            "inbound-webhooks",
        ] {
            calls.push(get(format!("{path}/{list}")));
        }
        let webhook = format!("{path}/inbound-webhooks/{}", Uuid::nil());
        calls.push(get(&webhook));
        calls.push(delete(&webhook));
        calls.push(post(format!("{webhook}/rotate-secret")));
    }
    calls
}

/// Returns the response without its request identifier and time.
fn without_volatile(mut answer: Answer) -> Answer {
    for name in ["request-id", "date"] {
        answer.headers.remove(name).expect("every answer has it");
    }
    answer
}

async fn resources_of_another_org_appear_nonexistent() {
    let (own, foreign) = (quiet_org(), own_org());
    let foreign_names = Names::with_endpoints_of(foreign).await;
    let (own_names, nothing) = (Names::of(own), Names::of_nothing());
    let before = everything_of(foreign, &foreign_names).await;
    let members = &own.members;
    let callers = [
        &members.owner,
        &members.member,
        &members.viewer,
        &members.keeper,
        &members.guest,
    ];
    for caller in callers {
        let every = |theirs: &Names| {
            let mut every = probes(&own_names, theirs, caller);
            every.extend(more_probes(&own_names, theirs, caller));
            every
        };
        let (of_foreign, of_nothing) = (every(&foreign_names), every(&nothing));
        for (probe, nothing) in of_foreign.into_iter().zip(of_nothing) {
            let (foreign, nothing) = (probe.clone().await, nothing.await);
            assert!(!foreign.status.is_server_error(), "{probe:?}: {foreign:?}");
            if foreign.status == 200 {
                // A bulk update repeats the requested memories, and has its own identifiers.
                assert_eq!(foreign.show(), nothing.show(), "{probe:?}");
                let shown = foreign.json();
                match shown["results"].as_array() {
                    Some(items) => assert!(items.iter().all(|item| item["ok"] == false)),
                    None => assert_eq!(shown["data"], json!([]), "{probe:?}"),
                }
                continue;
            }
            let (foreign, nothing) = (without_volatile(foreign), without_volatile(nothing));
            assert_eq!(foreign.status, nothing.status, "{probe:?}");
            assert_eq!(foreign.headers, nothing.headers, "{probe:?}");
            assert_eq!(foreign.body, nothing.body, "{probe:?}");
        }
    }
    assert_eq!(everything_of(foreign, &foreign_names).await, before);
}

/// Returns all data of an organisation that its owner can see.
async fn everything_of(org: &OrgFixture, names: &Names) -> Vec<String> {
    let owner = &org.members.owner;
    let mut seen = Vec::new();
    for workspace in [org.main.id, org.side.id, org.empty.id] {
        seen.push(
            dashboard(&owner.token, workspace)
                .await
                .header("etag")
                .to_owned(),
        );
    }
    seen.push(format!("{:?}", roles_by_slug(base_url(), org).await));
    let webhook = format!("/v1/workspaces/{}/webhooks/{}", org.main.id, names.webhook);
    let subscription = format!("/v1/citation-subscriptions/{}", names.subscription);
    for path in [&webhook, &subscription] {
        seen.push(get(path).bearer(&owner.token).await.json().to_string());
    }
    for endpoint in [&webhook, &subscription] {
        let list = get(format!("{endpoint}/deliveries")).bearer(&owner.token);
        let listed = list.await.json();
        let listed = listed["data"].as_array().expect("a list").iter();
        // The deliveries' states change without any stranger.
        seen.extend(listed.map(|delivery| delivery["id"].to_string()));
    }
    seen
}

async fn owner_gets_same_errors_for_another_org_as_others() {
    let (own, foreign) = (quiet_org(), foreign_org());
    let probe = dashboard(&own.members.owner.token, foreign.main.id).await;
    insta::assert_snapshot!(error(&probe), @"404 not_found in headers: there is no such workspace");
    let probe = list_roles(&own.members.owner.session, &foreign.slug).await;
    insta::assert_snapshot!(error(&probe), @r#"404 not_found: there is no such organisation {"kind":"organization"}"#);
    let body = json!({
        "memoryIds": [foreign.main.memories.internal[0]],
        "audienceTag": "team:a",
    });
    let probe = bulk(&own.members.owner.token, &body).await;
    insta::assert_snapshot!(probe.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 364
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "operationId": "<uuid 2>", "replayed": false,
      "summary": {"requested": 1, "succeeded": 0, "failed": 1},
      "results": [
        {
          "memoryId": "<uuid 3>", "ok": false, "auditLogId": "<uuid 4>",
          "error": {"code": "not_found", "message": "there is no such memory"}
        }
      ],
      "labels_without_members": ["team:a"], "impact": null
    }
    "#);
}

async fn audience_label_may_name_another_org() {
    let (own, foreign) = (own_org(), foreign_org());
    for name in [foreign.slug.as_str(), UNKNOWN_SLUG] {
        let body = json!({
            "memoryIds": [own.main.memories.internal[0]],
            "audienceTag": format!("org:{name}"),
        });
        let answer = bulk(&own.members.owner.token, &body).await;
        assert_eq!(answer.json()["results"][0]["ok"], true);
    }
}
