//! The entity tag of `GET /v1/workspaces/{id}/dashboard-summary`.

use knowledge_testing::fixture::OrgFixture;
use serde_json::json;

use super::dashboard::main_dashboard;
use crate::support::{Answer, Show, bulk, dashboard, own_org};

suite![
    dashboard_responds_not_modified_to_current_etag,
    dashboard_etag_changes_only_with_its_content,
];

async fn approve(org: &OrgFixture) {
    let body = json!({
        "memoryIds": [org.main.memories.internal[0]],
        "reviewStatus": "approved",
    });
    assert_eq!(bulk(&org.members.member.token, &body).await.status, 200);
}

fn assert_not_modified(answer: &Answer) {
    assert_eq!(answer.status, 304, "{answer:?}");
    assert!(answer.body.is_empty());
}

async fn dashboard_responds_not_modified_to_current_etag() {
    let org = own_org();
    let first = main_dashboard(org).await;
    let etag = first.header("etag").to_owned();
    let again = main_dashboard(org).header("if-none-match", &etag).await;
    insta::assert_snapshot!(again.show(), @r#"
    304 Not Modified
    cache-control: private, no-cache
    date: <date>
    etag: W/"<etag 1>"
    request-id: <uuid 1>
    "#);
    assert_eq!(again.header("etag"), etag);

    let strong = etag.trim_start_matches("W/");
    for tags in [strong, "*", &format!("\"a\", {etag}")] {
        assert_not_modified(&main_dashboard(org).header("if-none-match", tags).await);
    }
    let two_headers = main_dashboard(org)
        .header("if-none-match", "\"a\"")
        .header("if-none-match", &etag);
    assert_not_modified(&two_headers.await);
    let other = main_dashboard(org).header("if-none-match", "\"a\"").await;
    assert_eq!((other.status.as_u16(), other.body), (200, first.body));
}

async fn dashboard_etag_changes_only_with_its_content() {
    let org = own_org();
    let etag = async || main_dashboard(org).await.header("etag").to_owned();
    let before = etag().await;
    assert_eq!(etag().await, before);
    // The tag depends neither on the caller nor on other workspaces.
    let by_owner = dashboard(&org.members.owner.token, org.main.id).await;
    assert_eq!(by_owner.header("etag"), before);
    let elsewhere = json!({
        "memoryIds": [org.side.memories.internal[0]],
        "reviewStatus": "approved",
    });
    assert_eq!(
        bulk(&org.members.member.token, &elsewhere).await.status,
        200
    );
    assert_eq!(etag().await, before);
    approve(org).await;
    let after = main_dashboard(org).header("if-none-match", &before).await;
    assert_eq!(after.status, 200);
    assert_ne!(after.header("etag"), before);
    let side = dashboard(&org.members.viewer.token, org.side.id).await;
    assert_ne!(side.header("etag"), after.header("etag"));
}
