//! `--help`.

use crate::support::knowledge;

/// The commands that a help lists, each with its first line.
fn commands(help: &str) -> Vec<(String, String)> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    listed
        .take_while(|line| !line.is_empty())
        // A line that is indented further goes on with the one above it.
        .filter_map(|line| {
            line.strip_prefix("  ")
                .filter(|line| !line.starts_with(' '))
        })
        .map(|line| {
            let (name, about) = line.split_once("  ").unwrap_or((line, ""));
            (name.to_owned(), about.trim().to_owned())
        })
        .filter(|(name, _)| name != "help")
        .collect()
}

/// Asserts that the help of a command can be read, and those of the commands within it.
fn assert_readable(command: &[&str]) {
    let help = knowledge(&[command, &["--help"]].concat()).ok();
    assert_eq!(help.stderr, "");
    let usage = [&["Usage:", "knowledge"], command].concat().join(" ");
    assert!(help.stdout.contains(&usage), "{usage}: {}", help.stdout);
    for line in help.stdout.lines() {
        assert!(line.chars().count() <= 100, "{command:?}: {line}");
    }
    for (name, about) in commands(&help.stdout) {
        let within = [command, &[name.as_str()]].concat();
        assert!(about.starts_with(char::is_uppercase), "{within:?}: {about}");
        assert_readable(&within);
    }
}

#[test]
fn every_command_has_a_help_that_can_be_read() {
    assert_readable(&[]);
}

#[test]
fn the_commands_are_listed() {
    let help = knowledge(&["--help"]).ok().stdout;
    let listed = commands(&help);
    for expected in [
        "demo",
        "serve",
        "init",
        "token",
        "import",
        "dashboard",
        "config",
    ] {
        assert!(listed.iter().any(|(name, _)| name == expected), "{help}");
    }
    let within = commands(&knowledge(&["config", "--help"]).ok().stdout);
    let names: Vec<_> = within.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["show", "check", "example"]);
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
