//! Tests of `--help`.

use crate::support::{AssertText, knowledge};

/// Returns the commands in a help text, each with its first line.
fn commands(help: &str) -> Vec<(String, String)> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    listed
        .take_while(|line| !line.is_empty())
        // A line with more indentation continues the previous one.
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

/// Asserts that the help texts of a command and its subcommands are readable.
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
fn help_of_each_command_is_readable() {
    assert_readable(&[]);
}

#[test]
fn help_lists_the_commands() {
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
fn unknown_arguments_are_usage_errors() {
    for args in [[].as_slice(), &["fly"], &["serve", "--fly"], &["import"]] {
        assert_eq!(knowledge(args).code, 2, "{args:?}");
    }
}

#[test]
fn help_of_serve_has_each_setting_with_its_default() {
    let shown = knowledge(&["config", "show", "--output=json"]).ok().stdout;
    let settings: Vec<serde_json::Value> = serde_json::from_str(&shown).expect("a list");
    let help = knowledge(&["serve", "--help"]).ok().stdout;
    // Joins the wrapped lines.
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

#[test]
fn help_offers_store_in_memory_only_to_servers() {
    for command in ["copy", "init", "verify", "compact", "restore", "dump"] {
        let help = knowledge(&[command, "--help"]).ok().stdout;
        help.assert_lacks("memory:");
    }
    let help = knowledge(&["serve", "--help"]).ok().stdout;
    help.assert_has("memory:");
}

#[test]
fn help_of_dump_names_its_alias() {
    let help = |command| knowledge(&[command, "--help"]).ok().stdout;
    let alias = "`knowledge backup` is another name of this command";
    assert!(help("dump").contains(alias));
    assert_eq!(help("backup"), help("dump"));
}

#[test]
fn version_names_the_build_and_the_engines() {
    let shown = knowledge(&["--version"]).ok().stdout;
    let number = r"\d+\.\d+\.\d+";
    let build = "debug build|commit [0-9a-f]{12,}(-dirty)?|unknown commit";
    let postgres = if cfg!(feature = "postgres") {
        ", PostgreSQL 15 to 18"
    } else {
        ""
    };
    let engines = format!("sled {number}, fjall {number}{postgres}");
    let form = format!(r"^knowledge {number} \(({build}); {engines}\)\n$");
    let form = regex::Regex::new(&form).expect("a valid expression");
    assert!(form.is_match(&shown), "{shown}");
}
