//! `/v1/workspaces`

use uuid::Uuid;

use crate::support::{Show, get, quiet_org};

#[tokio::test]
async fn workspaces_in_scope_of_credential_are_listed() {
    let org = quiet_org();
    let all = get("/v1/workspaces")
        .bearer(&org.members.viewer.token)
        .send()
        .await;
    assert_eq!(all.json()["data"].as_array().unwrap().len(), 3);
    let side = get("/v1/workspaces")
        .bearer(&org.tokens.side_only)
        .send()
        .await;
    insta::assert_snapshot!(side.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 180
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "data": [
        {
          "id": "<uuid 2>",
          "name": "Support",
          "slug": "support",
          "audience": "workspace:support",
          "created_at": "<time>"
        }
      ],
      "next_cursor": null
    }
    "#);
    let read = async |workspace: Uuid| {
        let path = format!("/v1/workspaces/{workspace}");
        get(path).bearer(&org.tokens.side_only).send().await
    };
    let found = read(org.side.id.0).await;
    assert_eq!(
        (found.status.as_u16(), &found.json()),
        (200, &side.json()["data"][0])
    );
    insta::assert_snapshot!(read(org.main.id.0).await.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 73
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such workspace",
      "details": {}
    }
    "#);
    insta::assert_snapshot!(read(Uuid::nil()).await.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 73
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such workspace",
      "details": {}
    }
    "#);
    let wrong = get("/v1/workspaces?limit=201&page=2").bearer(&org.members.viewer.token);
    insta::assert_snapshot!(wrong.send().await.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 316
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: limit must be a number from 1 to 200 (and 1 more)",
      "details": {
        "fields": [
          {
            "path": "limit",
            "code": "invalid_value",
            "message": "must be a number from 1 to 200"
          },
          {
            "path": "page",
            "code": "unknown_field",
            "message": "is unknown; known parameters: limit, cursor"
          }
        ]
      }
    }
    "#);
}
