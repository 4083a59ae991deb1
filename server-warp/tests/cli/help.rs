//! `--help`.

use crate::support::knowledge;

#[test]
fn every_command_has_a_help_that_can_be_read() {
    for command in [
        "",
        "demo",
        "serve",
        "init",
        "token",
        "token create",
        "token list",
        "token revoke",
        "session",
        "session create",
        "session list",
        "session revoke",
        "import",
        "dashboard",
        "config",
        "config show",
        "config check",
        "config example",
    ] {
        let mut args: Vec<_> = command.split_whitespace().collect();
        args.push("--help");
        let help = knowledge(&args).ok();
        assert_eq!(help.stderr, "");
        assert!(help.stdout.contains("Usage: knowledge"), "{}", help.stdout);
        for line in help.stdout.lines() {
            assert!(line.chars().count() <= 100, "{command}: {line}");
        }
    }
}

#[test]
fn the_commands_are_listed() {
    insta::assert_snapshot!(knowledge(&["--help"]).ok().stdout, @r#"
    Governance for the memory of AI assistants: who may see it, how sensitive it is, what waits for
    review

    Usage: knowledge <COMMAND>

    Commands:
      demo       Make an organisation with two weeks of history, and serve it
      serve      Serve the interface over HTTP, until SIGTERM or SIGINT
      init       Make an organisation with an owner and its workspaces
      token      Make, list and revoke access tokens
      session    Make, list and revoke sessions
      import     Import memories from a file of JSON lines
      dashboard  Show the dashboard of a workspace
      config     Show and check the configuration of the server
      help       Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version
    "#);
}

#[test]
fn what_is_not_understood_is_usage() {
    for args in [[].as_slice(), &["fly"], &["serve", "--fly"], &["import"]] {
        assert_eq!(knowledge(args).code, 2, "{args:?}");
    }
}

#[test]
fn the_help_of_serve_has_every_setting_with_its_default() {
    let shown = knowledge(&["config", "show", "--output=json"]).ok().stdout;
    let settings: Vec<serde_json::Value> = serde_json::from_str(&shown).expect("a list");
    let help = knowledge(&["serve", "--help"]).ok().stdout;
    // As it was before its lines were broken.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for setting in settings {
        let text = |field: &str| setting[field].as_str().map(str::to_owned);
        let (path, variable) = (text("setting").expect("a path"), text("variable"));
        let about = text("about").expect("an explanation");
        let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(&text("flag").unwrap_or(path)), "{setting}");
        let told = format!("{about} [env: {}]", variable.expect("a name"));
        assert!(help.contains(&told), "{told}");
    }
    for default in [
        "[default: 127.0.0.1:8080]",
        "[default: 10000 connections]",
        "[default: 1MiB]",
        "[default: 24h]",
    ] {
        assert!(help.contains(default), "{default}: {help}");
    }
}
