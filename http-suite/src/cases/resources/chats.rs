//! `/v1/workspaces/{id}/chats`

use serde_json::json;

use crate::support::{Show, assert_rejections, dashboard, get, own_org, post, problems, quiet_org};

suite![
    chat_and_messages_are_created_and_read,
    chats_are_listed_newest_first,
    chat_exists_for_its_participants_only,
    chat_errors_are_documented,
    mcp_key_writes_chats_and_does_not_read_those_of_others,
];

async fn chat_and_messages_are_created_and_read() {
    let org = own_org();
    let token = &org.members.member.token;
    let chats = format!("/v1/workspaces/{}/chats", org.empty.id);
    let made = post(&chats)
        .bearer(token)
        .json(&json!({ "title": "Plans" }))
        .await;
    insta::assert_snapshot!(made.brief(), @r#"
    201 Created

    {
      "id": "<uuid 1>", "workspace_id": "<uuid 2>", "title": "Plans", "created_by": "<uuid 3>",
      "created_at": "<time>", "last_message_at": "<time>", "participants": ["<uuid 3>"]
    }
    "#);
    let chat = format!("{chats}/{}", made.json()["id"].as_str().unwrap());
    let messages = format!("{chat}/messages");
    let first = post(&messages)
        .bearer(token)
        .json(&json!({ "content": "Hello." }))
        .await;
    insta::assert_snapshot!(first.brief(), @r#"
    201 Created

    {
      "id": "<uuid 1>", "chat_id": "<uuid 2>", "author_id": "<uuid 3>", "content": "Hello.",
      "created_at": "<time>"
    }
    "#);
    let second = json!({ "content": "How do we rotate keys?" });
    let second = post(&messages).bearer(token).json(&second).await;

    let page = get(format!("{messages}?limit=1"))
        .bearer(token)
        .await
        .json();
    assert_eq!(page["data"], json!([first.json()]));
    let rest = format!(
        "{messages}?cursor={}",
        page["next_cursor"].as_str().unwrap()
    );
    let rest = get(rest).bearer(token).await.json();
    assert_eq!(
        rest,
        json!({ "data": [second.json()], "next_cursor": null })
    );
    let read = get(&chat).bearer(token).await.json();
    assert_eq!(read["last_message_at"], second.json()["created_at"]);
    let listed = get(&chats).bearer(token).await.json();
    assert_eq!(listed["data"], json!([read]));
    let shown = dashboard(token, org.empty.id).await.json();
    assert_eq!(shown["recent_chats"][0]["session_id"], read["id"]);
    assert_eq!(
        shown["recent_chats"][0]["snippet"],
        "How do we rotate keys?"
    );
}

async fn chats_are_listed_newest_first() {
    let org = quiet_org();
    let listed = get(format!("/v1/workspaces/{}/chats", org.main.id))
        .bearer(&org.members.viewer.token)
        .await
        .json();
    let ids = listed["data"].as_array().unwrap().iter();
    let ids: Vec<_> = ids
        .map(|chat| chat["id"].as_str().unwrap().to_owned())
        .collect();
    let mut opened: Vec<_> = org.chats.iter().map(ToString::to_string).collect();
    opened.sort();
    opened.reverse();
    assert_eq!(ids, opened);
}

async fn chat_exists_for_its_participants_only() {
    let org = own_org();
    let (member, viewer) = (&org.members.member, &org.members.viewer);
    let chats = format!("/v1/workspaces/{}/chats", org.empty.id);
    let new = json!({ "title": "Plans", "participants": [viewer.id] });
    let made = post(&chats).bearer(&member.token).json(&new).await;
    let expected = json!([member.id, viewer.id]);
    assert_eq!(
        (made.status.as_u16(), &made.json()["participants"]),
        (201, &expected)
    );
    let chat = format!("{chats}/{}", made.json()["id"].as_str().unwrap());
    let messages = format!("{chat}/messages");
    let hello = json!({ "content": "Hello." });
    for path in [&chat, &messages] {
        assert_eq!(get(path).bearer(&viewer.token).await.status, 200);
        let hidden = get(path).bearer(&org.members.admin.token).await;
        hidden.assert_field(404, "message", "there is no such chat");
    }
    let posted = post(&messages)
        .bearer(&org.members.admin.token)
        .json(&hello);
    assert_eq!(posted.await.status, 404);
    let listed = get(&chats).bearer(&org.members.admin.token).await.json();
    assert_eq!(listed, json!({ "data": [], "next_cursor": null }));
    for (token, shown) in [(&org.members.admin.token, 0), (&viewer.token, 1)] {
        let found = dashboard(token, org.empty.id).await.json();
        assert_eq!(found["recent_chats"].as_array().unwrap().len(), shown);
    }
    let unknown = json!({ "title": "Plans", "participants": [org.id] });
    let refused = post(&chats).bearer(&member.token).json(&unknown).await;
    insta::assert_snapshot!(problems(&refused), @"not_found: participants[0] must be a member of the organisation");
}

async fn chat_errors_are_documented() {
    assert_rejections! { r#"
        owner POST /v1/workspaces/<main>/chats/<chat>/messages {"content": "<32769 x>"}
          too_large: content must have 1 to 32768 bytes, and at most 61440 once JSON escapes it
        viewer POST /v1/workspaces/<main>/chats {"title": "New"}
          403 forbidden: missing permission chat:write {"permission":"chat:write"}
        owner POST /v1/workspaces/<main>/chats {}
          required: title is required
        owner GET /v1/workspaces/<side>/chats/<chat>
        owner GET /v1/workspaces/<side>/chats/<chat>/messages
        owner GET /v1/workspaces/<main>/chats/none
          404 not_found: there is no such chat {"kind":"chat"}
    "# }
}

/// A chat has no audience, so that of an MCP key does not apply.
async fn mcp_key_writes_chats_and_does_not_read_those_of_others() {
    let org = own_org();
    let messages = format!(
        "/v1/workspaces/{}/chats/{}/messages",
        org.main.id, org.chats[0]
    );
    let key = &org.tokens.mcp_key;
    let written = post(&messages)
        .bearer(key)
        .json(&json!({ "content": "Noted." }))
        .await;
    assert_eq!(written.status, 201);
    assert_eq!(get(&messages).bearer(key).await.status, 403);
}
