//! Tests of `knowledge config show` and `example`.

use serde_json::json;

use super::{setting, shown};
use crate::support::{AssertText, Scratch, knowledge, knowledge_in, words};

#[test]
fn config_precedence_is_flag_environment_file_default() {
    let scratch = Scratch::new();
    let file = scratch.write(
        "knowledge.toml",
        "# Small.\n[server]\nconnections_max = 20\n",
    );
    let variable = ("KNOWLEDGE_SERVER__CONNECTIONS_MAX", "30");
    let named = format!("--config={file}");
    let of = |environment: &[(&str, &str)], args: &[&str]| {
        let all = shown(environment, args);
        let found = setting(&all, "server.connections_max");
        assert_eq!(found["default"], 10_000);
        assert_eq!(found["unit"], "connections");
        (found["value"].clone(), found["origin"].clone())
    };
    assert_eq!(of(&[], &[]), (json!(10_000), json!({"kind": "default"})));
    let in_file = json!({"kind": "file", "path": file, "line": 3, "column": 19});
    assert_eq!(of(&[], &[&named]), (json!(20), in_file));
    let in_environment = json!({"kind": "variable", "name": "KNOWLEDGE_SERVER__CONNECTIONS_MAX"});
    assert_eq!(of(&[variable], &[&named]), (json!(30), in_environment));
    assert_eq!(
        of(&[variable], &[&named, "--max-connections=40"]),
        (
            json!(40),
            json!({"kind": "flag", "name": "--max-connections"})
        )
    );
}

#[test]
fn config_file_is_named_by_flag_or_variable() {
    let scratch = Scratch::new();
    let one = scratch.write("one.toml", "[maintenance]\ninterval = \"1m 1s\"\n");
    let other = scratch.write("other.toml", "[maintenance]\ninterval = \"2m\"\n");
    let of = |environment: &[(&str, &str)], args: &[&str]| {
        setting(&shown(environment, args), "maintenance.interval")["value"].clone()
    };
    let named = [("KNOWLEDGE_CONFIG", one.as_str())];
    assert_eq!(of(&named, &[]), "61s");
    assert_eq!(of(&named, &["--config", &other]), "2m");
    assert_eq!(of(&[("KNOWLEDGE_CONFIG", "")], &[]), "1m");
}

#[test]
fn config_show_locates_each_setting_of_a_file() {
    let scratch = Scratch::new();
    let written = knowledge(&words(
        "config show --output=toml --public-url=https://knowledge.example.com/ \
         --request-timeout=1500ms --log-level=info,knowledge_server::access=warn",
    ));
    let text = written.ok().stdout;
    let file = scratch.write("knowledge.toml", &text);
    let all = shown(&[("KNOWLEDGE_CONFIG", &file)], &[]);
    let lines: Vec<_> = text.lines().collect();
    for setting in &all {
        let path = setting["setting"].as_str().expect("a path");
        let (section, name) = path.split_once('.').expect("a section");
        let line = setting["origin"]["line"].as_u64().expect(path);
        let before = &lines[..usize::try_from(line).expect("a line")];
        assert!(before[before.len() - 1].starts_with(&format!("{name} = ")));
        let header = before.iter().rev().find(|line| line.starts_with('['));
        assert_eq!(*header.expect("a section"), format!("[{section}]"));
    }
    for (path, value) in [
        ("server.public_url", "https://knowledge.example.com"),
        ("server.request_timeout", "1500ms"),
        ("log.level", "info,knowledge_server::access=warn"),
    ] {
        assert_eq!(setting(&all, path)["value"], value);
    }
}

#[test]
fn config_show_locates_each_setting_of_a_variable() {
    let defaults = shown(&[], &[]);
    let variables: Vec<_> = defaults
        .iter()
        .map(|setting| {
            let name = setting["variable"].as_str().expect("a name").to_owned();
            let value = match &setting["default"] {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Array(items) => {
                    let items = items.iter().map(|item| item.as_str().expect("text"));
                    items.collect::<Vec<_>>().join(",")
                }
                serde_json::Value::Object(items) => {
                    let item = |(name, value): (&String, &serde_json::Value)| {
                        format!("{name}={}", value.as_str().expect("text"))
                    };
                    items.iter().map(item).collect::<Vec<_>>().join(";")
                }
                other => other.to_string(),
            };
            (name, value)
        })
        .collect();
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    for (told, default) in shown(&variables, &[]).iter().zip(&defaults) {
        let path = &told["setting"];
        assert_eq!(told["value"], default["default"], "{path}");
        let origin = json!({"kind": "variable", "name": told["variable"]});
        assert_eq!(told["origin"], origin, "{path}");
    }
}

#[test]
fn config_show_prints_value_unit_origin_and_meaning() {
    let scratch = Scratch::new();
    let file = scratch.write(
        "knowledge.toml",
        "[limits]\nbulk_memories_max = 500\ncontent_bytes_max = 1000\n",
    );
    let environment = [
        ("KNOWLEDGE_CONFIG", file.as_str()),
        ("KNOWLEDGE_LOG__FORMAT", "text"),
    ];
    let args = ["config", "show", "--listen=[::1]:0"];
    let text = knowledge_in(&environment, &args).ok().stdout;
    for expected in [
        "[server]\n  The HTTP server\n\n  listen = [::1]:0  (--listen)\n      The address",
        "\n  public_url = none  (default)\n",
        "\n  origins = none  (default)\n",
        &format!(
            "\n  bulk_memories_max = 500 memories  ({file}:2:21)\n      Memories of one bulk update\n"
        ),
        &format!("\n  content_bytes_max = 1000 bytes  ({file}:3:21)\n"),
        "\n  body_bytes_max = 1MiB  (default)\n",
        "\n  idempotency_retention = 24h  (default)\n",
        "\n  format = text  (KNOWLEDGE_LOG__FORMAT)\n",
    ] {
        assert!(text.contains(expected), "{expected:?}: {text}");
    }
}

#[test]
fn config_show_prints_no_secrets() {
    let scratch = Scratch::with_org();
    let key = std::fs::read_to_string(scratch.path("data.key")).expect("the key");
    let file = format!("--sealing-key-file={}", scratch.arg("data.key"));
    for output in ["text", "json", "toml"] {
        let run = knowledge(&["config", "show", "--output", output, &file]).ok();
        run.shows("data.key");
        assert!(!run.stdout.contains(key.trim()), "{}", run.stdout);
    }
    let url = "--public-url=https://maya:secret@example.com";
    let message = knowledge(&["config", "show", url]).refused();
    message.assert_has("without credentials");
    message.assert_lacks("secret");
}

#[test]
fn config_example_has_only_default_values() {
    let scratch = Scratch::new();
    let example = knowledge(&["config", "example"]).ok().stdout;
    let file = scratch.write("knowledge.toml", &example);
    assert_eq!(shown(&[], &["--config", &file]), shown(&[], &[]));
    knowledge(&["config", "check", &file]).ok();
}
