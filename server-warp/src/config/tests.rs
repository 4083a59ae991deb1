//! The registry is consistent, and the files that follow from it are those of the code.
//!
//! `UPDATE_REFERENCE=1 cargo test -p knowledge-server --lib config` writes the files anew.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::describe::{example, table};
use super::kind::Raw;
use super::load::settings;
use super::{Config, Loaded, Problems, SECTIONS, Setting, Sources, file};

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

/// What is loaded where one setting is told by its variable.
fn with_variable(setting: &Setting, value: &str) -> Result<Loaded, Problems> {
    let variable = (setting.variable().into(), value.into());
    // What another setting has to leave room for.
    let mut environment: Vec<_> = [
        ("KNOWLEDGE_SERVER__BODY_BYTES_HELD_MAX", "1TiB"),
        ("KNOWLEDGE_LIMITS__AUDIT_RETENTION", "3650d"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec();
    environment.push(variable);
    let sources = Sources {
        environment,
        ..Sources::default()
    };
    sources.load()
}

#[test]
fn what_a_setting_expects_is_what_it_takes_and_what_the_server_keeps() {
    let mut ranges = 0;
    for setting in settings() {
        let expects = setting.kind.expects();
        let Some((least, most)) = expects
            .split_once(" from ")
            .and_then(|(_, range)| range.split_once(" to "))
        else {
            continue;
        };
        ranges += 1;
        for bound in [least, most] {
            // How little room there may be is a rule of its own.
            let is_room =
                ["server.body_bytes_held_max", "limits.audit_retention"].contains(&setting.path);
            if is_room && bound == least {
                continue;
            }
            let loaded = with_variable(setting, bound);
            assert!(loaded.is_ok(), "{} {bound}: {loaded:?}", setting.path);
            let config = loaded.unwrap().config;
            assert_eq!(config.net().validate(), Ok(()), "{} {bound}", setting.path);
            assert_eq!(config.limits.validate(), Ok(()), "{} {bound}", setting.path);
        }
        for beyond in ["-1", "1000000d", "100000TiB", "soon", ""] {
            let refused = with_variable(setting, beyond);
            assert!(refused.is_err(), "{} {beyond}", setting.path);
        }
    }
    assert!(ranges > 20, "{ranges}");
}

#[test]
fn the_authorities_of_webhooks_are_looked_up_by_a_check() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("authorities.pem");
    let inspected = |file: &Path| {
        let sources = Sources {
            environment: vec![("KNOWLEDGE_WEBHOOKS__CA_FILE".into(), file.into())],
            ..Sources::default()
        };
        sources.load().unwrap().inspect()
    };
    let told = inspected(&file).unwrap_err().to_string();
    assert!(told.contains("webhooks.ca_file cannot be used"), "{told}");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&file, made.cert.pem()).unwrap();
    inspected(&file).unwrap();
}

#[test]
fn ranges_are_told_in_a_variable_with_commas_between() {
    let allowed = |text: &str| {
        let sources = Sources {
            environment: vec![("KNOWLEDGE_WEBHOOKS__ALLOW".into(), text.into())],
            ..Sources::default()
        };
        let loaded = sources.load();
        loaded.map(|loaded| {
            let ranges = loaded.config.webhooks.addresses.allow;
            ranges.iter().map(ToString::to_string).collect::<Vec<_>>()
        })
    };
    assert_eq!(allowed("").unwrap(), [""; 0]);
    assert_eq!(allowed("127.0.0.0/8").unwrap(), ["127.0.0.0/8"]);
    let several = allowed("10.1.2.3, 10.20.30.40/16,fd12:3456::1/32,::1").unwrap();
    let expected = ["10.1.2.3/32", "10.20.0.0/16", "fd12:3456::/32", "::1/128"];
    assert_eq!(several, expected);
    for wrong in [
        "127.0.0.0/33",
        "localhost",
        "10.0.0.0-10.0.0.9",
        "10.0.0.0/8,",
        "fe80::1%eth0",
    ] {
        let told = allowed(wrong).unwrap_err().to_string();
        assert!(
            told.contains("webhooks.allow must be a list, each item a range of addresses"),
            "{told}"
        );
    }
}

/// The configuration with one setting changed.
fn changed(setting: &Setting) -> Config {
    let candidates = [
        "true",
        "false",
        "7",
        "0.5",
        "7s",
        "7ms",
        "70d",
        "7.0.0.0/8",
        "7MiB",
        "127.0.0.1:7",
        "https://seven.example",
        "json",
        "low_space",
        "memory:",
        "seven",
    ];
    let default = Config::default();
    let tried = candidates.iter().map(|text| {
        let mut config = default.clone();
        let taken = setting.kind.set(&mut config, &Raw::Word(text.as_ref()));
        (taken.is_ok(), config)
    });
    let mut found = tried.filter(|(taken, config)| *taken && *config != default);
    let (_, config) = found
        .next()
        .unwrap_or_else(|| panic!("no candidate changes {}", setting.path));
    config
}

#[test]
fn a_setting_changes_its_own_value_and_no_other() {
    for setting in settings() {
        let config = changed(setting);
        for other in settings() {
            let is_same = other.kind.value(&config) == other.kind.value(&Config::default());
            assert_eq!(
                is_same,
                other.path != setting.path,
                "{} {}",
                setting.path,
                other.path
            );
        }
    }
}

/// Where the field has another name than the setting.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("server.listen", "address"),
    ("storage.data_dir", "directory"),
    ("storage.verify_entries", "verifies_entries"),
];

#[test]
fn a_setting_lands_in_the_field_of_its_name() {
    for setting in
        settings().filter(|setting| ["server", "storage", "limits"].contains(&setting.section()))
    {
        let (before, after) = (
            format!("{:#?}", Config::default()),
            format!("{:#?}", changed(setting)),
        );
        let mut lines = before.lines().zip(after.lines());
        let (_, line) = lines
            .find(|(before, after)| before != after)
            .expect(setting.path);
        let other = OTHER_NAMES.iter().find(|(path, _)| *path == setting.path);
        let field = other.map_or(setting.name(), |(_, field)| field);
        assert!(
            line.trim_start().starts_with(&format!("{field}: ")),
            "{}: {line}",
            setting.path
        );
    }
}

proptest::proptest! {
    #[test]
    fn whatever_stands_in_a_file_is_told_with_its_place(
        at in 0_usize..8_000,
        length in 0_usize..40,
        instead in "(\\PC|\n|[\"'=\\[\\]{}#._0-9a-z]){0,12}",
    ) {
        let mut text: String = example().replace("\n#", "\n");
        let at = text.floor_char_boundary(at);
        let end = text.floor_char_boundary((at + length).min(text.len()));
        text.replace_range(at.min(end)..end, &instead);
        let lines = text.split('\n').count();
        file::read(&text, |offset, found| {
            let position = file::position(Path::new("f"), &text, offset);
            assert!((1..=lines).contains(&position.line), "{position:?}");
            if let Err(message) = found {
                assert!(!message.is_empty());
            }
        });
    }
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

#[test]
fn the_files_of_the_deliveries_are_kept_back_from_the_connections() {
    let reserved = |delivers, deliveries_in_flight_max| {
        let config = Config {
            delivers,
            deliveries_in_flight_max,
            ..Config::default()
        };
        config.net().open_files_reserved
    };
    assert_eq!(reserved(true, 256), 384 + 2 * 256);
    assert_eq!(reserved(true, 1_000), 384 + 2 * 1_000);
    assert_eq!(reserved(false, 1_000), 256);
}
