//! Nothing of another organisation can be told from what does not exist.

use knowledge_core::model::{MemoryId, RecallId, RoleId, SourceId, WorkspaceId};
use knowledge_core::testing::fixture::{MemberFixture, OrgFixture};
use serde_json::json;
use uuid::Uuid;

use crate::support::{
    Answer, Call, Show, bulk, create_inbound_webhook, create_webhook, dashboard, delete_role,
    foreign_org, list_roles, quiet_org, roles_by_slug, subscribe, target, update_role,
};

/// The slug of no organisation, as long as those of the fixture.
const UNKNOWN_SLUG: &str = "org-__";

/// Everything of an organisation that a request can name.
struct Names {
    slug: String,
    workspace: WorkspaceId,
    role: RoleId,
    memory: MemoryId,
    source: SourceId,
    recall: RecallId,
}

impl Names {
    fn of(org: &OrgFixture) -> Self {
        Self {
            slug: org.slug.clone(),
            workspace: org.main.id,
            role: org.roles.unheld,
            memory: org.main.memories.internal[0],
            source: org.sources[0],
            recall: org.recall,
        }
    }

    /// Names of nothing, in the form of those that exist.
    fn of_nothing() -> Self {
        let id = || knowledge_server::system::system_env().uuid();
        Self {
            slug: UNKNOWN_SLUG.to_owned(),
            workspace: WorkspaceId(id()),
            role: RoleId(id()),
            memory: MemoryId(id()),
            source: SourceId(id()),
            recall: RecallId(id()),
        }
    }
}

/// Every operation with every name of `theirs` in every place, by a member of `own`.
fn probes(own: &Names, theirs: &Names, caller: &MemberFixture) -> Vec<(&'static str, Call)> {
    let (token, session) = (&caller.token, &caller.session);
    let url = "https://example.com/hook";
    let webhook = json!({ "event_type": "chunk.created", "url": url });
    let relabel = |memory: MemoryId| json!({ "memoryIds": [memory], "audienceTag": "team:a" });
    let rename = json!({ "name": "Mine" });
    let reassign = json!({ "reassign_to": theirs.role });
    vec![
        ("memory", bulk(token, &relabel(theirs.memory))),
        (
            "memory among others",
            bulk(
                token,
                &json!({ "memoryIds": [theirs.memory, Uuid::max()], "reviewStatus": "pending" }),
            ),
        ),
        (
            "source",
            bulk(
                token,
                &json!({ "memoryIds": [own.memory], "sourceId": theirs.source }),
            ),
        ),
        ("dashboard", dashboard(token, theirs.workspace)),
        ("roles", list_roles(session, &theirs.slug)),
        (
            "update: slug",
            update_role(session, &theirs.slug, own.role, &rename),
        ),
        (
            "update: role",
            update_role(session, &own.slug, theirs.role, &rename),
        ),
        (
            "update: both",
            update_role(session, &theirs.slug, theirs.role, &rename),
        ),
        (
            "update: role, bound to a version",
            update_role(session, &own.slug, theirs.role, &rename).header("if-match", "*"),
        ),
        ("delete: slug", delete_role(session, &theirs.slug, own.role)),
        ("delete: role", delete_role(session, &own.slug, theirs.role)),
        (
            "delete: both",
            delete_role(session, &theirs.slug, theirs.role),
        ),
        (
            "delete: target",
            delete_role(session, &own.slug, own.role).json(&reassign),
        ),
        (
            "subscribe",
            subscribe(
                token,
                &json!({ "recall_id": theirs.recall, "webhook_url": url }),
            ),
        ),
        ("webhook", create_webhook(token, theirs.workspace, &webhook)),
        (
            "inbound webhook",
            create_inbound_webhook(token, theirs.workspace, &json!({ "name": "Mine" })),
        ),
    ]
}

/// The answer without what differs between any two: the identifier of the request and the time.
fn without_volatile(mut answer: Answer) -> Answer {
    for name in ["request-id", "date"] {
        answer.headers.remove(name).expect("every answer has it");
    }
    answer
}

#[tokio::test]
async fn every_operation_answers_as_if_it_did_not_exist() {
    let (own, foreign) = (quiet_org(), foreign_org());
    let before = everything_of(foreign).await;
    let (own_names, foreign_names, nothing) =
        (Names::of(own), Names::of(foreign), Names::of_nothing());
    let members = &own.members;
    let callers = [
        &members.owner,
        &members.member,
        &members.viewer,
        &members.keeper,
        &members.guest,
    ];
    for caller in callers {
        let of_foreign = probes(&own_names, &foreign_names, caller);
        let of_nothing = probes(&own_names, &nothing, caller);
        for ((probe, foreign), (_, nothing)) in of_foreign.into_iter().zip(of_nothing) {
            let (foreign, nothing) = (foreign.send().await, nothing.send().await);
            assert!(!foreign.status.is_server_error(), "{probe}: {foreign:?}");
            if foreign.status == 200 {
                // A bulk update repeats the memories that it was asked for, and has identifiers of its own.
                assert_eq!(foreign.show(), nothing.show(), "{probe}");
                let results = foreign.json()["results"].clone();
                assert!(
                    results
                        .as_array()
                        .unwrap()
                        .iter()
                        .all(|item| item["ok"] == false)
                );
                continue;
            }
            let (foreign, nothing) = (without_volatile(foreign), without_volatile(nothing));
            assert_eq!(foreign.status, nothing.status, "{probe}");
            assert_eq!(foreign.headers, nothing.headers, "{probe}");
            assert_eq!(foreign.body, nothing.body, "{probe}");
        }
    }
    assert_eq!(everything_of(foreign).await, before);
}

/// What the owner of an organisation can see of it.
async fn everything_of(org: &OrgFixture) -> Vec<String> {
    let owner = &org.members.owner;
    let mut seen = Vec::new();
    for workspace in [org.main.id, org.side.id, org.empty.id] {
        seen.push(
            dashboard(&owner.token, workspace)
                .send()
                .await
                .header("etag")
                .to_owned(),
        );
    }
    seen.push(format!(
        "{:?}",
        roles_by_slug(&target().base_url, org).await
    ));
    seen
}

#[tokio::test]
async fn the_owner_learns_what_a_stranger_learns() {
    let (own, foreign) = (quiet_org(), foreign_org());
    let probe = dashboard(&own.members.owner.token, foreign.main.id)
        .send()
        .await;
    insta::assert_snapshot!(probe.show(), @"
    404 Not Found
    cache-control: no-store
    content-length: 0
    date: <date>
    error-code: not_found
    error-message: there is no such workspace
    request-id: <uuid 1>
    ");
    let probe = list_roles(&own.members.owner.session, &foreign.slug)
        .send()
        .await;
    insta::assert_snapshot!(probe.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 76
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such organisation",
      "details": {}
    }
    "#);
    let body = json!({
        "memoryIds": [foreign.main.memories.internal[0]],
        "audienceTag": "team:a",
    });
    let probe = bulk(&own.members.owner.token, &body).send().await;
    insta::assert_snapshot!(probe.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 314
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "operationId": "<uuid 2>",
      "replayed": false,
      "summary": {
        "requested": 1,
        "succeeded": 0,
        "failed": 1
      },
      "results": [
        {
          "memoryId": "<uuid 3>",
          "ok": false,
          "auditLogId": "<uuid 4>",
          "error": {
            "code": "not_found",
            "message": "there is no such memory"
          }
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn a_label_that_names_another_organisation_is_a_label() {
    let (own, foreign) = (crate::support::own_org(), foreign_org());
    for name in [foreign.slug.as_str(), UNKNOWN_SLUG] {
        let body = json!({
            "memoryIds": [own.main.memories.internal[0]],
            "audienceTag": format!("org:{name}"),
        });
        let answer = bulk(&own.members.member.token, &body).send().await;
        assert_eq!(answer.json()["results"][0]["ok"], true);
    }
}
