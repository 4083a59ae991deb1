//! Tests of `knowledge token`.

use serde_json::Value;

use crate::support::{AssertText, Scratch, get, knowledge, start, words};

#[test]
fn token_is_issued_used_listed_and_revoked() {
    let scratch = Scratch::with_org();
    let data_dir = scratch.data_dir();
    let made = knowledge(&[
        "token",
        "create",
        "--member=maya",
        "--name=For a test",
        &data_dir,
    ])
    .ok();
    let token = made.stdout.trim().to_owned();
    assert_eq!(made.stdout, format!("{token}\n"));
    token.assert_begins("wkt_");
    made.warns("for maya of acme, valid until ");
    let session = knowledge(&["token", "create", "--member=maya", "--session", &data_dir]).ok();
    let session = session.stdout.trim().to_owned();
    session.assert_begins("wks_");

    let list = list(&scratch);
    let kinds: Vec<_> = list
        .iter()
        .map(|entry| entry["kind"].as_str().expect("a kind"))
        .collect();
    assert_eq!(kinds, ["bearer", "session"]);
    assert!(
        list.iter()
            .all(|entry| entry["state"] == "valid" && entry["member"] == "maya")
    );

    let statuses = || {
        let server = start(&["serve", &data_dir, "--listen=127.0.0.1:0"]);
        let url = server.base_url();
        let roles = format!("{url}/v1/orgs/acme/custom-roles");
        let missing = format!("{url}/v1/workspaces/none/dashboard-summary");
        let statuses = (
            get(roles, format!("Cookie: service_session={session}")).status,
            get(missing, format!("Authorization: Bearer {token}")).status,
        );
        assert_eq!(server.terminate(), 0);
        statuses
    };
    assert_eq!(statuses(), (200, 404));
    // Only an operation that succeeds is a use.
    let used = self::list(&scratch);
    assert!(used[0]["last_used_at"].is_null() && used[1]["last_used_at"].is_string());
    let table = knowledge(&["token", "list", &data_dir]).ok().stdout;
    assert!(table.contains("LAST USED  CREATED BY") && table.contains("operator"));
    let id = list[0]["id"].as_str().expect("an id");
    knowledge(&["token", "revoke", id, &data_dir]).ok();
    knowledge(&["token", "revoke", id, &data_dir]).ok();
    assert_eq!(statuses(), (200, 401));
    assert_eq!(self::list(&scratch)[0]["state"], "revoked");
}

fn list(scratch: &Scratch) -> Vec<Value> {
    let listed = knowledge(&["token", "list", "--output=json", &scratch.data_dir()]).ok();
    serde_json::from_str(&listed.stdout).expect("a list")
}

#[test]
fn token_is_scoped() {
    let scratch = Scratch::with_org();
    let data_dir = scratch.data_dir();
    knowledge(&words(&format!(
        "token create --member=maya --workspace=support --action=memory:read \
         --action=dashboard:read --expires-in=12h {data_dir}"
    )))
    .ok();
    let narrowing = list(&scratch)[0]["narrowing"].clone();
    assert_eq!(
        narrowing["actions"],
        serde_json::json!(["memory:read", "dashboard:read"])
    );
    assert_eq!(narrowing["workspaces"].as_array().expect("a list").len(), 1);
    let table = knowledge(&["token", "list", &data_dir]).ok().stdout;
    let row = table.lines().nth(1).expect("a row");
    for shown in [
        "bearer  valid  maya    in 11 h",
        "1 workspace, 2 actions",
        "created on the command line",
    ] {
        assert!(row.contains(shown), "{table}");
    }
}

#[test]
fn token_rejects_invalid_arguments_as_usage_errors() {
    let scratch = Scratch::with_org();
    let data_dir = scratch.data_dir();
    for wrong in [
        ["--member=maya", "--action=memory:own"],
        ["--member=maya", "--expires-in=soon"],
        ["--session", "--workspace=support"],
    ] {
        let run = knowledge(&["token", "create", &data_dir, wrong[0], wrong[1]]);
        assert_eq!(run.code, 2, "{}", run.stderr);
    }
    let create = |args: &[&str]| {
        let create = ["token", "create", "--member=maya", &data_dir];
        knowledge(&[&create, args].concat())
    };
    for args in [
        &["--expires-in=20y"][..],
        &["--expires-in=20y", "--long-lived"],
        &["--expires-in=401d"],
    ] {
        assert_eq!(
            create(args).failed(),
            "error: --expires-in must be greater than 0 and at most 400 days, or ten years if it is \
             long-lived"
        );
    }
    create(&["--expires-in=400d"]).ok();
    create(&["--expires-in=9y", "--long-lived"]).ok();
    let unknown = "00000000-0000-0000-0000-000000000000";
    let message = knowledge(&["token", "revoke", unknown, &data_dir]).failed();
    assert_eq!(message, "error: there is no such token or session");
}
