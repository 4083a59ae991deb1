//! `Knowledge-Act-For` and `/v1/workspaces/{id}/access-filter`

use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};

use crate::support::{Answer, Show, dashboard, error, get, own_org, post, quiet_org};

suite![
    service_account_acts_for_a_member,
    access_filter_has_what_may_be_read,
    unchanged_access_filter_is_not_sent_again,
    access_filter_rejects_unknown_parameters,
];

/// Returns the token of a new service account that may act for members.
async fn bot(org: &OrgFixture) -> String {
    let owner = &org.members.owner.session;
    let all = format!("/v1/orgs/{}", org.slug);
    let made = async |path: String, body: Value| {
        let made = post(path).session(owner).json(&body).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["data"].clone()
    };
    let role = json!({
        "name": "Acting", "slug": "acting", "base_role": "viewer",
        "actions": { "allow": ["member:act_for"] },
    });
    let role = made(format!("{all}/custom-roles"), role).await;
    let member = json!({
        "kind": "service_account", "handle": "bot", "name": "Bot", "role": role["id"],
    });
    let member = made(format!("{all}/members"), member).await;
    let id = member["id"].as_str().expect("an identifier");
    let token = made(
        format!("{all}/members/{id}/tokens"),
        json!({ "name": "Bot" }),
    )
    .await;
    token["secret"].as_str().expect("a secret").to_owned()
}

fn filter(org: &OrgFixture, query: &str) -> String {
    format!("/v1/workspaces/{}/access-filter{query}", org.main.id)
}

async fn service_account_acts_for_a_member() {
    let org = own_org();
    let token = bot(org).await;
    let of = async |member: &str| {
        let call = get(filter(org, "")).bearer(&token);
        call.header("Knowledge-Act-For", member).await
    };
    let member = org.members.member.id.to_string();
    let shown = of(&member).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    let direct = get(filter(org, "")).bearer(&org.members.member.token).await;
    assert_eq!(
        shown.json()["audience_tags"],
        direct.json()["audience_tags"]
    );
    // The account itself is in no team, and reviews nothing.
    assert_eq!(shown.json()["review_statuses"], json!(["approved"]));
    let refused =
        "403 forbidden: the service account may not act for this member, or there is none";
    for other in [org.members.owner.id.to_string(), "user:nobody".to_owned()] {
        let answer = of(&other).await;
        assert_eq!(error(&answer), format!("{refused} {{\"permission\":null}}"));
    }
    let malformed = "403 forbidden: Knowledge-Act-For must be user:<handle> or the UUID of a \
                     member, sent once {\"permission\":null}";
    assert_eq!(error(&of("maya").await), malformed);
    let person = get(filter(org, "")).bearer(&org.members.admin.token);
    let person = person.header("Knowledge-Act-For", &member).await;
    let expected = "403 forbidden: only service accounts act for members {\"permission\":null}";
    assert_eq!(error(&person), expected);
    // An operation with an empty body tells so in headers.
    let path = format!("/v1/workspaces/{}/dashboard-summary", org.main.id);
    let empty = get(path).bearer(&token);
    let empty = empty.header("Knowledge-Act-For", "user:nobody").await;
    assert_eq!((empty.status.as_u16(), empty.body.len()), (403, 0));
    assert_eq!(dashboard(&token, org.main.id).await.status, 200);
}

async fn access_filter_has_what_may_be_read() {
    let org = quiet_org();
    let viewer = &org.members.viewer.token;
    let of = async |query: &str| -> Answer { get(filter(org, query)).bearer(viewer).await };
    insta::assert_snapshot!(of("?format=qdrant").await.brief(), @r#"
    200 OK
    etag: "<etag 1>"

    {
      "workspace_id": "<uuid 1>",
      "audience_tags": [
        "org:<org>", "user:viewer", "team:platform", "workspace:empty", "workspace:handbook",
        "workspace:support"
      ],
      "sensitivity_labels": ["public", "internal"], "review_statuses": ["approved"], "max_age": 60,
      "format": "qdrant",
      "filter": {
        "must": [
          {"key": "workspace_id", "match": {"value": "<uuid 1>"}},
          {
            "key": "audience_tag",
            "match": {
              "any": [
                "org:<org>", "user:viewer", "team:platform", "workspace:empty", "workspace:handbook",
                "workspace:support"
              ]
            }
          },
          {"key": "sensitivity_label", "match": {"any": ["public", "internal"]}},
          {"key": "review_status", "match": {"any": ["approved"]}}
        ]
      }
    }
    "#);
    for format in ["pgvector", "chroma", "pinecone", "weaviate"] {
        let shown = of(&format!("?format={format}&approved_only=true")).await;
        assert_eq!(shown.status, 200, "{shown:?}");
        assert_eq!(shown.json()["format"], format);
        assert!(shown.json()["filter"].is_object());
    }
    assert_eq!(of("").await.json()["filter"], Value::Null);
    let admin = get(filter(org, "")).bearer(&org.members.admin.token).await;
    let all = json!(["public", "internal", "confidential", "restricted"]);
    assert_eq!(admin.json()["sensitivity_labels"], all);
    let all = json!(["pending", "approved", "rejected"]);
    assert_eq!(admin.json()["review_statuses"], all);
}

async fn unchanged_access_filter_is_not_sent_again() {
    let org = quiet_org();
    let viewer = &org.members.viewer.token;
    let first = get(filter(org, "")).bearer(viewer).await;
    let tag = first.headers["etag"].clone();
    let again = get(filter(org, "")).bearer(viewer);
    let again = again.header("If-None-Match", &tag).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    let other = get(filter(org, "")).bearer(&org.members.admin.token);
    let other = other.header("If-None-Match", &tag).await;
    assert_eq!(other.status, 200);
}

async fn access_filter_rejects_unknown_parameters() {
    let org = quiet_org();
    let refused = get(filter(org, "?format=faiss&approved_only=1&team=a"));
    let refused = refused.bearer(&org.members.viewer.token).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let fields = &refused.json()["details"]["fields"];
    let paths = fields.as_array().expect("a list").iter();
    let paths: Vec<&Value> = paths.map(|field| &field["path"]).collect();
    assert_eq!(paths, ["format", "approved_only", "team"]);
}
