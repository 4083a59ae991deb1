//! `/mcp`

use knowledge_core::model::MemoryId;
use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, Call, Show, bulk, get, own_org, patch, post, problems};

const VERSION: &str = "2026-07-28";

suite![
    assistant_recalls_and_reads_memories,
    assistant_says_which_memories_it_used,
    assistant_sees_what_its_key_may_see,
    assistant_proposes_memories_with_a_key_made_for_it,
    only_keys_with_a_source_are_offered_proposals,
    tool_explains_what_it_refuses,
    earlier_versions_begin_with_initialize,
    message_repeats_its_metadata_in_headers,
    message_that_is_none_is_refused,
    endpoint_admits_no_strangers,
    token_of_several_workspaces_names_one,
];

/// Returns a message of the version without sessions, with its headers.
fn message(method: &str, params: Value) -> Call {
    message_to("/mcp", method, params)
}

fn message_to(path: &str, method: &str, mut params: Value) -> Call {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut call = post(path)
        .header("mcp-protocol-version", VERSION)
        .header("mcp-method", method);
    if let Some(name) = params["name"].as_str() {
        call = call.header("mcp-name", name);
    }
    call.json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

fn tool(name: &str, arguments: &Value) -> Call {
    tool_at("/mcp", name, arguments)
}

fn tool_at(path: &str, name: &str, arguments: &Value) -> Call {
    let params = json!({ "name": name, "arguments": arguments });
    message_to(path, "tools/call", params)
}

/// Returns the result of a tool that succeeded, whose text is the same.
fn structured(answer: &Answer) -> Value {
    let result = &answer.json()["result"];
    assert_eq!(result["isError"], false, "{answer:?}");
    let text = result["content"][0]["text"].as_str().unwrap();
    let structured = &result["structuredContent"];
    assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), structured);
    structured.clone()
}

/// Returns the title of an approved memory.
async fn title(org: &OrgFixture) -> String {
    let memory = format!("/v1/memories/{}", org.main.memories.internal[60]);
    let memory = get(memory).bearer(&org.members.owner.token).await.json();
    memory["title"].as_str().unwrap().to_owned()
}

async fn assistant_recalls_and_reads_memories() {
    let org = own_org();
    let key = &org.tokens.mcp_key;
    let discovered = message("server/discover", json!({})).bearer(key).await;
    assert_eq!(discovered.status, 200, "{discovered:?}");
    let discovered = discovered.json()["result"].clone();
    assert_eq!(
        (&discovered["resultType"], &discovered["supportedVersions"]),
        (
            &json!("complete"),
            &json!([VERSION, "2025-11-25", "2025-06-18"])
        )
    );
    let server = &discovered["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(server["name"], "knowledge");
    let listed = message("tools/list", json!({})).bearer(key).await.json();
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(
        names,
        ["recall", "search", "fetch", "list_memories", "cite"]
    );
    assert_eq!(listed["result"]["cacheScope"], "private");

    let title = title(org).await;
    let query = json!({ "query": title, "limit": 2 });
    let found = structured(&tool("recall", &query).bearer(key).await);
    let memory = &found["results"][0];
    assert_eq!(memory["id"], json!(org.main.memories.internal[60]));
    let url = memory["url"].as_str().unwrap();
    let screen = format!(
        "/#/{}/memories/{}",
        org.main.slug, org.main.memories.internal[60]
    );
    assert!(url.ends_with(&screen), "{url}");
    // The recall that nobody registered by hand is one.
    let recall = format!("/v1/recalls/{}", found["recall_id"].as_str().unwrap());
    let recall = get(recall).bearer(key).await.json();
    let cited = found["results"].as_array().unwrap().iter();
    let cited: Vec<&Value> = cited.map(|memory| &memory["id"]).collect();
    assert_eq!(recall["query"], title);
    assert_eq!(recall["memory_ids"], json!(cited));
    let again = structured(&tool("search", &query).bearer(key).await);
    assert_eq!(again["results"], found["results"]);

    let read = structured(
        &tool("fetch", &json!({ "id": memory["id"] }))
            .bearer(key)
            .await,
    );
    assert_eq!(
        (&read["title"], &read["url"]),
        (&json!(title), &memory["url"])
    );
    assert_eq!(read["text"], memory["excerpt"]);
    let used = format!("/v1/workspaces/{}/mcp-keys/{}", org.main.id, org.mcp_key_id);
    let used = get(used).bearer(&org.members.admin.token).await.json();
    assert!(used["lastUsedAt"].is_string(), "{used}");
}

async fn assistant_says_which_memories_it_used() {
    let org = own_org();
    let key = &org.tokens.mcp_key;
    let call = async |name: &str, arguments: Value| tool(name, &arguments).bearer(key).await;
    let words = json!({ "query": title(org).await, "limit": 5 });
    let found = structured(&call("recall", words).await);
    let results = found["results"].as_array().unwrap().iter();
    let ids: Vec<&str> = results.filter_map(|memory| memory["id"].as_str()).collect();
    assert!(ids.len() > 2, "{found}");
    // The name of a memory without an address is as good as its identifier.
    let used = [ids[2].to_owned(), format!("urn:uuid:{}", ids[0])];
    let cited = json!({ "recall_id": found["recall_id"], "memory_ids": used });
    let narrowed = structured(&call("cite", cited).await);
    let kept = json!([ids[0], ids[2]]);
    let expected = json!({ "recall_id": found["recall_id"], "memory_ids": kept });
    assert_eq!(narrowed, expected);
    let recall = format!("/v1/recalls/{}", found["recall_id"].as_str().unwrap());
    let recall = get(recall).bearer(key).await.json();
    assert_eq!(recall["memory_ids"], kept);

    let refusal = async |recall: &Value, ids: Value| {
        let cited = json!({ "recall_id": recall, "memory_ids": ids });
        let result = call("cite", cited).await.json()["result"].clone();
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let here = &found["recall_id"];
    let refusals = [
        refusal(here, json!([ids[0], ids[1]])).await,
        refusal(here, json!([ids[0], ids[0]])).await,
        refusal(here, json!([])).await,
        refusal(here, json!("all")).await,
        refusal(&json!(Uuid::nil()), json!([ids[0]])).await,
        refusal(&json!("the last"), json!([ids[0]])).await,
    ];
    insta::assert_snapshot!(refusals.join("\n"), @r"
    invalid_request: memory_ids[1] must be a memory that the recall cites
    invalid_request: memory_ids[1] must not repeat an earlier item of the list
    invalid_request: memory_ids must have 1 to 500 items, not 0
    invalid_request: memory_ids must be a list of UUIDs, not a string
    not_found: there is no such recall
    invalid_request: recall_id must be one that recall returned
    ");
}

async fn assistant_sees_what_its_key_may_see() {
    let org = own_org();
    let (owner, key) = (&org.members.owner.token, &org.tokens.mcp_key);
    let id = org.main.memories.internal[60];
    let title = title(org).await;
    let list = async || structured(&tool("list_memories", &json!({})).bearer(key).await);
    let listed = list().await["memories"].as_array().unwrap().clone();
    assert_eq!(listed.len(), 20, "the approved ones");
    assert!(listed.iter().any(|memory| memory["id"] == json!(id)));
    let restricted = json!({ "sensitivityLabel": "restricted" });
    let memory = format!("/v1/memories/{id}");
    let changed = patch(memory).bearer(owner).json(&restricted).await;
    assert_eq!(changed.status, 200);
    let viewer = &org.members.viewer.token;
    let in_main = format!("/mcp?workspace={}", org.main.id);
    let query = json!({ "query": title });
    let found = structured(&tool_at(&in_main, "recall", &query).bearer(viewer).await);
    let results = found["results"].as_array().unwrap();
    assert!(
        results.iter().all(|memory| memory["id"] != json!(id)),
        "{found}"
    );
    let fetched = async |id: MemoryId, token: &str| {
        let fetch = tool_at(&in_main, "fetch", &json!({ "id": id }));
        fetch.bearer(token).await.json()["result"]["content"].clone()
    };
    let refused = fetched(id, viewer).await;
    let unknown = fetched(MemoryId(Uuid::nil()), viewer).await;
    assert_eq!(refused, unknown, "both do not exist");
    // A memory that waits for review is none for assistants.
    for token in [key, owner] {
        assert_eq!(fetched(org.main.memories.internal[0], token).await, unknown);
    }
}

/// Returns the names of the tools that a caller is offered.
async fn tools(token: &str) -> Vec<String> {
    let listed = message("tools/list", json!({})).bearer(token).await.json();
    let tools = listed["result"]["tools"].as_array().unwrap().iter();
    let names = tools.map(|tool| tool["name"].as_str().unwrap().to_owned());
    names.collect()
}

async fn assistant_proposes_memories_with_a_key_made_for_it() {
    let org = own_org();
    let (owner, workspace) = (&org.members.owner.token, org.main.id);
    let remember = || {
        let memory = json!({ "title": "Restart", "content": "Drain it first.", "source_key": "a" });
        tool("remember", &memory)
    };
    let label = format!("workspace:{}", org.main.slug);
    let new = json!({
        "name": "Laptop", "client": "cursor", "audience": [label],
        "proposalSourceId": org.sources[0],
    });
    let made = post(format!("/v1/workspaces/{workspace}/mcp-keys"))
        .json(&new)
        .bearer(owner)
        .await;
    assert_eq!(
        made.json()["proposalSourceId"],
        json!(org.sources[0]),
        "{made:?}"
    );
    let key = made.json()["secret"].as_str().unwrap().to_owned();
    let expected = [
        "recall",
        "search",
        "fetch",
        "list_memories",
        "cite",
        "remember",
    ];
    assert_eq!(tools(&key).await, expected);
    let discovered = message("server/discover", json!({}))
        .bearer(&key)
        .await
        .json();
    let instructions = discovered["result"]["instructions"].as_str().unwrap();
    assert!(
        instructions.contains("propose with remember"),
        "{instructions}"
    );

    let added = structured(&remember().bearer(&key).await);
    assert_eq!(
        (&added["audience"], &added["review_status"]),
        (&json!(label), &json!("pending"))
    );
    let path = format!("/v1/memories/{}", added["id"].as_str().unwrap());
    let shown = get(path).bearer(owner).await.json();
    let provenance = json!({ "mcpKeyId": made.json()["id"], "client": "cursor", "recallId": null });
    assert_eq!(shown["provenance"], provenance, "{shown}");
    // Nobody recalls it before it is approved, and nobody proposes it twice.
    let fetched = tool("fetch", &json!({ "id": added["id"] }))
        .bearer(&key)
        .await
        .json();
    assert_eq!(fetched["result"]["isError"], true, "{fetched}");
    let again = remember().bearer(&key).await.json();
    let text = "invalid_request: source_key must not be the key of another memory from the source";
    assert_eq!(again["result"]["content"][0]["text"], text, "{again}");
    let wrong = json!({ "title": "", "content": "x", "recall_id": Uuid::nil() });
    let wrong = tool("remember", &wrong).bearer(&key).await.json();
    let text = wrong["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("invalid_request: title must have 1 to 128 characters"),
        "{text}"
    );
    let unknown = json!({ "title": "x", "content": "x", "recall_id": Uuid::nil() });
    let unknown = tool("remember", &unknown).bearer(&key).await.json();
    let text = "invalid_request: recall_id must be a recall that the member has registered in the \
                workspace";
    assert_eq!(unknown["result"]["content"][0]["text"], text);
    let approval = json!({ "memoryIds": [added["id"]], "reviewStatus": "approved" });
    assert_eq!(bulk(owner, &approval).await.status, 200);
    let fetched = structured(
        &tool("fetch", &json!({ "id": added["id"] }))
            .bearer(&key)
            .await,
    );
    assert_eq!(fetched["text"], "Drain it first.");
}

async fn only_keys_with_a_source_are_offered_proposals() {
    let org = own_org();
    let owner = &org.members.owner;
    // Its labels and its action are those that such a key has.
    let narrowed = json!({
        "name": "Narrowed",
        "narrowing": {
            "workspaces": [org.main.id], "actions": ["memory:read", "memory:propose"],
            "audience": [format!("workspace:{}", org.main.slug)],
        },
    });
    let tokens = format!("/v1/orgs/{}/members/{}/tokens", org.slug, owner.id);
    let narrowed = post(tokens).json(&narrowed).session(&owner.session).await;
    let narrowed = narrowed.json()["data"]["secret"]
        .as_str()
        .unwrap()
        .to_owned();
    let everywhere = format!("/mcp?workspace={}", org.main.id);
    let others = [
        ("/mcp", &org.tokens.mcp_key),
        ("/mcp", &narrowed),
        (&*everywhere, &owner.token),
    ];
    for (path, token) in others {
        let listed = message_to(path, "tools/list", json!({}))
            .bearer(token)
            .await;
        let listed = listed.json().to_string();
        assert!(
            listed.contains("list_memories") && !listed.contains("remember"),
            "{listed}"
        );
        let refused = tool_at(path, "remember", &json!({})).bearer(token).await;
        assert_eq!(refused.json()["error"]["code"], -32602, "{refused:?}");
    }
}

async fn tool_explains_what_it_refuses() {
    let org = own_org();
    let key = &org.tokens.mcp_key;
    let refusal = async |name: &str, arguments: Value| {
        let answer = tool(name, &arguments).bearer(key).await;
        let result = answer.json()["result"].clone();
        assert_eq!(
            (answer.status.as_u16(), &result["isError"]),
            (200, &json!(true))
        );
        assert!(result.get("structuredContent").is_none());
        result["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let mut refusals = Vec::new();
    for (name, arguments) in [
        ("recall", json!({})),
        ("recall", json!({ "query": "keys", "candidates": [] })),
        ("recall", json!({ "query": " " })),
        ("recall", json!({ "query": "keys", "limit": 51 })),
        ("recall", json!({ "query": 1 })),
        ("fetch", json!({ "id": "../workspaces" })),
        ("list_memories", json!({ "cursor": "a&limit=1" })),
        ("list_memories", json!({ "cursor": "x".repeat(70_000) })),
    ] {
        refusals.push(refusal(name, arguments).await);
    }
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    invalid_request: query is required
    invalid_request: candidates is unknown; known arguments: limit, query
    invalid_request: query must not be blank
    invalid_request: limit must be 1 to 50
    invalid_request: query must be a string, not a number
    invalid_request: id must be that of a memory, as recall returns it
    invalid_request: cursor must be an unmodified next_cursor of this list
    invalid_request: an argument is too long
    "#);
    let text = tool("list_memories", &json!("all")).bearer(key).await;
    assert_eq!(
        text.json()["error"]["message"],
        "arguments must be an object"
    );
    let first = tool("list_memories", &json!({ "cursor": null }))
        .bearer(key)
        .await;
    assert_eq!(structured(&first)["memories"].as_array().unwrap().len(), 20);
    let unknown = tool("forget", &json!({})).bearer(key).await;
    insta::assert_snapshot!(unknown.json()["error"], @r#"{"code":-32602,"message":"unknown tool \"forget\"; known tools: recall, search, fetch, list_memories, cite"}"#);
}

async fn earlier_versions_begin_with_initialize() {
    let org = own_org();
    let key = &org.tokens.mcp_key;
    let legacy = |method: &str, params: Value| {
        post("/mcp").bearer(key).json(&json!({
            "jsonrpc": "2.0", "id": "a", "method": method, "params": params,
        }))
    };
    for (wanted, spoken) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
    ] {
        let params = json!({ "protocolVersion": wanted, "capabilities": {} });
        let begun = legacy("initialize", params).await.json();
        assert_eq!(
            (&begun["id"], &begun["result"]["protocolVersion"]),
            (&json!("a"), &json!(spoken))
        );
        assert_eq!(begun["result"]["serverInfo"]["name"], "knowledge");
    }
    let version = ("mcp-protocol-version", "2025-06-18");
    let begun = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let begun = post("/mcp")
        .bearer(key)
        .header(version.0, version.1)
        .json(&begun)
        .await;
    assert_eq!((begun.status.as_u16(), begun.body.len()), (202, 0));
    let ping = legacy("ping", json!({})).header(version.0, version.1).await;
    assert_eq!(ping.json()["result"], json!({}));
    let listed = legacy("tools/list", json!({}))
        .header(version.0, version.1)
        .await;
    assert_eq!(
        listed.json()["result"]["tools"].as_array().unwrap().len(),
        5
    );
    let unknown = legacy("prompts/list", json!({}))
        .header(version.0, version.1)
        .await;
    assert_eq!(
        (unknown.status.as_u16(), &unknown.json()["error"]["code"]),
        (200, &json!(-32601))
    );
}

async fn message_repeats_its_metadata_in_headers() {
    let org = own_org();
    let key = &org.tokens.mcp_key;
    let list = || message("tools/list", json!({})).bearer(key);
    let recall = || tool("recall", &json!({ "query": "keys" })).bearer(key);
    let mut codes = Vec::new();
    for (what, call) in [
        ("no version", list().without("mcp-protocol-version")),
        (
            "another version",
            list()
                .without("mcp-protocol-version")
                .header("mcp-protocol-version", "2025-11-25"),
        ),
        ("no method", list().without("mcp-method")),
        (
            "method in capitals",
            list()
                .without("mcp-method")
                .header("mcp-method", "TOOLS/LIST"),
        ),
        ("no name", recall().without("mcp-name")),
        (
            "another name",
            recall().without("mcp-name").header("mcp-name", "fetch"),
        ),
        (
            "encoded name",
            recall()
                .without("mcp-name")
                .header("mcp-name", "=?base64?cmVjYWxs?="),
        ),
        (
            "removed method",
            message("initialize", json!({})).bearer(key),
        ),
    ] {
        let answer = call.await;
        let code = answer.json()["error"]["code"].clone();
        codes.push(format!("{what}: {} {code}", answer.status.as_u16()));
    }
    insta::assert_snapshot!(codes.join("\n"), @r#"
    no version: 400 -32020
    another version: 400 -32020
    no method: 400 -32020
    method in capitals: 400 -32020
    no name: 400 -32020
    another name: 400 -32020
    encoded name: 200 null
    removed method: 404 -32601
    "#);
    let meta = |meta: Value| {
        let body = json!({
            "jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": { "_meta": meta },
        });
        let call = post("/mcp").bearer(key).header("mcp-method", "tools/list");
        call.json(&body)
    };
    let old = meta(json!({ "io.modelcontextprotocol/protocolVersion": "1900-01-01" }));
    let old = old.header("mcp-protocol-version", "1900-01-01").await;
    assert_eq!((old.status.as_u16(), &old.json()["id"]), (400, &json!(7)));
    assert_eq!(old.json()["error"]["code"], -32022);
    assert_eq!(old.json()["error"]["data"]["requested"], "1900-01-01");
    let bare = meta(json!({}))
        .header("mcp-protocol-version", VERSION)
        .await;
    assert_eq!(
        (bare.status.as_u16(), &bare.json()["error"]["code"]),
        (400, &json!(-32602))
    );
}

async fn message_that_is_none_is_refused() {
    let org = own_org();
    let key = &org.tokens.mcp_key;
    let mut refused = Vec::new();
    for body in [
        "{",
        "[]",
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
    ] {
        let call = post("/mcp")
            .bearer(key)
            .header("content-type", "application/json");
        let answer = call
            .header("mcp-protocol-version", VERSION)
            .body(body)
            .await;
        assert_eq!(answer.status, 400, "{body}");
        refused.push(answer.json()["error"].to_string());
    }
    insta::assert_snapshot!(refused.join("\n"), @r#"
    {"code":-32700,"message":"not JSON: EOF while parsing an object at line 1 column 1"}
    {"code":-32600,"message":"a POST has one JSON-RPC message: an object"}
    {"code":-32600,"message":"jsonrpc must be \"2.0\""}
    {"code":-32600,"message":"id must be a string or an integer"}
    {"code":-32600,"message":"method must be a string: a POST has a request or a notification"}
    {"code":-32600,"message":"params must be an object"}
    "#);
}

async fn endpoint_admits_no_strangers() {
    let org = own_org();
    let key = &org.tokens.mcp_key;
    let list = || message("tools/list", json!({}));
    let nobody = list().await;
    insta::assert_snapshot!(nobody.brief(), @r#"
    401 Unauthorized
    www-authenticate: Bearer realm="knowledge"

    {
      "error": "unauthenticated",
      "message": "an access token is required; send Authorization: Bearer wkt_...", "details": {}
    }
    "#);
    let unknown = list().bearer("wkt_unknown").await;
    assert_eq!(unknown.status, 401);
    let read = get("/mcp").bearer(key).await;
    assert_eq!(
        (read.status.as_u16(), &read.headers["allow"]),
        (405, &"POST".parse().unwrap())
    );
    for (origin, status) in [
        ("http://evil.example.com", 403),
        ("http://localhost.evil.example.com:80", 403),
        ("ftp://localhost", 403),
        ("null", 403),
        ("http://localhost:6274", 200),
        ("http://127.0.0.1", 200),
    ] {
        let answer = list().bearer(key).header("origin", origin).await;
        assert_eq!(answer.status, status, "{origin}");
    }
    let text = list()
        .bearer(key)
        .without("content-type")
        .header("content-type", "text/plain");
    assert_eq!(text.await.status, 415);
}

async fn token_of_several_workspaces_names_one() {
    let org = own_org();
    let owner = &org.members.owner.token;
    let list = tool("list_memories", &json!({}));
    let unnamed = list.bearer(owner).await;
    insta::assert_snapshot!(unnamed.json()["error"], @r#"{"code":-32602,"message":"the credential is not limited to one workspace: add ?workspace=<id> to the URL"}"#);
    let at = |query: &str| tool_at(&format!("/mcp?{query}"), "list_memories", &json!({}));
    let side = format!("workspace={}", org.side.id);
    let named = structured(&at(&side).bearer(owner).await);
    assert_eq!(named, json!({ "memories": [], "next_cursor": null }));
    let other = at(&side).bearer(&org.tokens.mcp_key).await;
    insta::assert_snapshot!(other.json()["error"], @r#"{"code":-32602,"message":"the credential is for another workspace than the query names"}"#);
    let wrong = at("workspace=handbook&a=1").bearer(owner).await;
    insta::assert_snapshot!(problems(&wrong), @r#"
    invalid_value: workspace must be a UUID of 36 characters, for example <uuid 1>
    unknown_field: a is unknown; known parameters: workspace
    "#);
}
