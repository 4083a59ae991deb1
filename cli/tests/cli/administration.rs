//! Tests of `knowledge org`, `workspace`, `user`, `session` and `completions`.
//!
//! The commands run with and without a running server.

use std::io::Write;
use std::process::{Command, Stdio};

use knowledge_http_suite::rows;
use serde_json::{Value, json};

use crate::support::{
    AssertText, Finished, Scratch, Server, get, knowledge, knowledge_in, start, words,
};

/// A data directory, with or without a server.
struct Stage {
    scratch: Scratch,
    server: Option<Server>,
}

impl Stage {
    fn both() -> [Self; 2] {
        [false, true].map(|is_served| {
            let scratch = Scratch::with_org();
            let server = is_served.then(|| {
                let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
                server.base_url();
                server
            });
            Self { scratch, server }
        })
    }

    fn run(&self, args: &[&str]) -> Finished {
        let data_dir = self.scratch.data_dir();
        knowledge(&[args, &[data_dir.as_str()]].concat())
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--output=json"]].concat()).ok().stdout;
        serde_json::from_str(&output).expect("JSON")
    }

    /// Returns the column of a list.
    fn column(&self, what: &str, name: &str) -> Vec<Value> {
        let listed = self.json(&[what, "list"]);
        let items = listed.as_array().expect("a list").iter();
        items.map(|item| item[name].clone()).collect()
    }

    fn end(self) {
        if let Some(server) = self.server {
            assert_eq!(server.terminate(), 0);
        }
        // The store is consistent after all commands.
        let data_dir = self.scratch.path("data");
        let differences = tokio::runtime::Runtime::new()
            .expect("a runtime")
            .block_on(async {
                let data = knowledge_server::data::DataConfig::at(data_dir);
                let data = data.open().await.expect("the data");
                let env = knowledge_core::env::Env::system();
                let options = data.options(Default::default());
                let service = data.service(env, options).await.expect("the service");
                service.verify().await.expect("verified").differences
            });
        assert_eq!(differences, []);
    }
}

#[test]
fn organizations_and_workspaces_are_created_and_listed() {
    for stage in Stage::both() {
        let made = stage.json(&["org", "create", "globex", "--name=Globex", "--owner=hank"]);
        assert_eq!(made["owner"]["handle"], "hank");
        let mut slugs = stage.column("org", "slug");
        slugs.sort_by_key(ToString::to_string);
        assert_eq!(slugs, ["acme", "globex"]);
        let table = stage.run(&["org", "list"]).ok().stdout;
        assert_eq!(table.lines().count(), 3, "{table}");
        let taken = stage.run(&["org", "create", "globex"]).failed();
        taken.assert_is("error: the slug is used by another organisation; choose another");

        let which = stage.run(&["workspace", "list"]);
        assert_eq!(which.code, 2);
        which.stderr.trim().assert_is(
            "error: there are several organisations; choose one with --org: acme, globex",
        );
        let unknown = stage.run(&["workspace", "list", "--org=nine"]).failed();
        unknown
            .assert_is("error: unknown organisation \"nine\"; known organisations: acme, globex");
        let args = words("workspace create lab --org=globex --audience=team:science");
        let made = stage.run(&args).ok();
        made.stderr.assert_begins("created workspace lab (");
        let listed = stage.json(&["workspace", "list", "--org=globex"]);
        assert_eq!(
            (&listed[0]["slug"], &listed[0]["audience"]),
            (&json!("lab"), &json!("team:science"))
        );
        let wrong = ["workspace", "create", "No", "--name= ", "--org=acme"];
        assert_eq!(
            stage.run(&wrong).failed(),
            "error: the slug must have 1 to 64 characters of a-z 0-9 - _ .; --name must have 1 to 128 characters, not \
             only white space, and no control characters"
        );
        stage.end();
    }
}

#[test]
fn access_to_a_workspace_is_shown_and_set() {
    for stage in Stage::both() {
        let listed = |slug: &str| {
            let all = stage.json(&["workspace", "list"]);
            let mut all = all.as_array().expect("a list").iter();
            let found = all.find(|workspace| workspace["slug"] == slug);
            found.expect("the workspace is listed")["access"].clone()
        };
        assert_eq!(listed("support"), "open");
        for access in ["private", "private", "open"] {
            let set = stage.json(&["workspace", "access", "support", access]);
            assert_eq!(set["access"], access);
            assert_eq!(listed("support"), access);
        }
        let set = stage
            .run(&["workspace", "access", "support", "private"])
            .ok();
        set.stderr.trim().assert_is(
            "the workspace support of acme is private: it exists for members with a role in it, and owners",
        );
        let table = stage.run(&["workspace", "list"]).ok().stdout;
        table.assert_has("private");
        let made = ["workspace", "create", "board", "--access=private"];
        stage.run(&made).ok();
        assert_eq!(listed("board"), "private");
        let wrong = stage.run(&["workspace", "access", "support", "closed"]);
        assert_eq!(wrong.code, 2);
        let unknown = stage.run(&["workspace", "access", "nowhere", "open"]);
        assert!(unknown.failed().contains("workspaces of acme"));
        stage.end();
    }
}

#[test]
fn retention_of_a_workspace_is_shown_and_set() {
    for stage in Stage::both() {
        let retention = ["workspace", "retention", "support"];
        let run = |more: &[&str]| stage.json(&[&retention, more].concat());
        let shown = |chats: Value, memories: Value, recalls: u64, is_recorded: bool| {
            json!({
                "chat_days": chats,
                "memory_days": memories,
                "recall_days": recalls,
                "record_recalls": is_recorded,
            })
        };
        assert_eq!(run(&[]), shown(Value::Null, json!({}), 30, true));
        let set = run(&["--chat-days=90", "--memory-days=restricted=30"]);
        let days = json!({ "restricted": 30 });
        assert_eq!(set, shown(json!(90), days, 30, true));
        let set = run(&["--recall-days=7", "--record-recalls=false"]);
        let days = json!({ "restricted": 30 });
        assert_eq!(set, shown(json!(90), days, 7, false));
        let set = run(&["--memory-days=public=9", "--memory-days=internal=8"]);
        let days = json!({ "public": 9, "internal": 8, "restricted": 30 });
        assert_eq!(set, shown(json!(90), days, 7, false));
        let set = run(&["--chat-days=keep", "--memory-days=internal=keep"]);
        let days = json!({ "public": 9, "restricted": 30 });
        assert_eq!(set, shown(Value::Null, days, 7, false));
        assert_eq!(run(&[]), set);
        let table = stage.run(&retention).ok().stdout;
        table.assert_has("restricted memories");
        table.assert_has("kept");
        table.assert_has("not registered");
        let set = run(&["--record-recalls=true"]);
        assert_eq!(set["record_recalls"], true);
        let wrong = [retention.as_slice(), &["--recall-days=0"]].concat();
        let wrong = stage.run(&wrong);
        wrong.fails("error: --recall-days must be between 1 and 36,500 days");
        let wrong = [retention.as_slice(), &["--memory-days=public=36501"]].concat();
        stage
            .run(&wrong)
            .fails("error: --memory-days public must be between 1 and 36,500 days");
        let wrong = [retention.as_slice(), &["--memory-days=secret=1"]].concat();
        assert_eq!(stage.run(&wrong).code, 2);
        let unknown = stage.run(&["workspace", "retention", "nowhere"]);
        assert!(unknown.failed().contains("workspaces of acme"));
        stage.end();
    }
}

#[test]
fn organizations_and_workspaces_are_deleted() {
    for stage in Stage::both() {
        stage.run(&["org", "create", "globex"]).ok();
        stage
            .run(&["workspace", "create", "lab", "--org=globex"])
            .ok();
        let lab = ["workspace", "delete", "lab", "--org=globex"];
        let unconfirmed = stage.run(&lab);
        assert_eq!(unconfirmed.code, 2);
        unconfirmed.stderr.trim().assert_is(
            "error: cannot ask for confirmation without a terminal; pass --yes to confirm",
        );
        let lab = [lab.as_slice(), &["--yes"]].concat();
        let deleted = stage.run(&lab).ok().stderr;
        deleted.assert_begins("deleted the workspace lab of globex");
        let listed = stage.json(&["workspace", "list", "--org=globex"]);
        assert_eq!(listed, json!([]));
        stage.run(&lab).failed();
        let taken = stage.run(&["workspace", "create", "lab", "--org=globex"]);
        taken.failed();

        let globex = ["org", "delete", "globex"];
        assert_eq!(stage.run(&globex).code, 2);
        let globex = [globex.as_slice(), &["--yes"]].concat();
        let deleted = stage.run(&globex).ok().stderr;
        deleted.assert_begins("deleted the organisation globex");
        assert_eq!(stage.column("org", "slug"), ["acme"]);
        let unknown = stage.run(&globex).failed();
        unknown.assert_is("error: unknown organisation \"globex\"; known organisations: acme");
        stage.run(&["org", "create", "globex"]).ok();
        stage.end();
    }
}

#[test]
fn members_are_added_assigned_roles_and_removed() {
    for stage in Stage::both() {
        let args = words("user create bob --name=Bob --role=viewer --team=core");
        let added = stage.run(&args).ok().stderr;
        added.assert_has("to acme as viewer");
        let robot = words("user create robot --role=member --service-account");
        assert_eq!(stage.json(&robot)["kind"], "service_account");
        assert_eq!(stage.column("user", "handle"), ["maya", "bob", "robot"]);
        let again = ["user", "create", "bob", "--role=viewer"];
        let taken = "error: the handle is or was used by another member; choose another";
        assert_eq!(stage.run(&again).failed(), taken);
        stage.run(&["token", "create", "--member=bob"]).ok();

        stage.run(&["user", "role", "bob", "admin"]).ok();
        let changed = stage.json(&["user", "role", "bob", "member", "--workspace=support"]);
        let held = json!([{"workspace": "support", "role": "member"}]);
        assert_eq!(
            (&changed["role"], &changed["workspace_roles"]),
            (&json!("admin"), &held)
        );
        let table = stage.run(&["user", "list"]).ok().stdout;
        table.assert_has("admin, member in support");
        let ended = stage.json(&["user", "role", "bob", "--workspace=support", "--end"]);
        assert_eq!(ended["workspace_roles"], json!([]));

        let removed = stage.run(&["user", "revoke", "bob"]).ok().stderr;
        assert_eq!(removed.trim(), "removed bob from acme");
        assert_eq!(stage.column("user", "handle"), ["maya", "robot"]);
        assert_eq!(stage.column("token", "id").len(), 0, "its tokens are gone");
        let again = stage.run(&["user", "revoke", "bob"]).failed();
        again.assert_is("error: there is no such member; members of acme: maya, robot");
        stage.end();
    }
}

#[test]
fn invalid_members_are_rejected_by_flag() {
    for stage in Stage::both() {
        let king = stage
            .run(&["user", "create", "bob", "--role=king"])
            .failed();
        assert_eq!(
            king,
            "error: the role must be viewer, member, admin, owner, or the slug or identifier of a custom role of acme"
        );
        let last = stage.run(&["user", "revoke", "maya"]).failed();
        last.assert_is("error: the member must remain: this is the last owner");
        let last = stage.run(&["user", "role", "maya", "viewer"]).failed();
        last.assert_is("error: the role must remain owner: there is no other owner");
        let elsewhere = ["user", "role", "maya", "viewer", "--workspace=attic"];
        assert_eq!(
            stage.run(&elsewhere).failed(),
            "error: --workspace must be the slug or the identifier of a workspace of acme; workspaces of acme: sales, support"
        );
        let nobody = stage.run(&["token", "create", "--member=bob"]).failed();
        assert_eq!(
            nobody,
            "error: --member must be the handle or the identifier of a member of acme; members of acme: maya"
        );
        for usage in [
            &["user", "create", "bob"][..],
            &["user", "role", "maya"],
            &["user", "role", "maya", "--end"],
            &[
                "user",
                "role",
                "maya",
                "viewer",
                "--workspace=sales",
                "--end",
            ],
        ] {
            assert_eq!(stage.run(usage).code, 2, "{usage:?}");
        }
        stage.end();
    }
}

#[test]
fn sessions_are_issued_listed_and_revoked() {
    for stage in Stage::both() {
        let made = stage.json(&["session", "create", "--member=maya", "--expires-in=8h"]);
        let secret = made["secret"].as_str().expect("a secret");
        secret.assert_begins("wks_");
        stage.run(&["token", "create", "--member=maya"]).ok();
        assert_eq!(stage.column("session", "kind"), ["session"]);
        assert_eq!(stage.column("token", "kind"), ["session", "bearer"]);
        let id = made["credential"]["id"].as_str().expect("an id");
        let token = stage.column("token", "id")[1].clone();
        let token = token.as_str().expect("an id");
        let wrong = stage.run(&["session", "revoke", token]).failed();
        assert_eq!(wrong, "error: there is no such session");
        stage.run(&["session", "revoke", id]).ok();
        assert_eq!(stage.column("session", "state"), ["revoked"]);
        stage.end();
    }
}

#[test]
fn lists_span_pages() {
    let stage = &Stage::both()[1];
    for number in 0..205 {
        let handle = format!("user-{number}");
        // Commands over the socket are quick, but each one is a process.
        stage
            .run(&["user", "create", &handle, "--role=viewer"])
            .ok();
    }
    assert_eq!(stage.column("user", "handle").len(), 206);
}

#[test]
fn operator_provisions_while_the_server_runs() {
    let scratch = Scratch::new();
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    let url = server.base_url();
    let run = |args: &[&str]| knowledge(&[args, &[scratch.data_dir().as_str()]].concat()).ok();
    run(&[
        "init",
        "--org-slug=acme",
        "--owner-handle=maya",
        "--workspace=support=Customer Support",
    ]);
    let again = run(&words(
        "init --org-slug=acme --workspace=support --workspace=sales",
    ))
    .stderr;
    assert!(
        again.contains(
            "organisation acme exists already\nworkspace support exists already\n\
             created workspace sales"
        ),
        "{again}"
    );
    let session = run(&["session", "create", "--member=maya"]).stdout;
    let roles = format!("{url}/v1/orgs/acme/custom-roles");
    let answer = get(roles, format!("Cookie: service_session={}", session.trim()));
    assert_eq!(answer.status, 200);
    assert_eq!(server.terminate(), 0);
}

#[test]
fn completions_exist_for_each_shell() {
    for (shell, mark) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef knowledge"),
        ("fish", "complete -c knowledge"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = knowledge(&["completions", shell]).ok().stdout;
        assert!(script.contains(mark), "{shell}");
        assert!(script.contains("workspace"), "{shell}");
        if shell == "bash" {
            assert_parses(&script);
        }
    }
    assert_eq!(knowledge(&["completions", "cobol"]).code, 2);
}

/// Checks the syntax with bash, which each test system has.
fn assert_parses(script: &str) {
    let mut bash = Command::new("bash")
        .args(["-n", "/dev/stdin"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("start bash");
    let mut input = bash.stdin.take().expect("a pipe");
    input.write_all(script.as_bytes()).expect("tell bash");
    drop(input);
    assert!(bash.wait().expect("bash ends").success());
}

#[test]
fn init_with_an_invalid_argument_creates_nothing() {
    let scratch = Scratch::new();
    let refused = |args: &[&str]| {
        let fixed = ["init", &scratch.data_dir(), "--workspace=ok"];
        let limits = [("KNOWLEDGE_LIMITS__NAME_CHARS_MAX", "7")];
        knowledge_in(&limits, &[&fixed[..], args].concat()).refused()
    };
    let slug = "the slug must have 1 to 64 characters of a-z 0-9 - _ .";
    let name = "must have 1 to 7 characters, not only white space, and no control characters";
    for (args, message) in rows! {
        (["--org-slug=acme", "--workspace=Bad One"], format!("--workspace \"Bad One\": {slug}")),
        (
            ["--org-slug=acme", "--workspace=support= "],
            format!("--workspace \"support\": the name {name}"),
        ),
        (
            ["--org-slug=acme", "--workspace=support=Customer Support"],
            format!("--workspace \"support\": the name {name}"),
        ),
        (["--org-slug=acme", "--org-name=Acme Corporation"], format!("--org-name {name}")),
        (["--org-slug=acme", "--owner-name=Maya Lindqvist"], format!("--owner-name {name}")),
    } {
        assert_eq!(refused(&args).trim(), format!("error: {message}"));
    }
    let entries = std::fs::read_dir(scratch.path("")).expect("the directory");
    assert_eq!(entries.count(), 0);
}
