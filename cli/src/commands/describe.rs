//! Display of settings: with current values and origins, as an example file, and in tables.

use std::fmt::Write as _;

use console::Style;
use knowledge_server::config::{Config, Loaded, Origin, Setting, Value, sections, settings};
use serde_json::{Value as Json, json};

/// Line width of prose, in characters.
const WIDTH: usize = 100;

/// Introduction of the example file.
const EXAMPLE_HEAD: &str = "\
# Configuration of `knowledge serve`, with every setting at its default; remove the # in front of a
# setting to change it. Pass the file with --config or KNOWLEDGE_CONFIG, and check it with
# `knowledge config check FILE`.
#
# Sizes are in bytes or have a unit: 32KiB, 1MiB. Times have a unit: 500ms, 30s, 12h. Empty text
# (\"\") means no value. Paths are relative to the directory in which the server is started.
";

/// Shows every setting with its value, origin and description, for people.
pub(super) fn show_text(loaded: &Loaded, has_colours: bool) -> String {
    let style = |style: Style| style.force_styling(has_colours);
    let (heading, name, dim) = (
        style(Style::new().bold().underlined()),
        style(Style::new().bold()),
        style(Style::new().dim()),
    );
    let mut text = String::new();
    for section in sections() {
        let gap = if text.is_empty() { "" } else { "\n" };
        let title = heading.apply_to(format!("[{}]", section.name));
        let _ = writeln!(text, "{gap}{title}");
        text.push_str(&wrapped(section.about, "  "));
        for setting in &section.settings {
            let value = with_unit(setting, &loaded.config);
            let origin = dim.apply_to(format!("({})", loaded.origin(setting.path)));
            let _ = writeln!(
                text,
                "\n  {} = {value}  {origin}",
                name.apply_to(setting.name())
            );
            text.push_str(&wrapped(setting.about, "      "));
        }
    }
    text
}

/// Shows every setting as a list of objects, for programs.
pub(super) fn show_json(loaded: &Loaded) -> Json {
    let all = settings().map(|setting| {
        json!({
            "setting": setting.path,
            "value": json(&setting.value(&loaded.config)),
            "unit": setting.unit(),
            "origin": origin_json(loaded.origin(setting.path)),
            "default": json(&setting.value(&Config::default())),
            "expects": setting.expects(),
            "variable": setting.variable(),
            "flag": setting.flag.map(|flag| format!("--{flag}")),
            "about": setting.about,
        })
    });
    all.collect()
}

/// Shows every setting as a file that gives the same configuration.
pub(super) fn show_toml(loaded: &Loaded) -> String {
    let mut text = String::new();
    for section in sections() {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}# {}\n[{}]", section.about, section.name);
        for setting in &section.settings {
            text.push_str(&wrapped(setting.about, "# "));
            let value = toml(&setting.value(&loaded.config));
            let origin = loaded.origin(setting.path);
            let _ = writeln!(text, "{} = {value} # {origin}", setting.name());
        }
    }
    text
}

/// Returns a file with every setting described and commented out.
pub(super) fn example() -> String {
    let mut text = EXAMPLE_HEAD.to_owned();
    for section in sections() {
        let _ = writeln!(text, "\n# {}\n[{}]", section.about, section.name);
        for setting in &section.settings {
            text.push('\n');
            text.push_str(&wrapped(&format!("{}.", setting.about), "# "));
            let accepts = format!("{} accepts {}.", setting.variable(), setting.expects());
            text.push_str(&wrapped(&accepts, "# "));
            let value = toml(&setting.value(&Config::default()));
            let _ = writeln!(text, "#{} = {value}", setting.name());
        }
    }
    text
}

/// Returns the settings without a flag, for the end of a long help.
pub(super) fn settings_for_help() -> String {
    let mut text = String::new();
    for setting in settings().filter(|setting| setting.flag.is_none()) {
        let _ = writeln!(text, "  {}", setting.path);
        text.push_str(&wrapped(&help_of(setting), "          "));
    }
    text
}

/// Returns a setting's description, its variable, and its default with the unit.
pub(super) fn help_of(setting: &Setting) -> String {
    help_with(setting, setting.about)
}

/// Returns the help of a setting with another description.
pub(super) fn help_with(setting: &Setting, about: &str) -> String {
    let mut help = format!("{about} [env: {}]", setting.variable());
    if !setting.value(&Config::default()).is_empty() {
        let _ = write!(
            help,
            " [default: {}]",
            with_unit(setting, &Config::default())
        );
    }
    help
}

/// Returns the singular of a unit.
fn singular(unit: &str) -> String {
    match unit.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => unit.trim_end_matches('s').to_owned(),
    }
}

/// Formats a value for people, with its unit if it is a bare number.
fn with_unit(setting: &Setting, config: &Config) -> String {
    let value = setting.value(config);
    match (&value, setting.unit()) {
        (value, _) if value.is_empty() => "none".to_owned(),
        (Value::Number(1), Some(unit)) => format!("1 {}", singular(unit)),
        (Value::Number(_) | Value::Ratio(_), Some(unit)) => format!("{value} {unit}"),
        (Value::Size(_), Some(unit)) => {
            let text = value.to_string();
            if text.ends_with('B') {
                return text;
            }
            format!("{text} {unit}")
        }
        _ => value.to_string(),
    }
}

fn toml(value: &Value) -> String {
    match value {
        Value::None => quoted(""),
        Value::Switch(_) | Value::Number(_) => value.to_string(),
        // With a decimal point: TOML distinguishes 1.0 and 1.
        Value::Ratio(number) => format!("{number:?}"),
        Value::Size(_) => {
            let text = value.to_string();
            if text.ends_with('B') {
                return quoted(&text);
            }
            text
        }
        Value::Time(_) | Value::Text(_) => quoted(&value.to_string()),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(|item| quoted(item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(items) if items.is_empty() => "{}".to_owned(),
        Value::Map(items) => {
            let items = items
                .iter()
                .map(|(name, value)| format!("{name} = {}", quoted(value)));
            format!("{{ {} }}", items.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Quotes text for TOML: as JSON, plus the one control character that JSON does not escape.
fn quoted(text: &str) -> String {
    Json::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn json(value: &Value) -> Json {
    match value {
        Value::None => Json::Null,
        Value::Switch(value) => json!(value),
        Value::Number(number) | Value::Size(number) => json!(number),
        Value::Ratio(number) => json!(number),
        Value::Time(_) | Value::Text(_) => json!(value.to_string()),
        Value::List(items) => json!(items),
        Value::Map(items) => items
            .iter()
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect(),
    }
}

fn origin_json(origin: &Origin) -> Json {
    match origin {
        Origin::File(position) => json!({
            "kind": "file",
            "path": position.path.display().to_string(),
            "line": position.line,
            "column": position.column,
        }),
        Origin::Variable(name) => json!({"kind": "variable", "name": name}),
        Origin::Flag(name) => json!({"kind": "flag", "name": format!("--{name}")}),
        _ => json!({"kind": "default"}),
    }
}

/// Wraps prose into lines that begin with `indent`.
fn wrapped(prose: &str, indent: &str) -> String {
    let mut text = String::new();
    let mut line = indent.to_owned();
    for word in prose.split_whitespace() {
        let is_first = line.len() == indent.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = indent.to_owned();
        } else if !is_first {
            line.push(' ');
        }
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    //! `UPDATE_REFERENCE=1 cargo test -p knowledge-cli --lib describe` rewrites generated files.

    use std::fmt::Write as _;
    use std::path::{Path, PathBuf};

    use knowledge_server::config::{Section, Sources};

    use super::*;

    fn in_workspace(path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
    }

    /// Asserts that the code generates a file's current text, or rewrites the file on request.
    fn assert_written(path: &str, make: impl FnOnce(&str) -> String) {
        let file = in_workspace(path);
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        let expected = make(&written);
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::write(&file, expected).unwrap();
        } else {
            assert!(
                written == expected,
                "{path} is not what the code says: run this with UPDATE_REFERENCE=1"
            );
        }
    }

    /// Returns the table of a section for the documentation.
    fn table(section: &Section) -> String {
        let mut table = String::from(
            "| setting | default | values | description |\n| --- | --- | --- | --- |\n",
        );
        for setting in &section.settings {
            let default = match setting.value(&Config::default()) {
                value if value.is_empty() => "none".to_owned(),
                value => format!("`{}`", toml(&value)),
            };
            let flag = setting.flag.map(|flag| format!(", flag `--{flag}`"));
            let _ = writeln!(
                table,
                "| `{}`{} | {default} | {} | {} |",
                setting.name(),
                flag.unwrap_or_default(),
                setting.expects(),
                setting.about,
            );
        }
        table
    }

    /// Replaces the table of each section of the documentation.
    fn with_tables(text: &str) -> String {
        sections().iter().fold(text.to_owned(), |text, section| {
            let begin = format!("<!-- table {} -->\n", section.name);
            let end = "<!-- end -->";
            let (before, rest) = text
                .split_once(&begin)
                .unwrap_or_else(|| panic!("docs/configuration.md has no {begin}"));
            let (_, after) = rest.split_once(end).expect("the table has an end");
            format!("{before}{begin}{}{end}{after}", table(section))
        })
    }

    #[test]
    fn documentation_lists_every_setting() {
        assert_written("docs/configuration.md", with_tables);
    }

    #[test]
    fn example_file_lists_every_setting() {
        assert_written("deploy/knowledge.toml", |_| example());
    }

    #[test]
    fn shown_unit_agrees_with_its_number() {
        for (number, shown) in [("1", "= 1 delivery "), ("2", "= 2 deliveries ")] {
            let sources = Sources {
                environment: vec![("KNOWLEDGE_WEBHOOKS__IN_FLIGHT_MAX".into(), number.into())],
                ..Sources::default()
            };
            let text = show_text(&sources.load().unwrap(), false);
            assert!(text.contains(shown), "{text}");
        }
    }

    #[test]
    fn example_file_uncommented_yields_defaults() {
        let commented =
            |line: &str| line.starts_with('#') && !line.starts_with("# ") && line != "#";
        let text: String = example()
            .lines()
            .map(|line| if commented(line) { &line[1..] } else { line })
            .map(|line| format!("{line}\n"))
            .collect();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("knowledge.toml");
        std::fs::write(&file, text).unwrap();
        let sources = Sources {
            file: Some(file),
            ..Sources::default()
        };
        let loaded = sources.load().unwrap();
        assert_eq!(loaded.config, Config::default());
        for setting in settings() {
            let origin = loaded.origin(setting.path);
            assert!(matches!(origin, Origin::File(_)), "{}", setting.path);
        }
    }
}
