//! The registry is consistent, and the files that follow from it are those of the code.
//!
//! `UPDATE_REFERENCE=1 cargo test -p knowledge-server --lib config` writes the files anew.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::describe::{example, table};
use super::load::settings;
use super::{SECTIONS, Sources};

fn in_workspace(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Asserts that a file is as the code makes it of its text, or writes it so where that is asked for.
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

#[test]
fn every_setting_has_a_place_and_a_name_of_its_own() {
    let mut names = HashSet::new();
    for section in SECTIONS {
        assert!(names.insert(section.name.to_owned()), "{}", section.name);
        for setting in section.settings {
            assert_eq!(setting.section(), section.name, "{}", setting.path);
            assert!(names.insert(setting.path.to_owned()), "{}", setting.path);
            assert!(names.insert(setting.variable()), "{}", setting.path);
            if let Some(flag) = setting.flag {
                assert!(names.insert(format!("--{flag}")), "--{flag}");
            }
            assert!(!setting.about.ends_with('.'), "{}", setting.path);
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte == b'.';
            assert!(setting.path.bytes().all(plain), "{}", setting.path);
        }
    }
}

/// Every section of the documentation ends before the next one.
fn with_tables(text: &str) -> String {
    SECTIONS.iter().fold(text.to_owned(), |text, section| {
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
fn the_documentation_has_every_setting() {
    assert_written("docs/configuration.md", with_tables);
}

#[test]
fn the_example_has_every_setting() {
    assert_written("deploy/knowledge.toml", |_| example());
}

#[test]
fn the_example_without_its_signs_says_what_is_in_force_anyway() {
    let commented = |line: &str| line.starts_with('#') && !line.starts_with("# ") && line != "#";
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
    assert_eq!(loaded.config, super::Config::default());
    for setting in settings() {
        let origin = loaded.origin(setting.path);
        assert!(matches!(origin, super::Origin::File(_)), "{}", setting.path);
    }
}
