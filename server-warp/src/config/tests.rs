//! Tests of the registry of settings.

use std::collections::HashSet;
use std::path::Path;

use super::kind::Raw;
use super::table::{SECTIONS, settings};
use super::{Config, Loaded, Problems, Setting, Sources, WebhookSettings, file};

#[test]
fn setting_has_unique_name_and_its_section() {
    let mut names = HashSet::new();
    for section in SECTIONS.iter() {
        assert!(names.insert(section.name.to_owned()), "{}", section.name);
        for setting in &section.settings {
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

/// Loads a configuration whose only source is the variable of one setting.
fn with_variable(setting: &Setting, value: &str) -> Result<Loaded, Problems> {
    let variable = (setting.variable().into(), value.into());
    // Another setting has to leave room for the value.
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
fn setting_accepts_exactly_its_documented_range() {
    let mut ranges = 0;
    for setting in settings() {
        let expects = &setting.kind.expects;
        let Some((least, most)) = expects
            .split_once(" from ")
            .and_then(|(_, range)| range.split_once(" to "))
        else {
            continue;
        };
        ranges += 1;
        for bound in [least, most] {
            // The lower bound of the memory budget is a rule of its own.
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
fn config_check_reads_webhook_ca_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("authorities.pem");
    let inspected = |file: &Path| {
        let sources = Sources {
            environment: vec![("KNOWLEDGE_WEBHOOKS__CA_FILE".into(), file.into())],
            ..Sources::default()
        };
        sources.check()
    };
    let message = inspected(&file).unwrap_err().to_string();
    assert!(
        message.contains("webhooks.ca_file cannot be used"),
        "{message}"
    );
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&file, made.cert.pem()).unwrap();
    inspected(&file).unwrap();
}

#[test]
fn invalid_store_is_not_shown() {
    let problem = |store: &str| {
        let sources = Sources {
            environment: vec![("KNOWLEDGE_STORAGE__STORE".into(), store.into())],
            ..Sources::default()
        };
        sources.load().unwrap_err().to_string()
    };
    for store in [
        "postgre://app:zebra@host/db",
        "POSTGRES://app:zebra@host/db",
        "host=db user=app Password=zebra",
    ] {
        let shown = problem(store);
        assert!(shown.contains("storage.store must be"), "{shown}");
        assert!(!shown.contains("zebra"), "{shown}");
    }
}

#[test]
fn address_ranges_are_comma_separated_in_variable() {
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
        let message = allowed(wrong).unwrap_err().to_string();
        assert!(
            message.contains("webhooks.allow must be a list, each item a range of addresses"),
            "{message}"
        );
    }
}

/// Returns the configuration with one setting changed.
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
        "forwarded",
        "low_space",
        "memory:",
        "seven",
        "seven=sled:/seven",
        "confidential",
        #[cfg(feature = "oidc")]
        "seven = team:seven",
    ];
    let default = Config::default();
    let tried = candidates.iter().map(|text| {
        let mut config = default.clone();
        let is_accepted = (setting.kind.set)(&mut config, &Raw::Word(text.as_ref()));
        (is_accepted, config)
    });
    let mut changed = tried.filter(|(is_accepted, config)| *is_accepted && *config != default);
    let (_, config) = changed
        .next()
        .unwrap_or_else(|| panic!("no candidate changes {}", setting.path));
    config
}

#[test]
fn setting_changes_only_its_own_value() {
    for setting in settings() {
        let config = changed(setting);
        for other in settings() {
            let is_same = (other.kind.value)(&config) == (other.kind.value)(&Config::default());
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

/// Settings whose field has another name.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("server.listen", "address"),
    ("storage.verify_entries", "verifies_entries"),
];

#[test]
fn setting_changes_field_of_its_name() {
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

/// The example file, with every setting.
const EXAMPLE: &str = include_str!("../../../deploy/knowledge.toml");

proptest::proptest! {
    #[test]
    fn config_problem_has_position_for_any_file_content(
        at in 0_usize..8_000,
        length in 0_usize..40,
        instead in "(\\PC|\n|[\"'=\\[\\]{}#._0-9a-z]){0,12}",
    ) {
        let mut text: String = EXAMPLE.replace("\n#", "\n");
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
fn file_limit_reserves_descriptors_for_deliveries() {
    let reserved = |deliver, in_flight_max, partitions: &[&str]| {
        let webhooks = WebhookSettings {
            deliver,
            in_flight_max,
            ..WebhookSettings::default()
        };
        let mut config = Config {
            webhooks,
            ..Config::default()
        };
        let partition = |store| crate::partitions::PartitionAddress::parse("eu", store).unwrap();
        config.data.partitions = partitions.iter().copied().map(partition).collect();
        config.net().open_files_reserved
    };
    assert_eq!(reserved(true, 256, &[]), 384 + 2 * 256);
    assert_eq!(reserved(true, 1_000, &[]), 384 + 2 * 1_000);
    assert_eq!(reserved(false, 1_000, &[]), 256);
    // Each partition has its own deliveries and, in a directory, its own files.
    assert_eq!(reserved(false, 256, &["sled:/eu"]), 256 + 256);
    let of_deliveries = 128 + 2 * 256;
    assert_eq!(
        reserved(true, 256, &["sled:/eu"]),
        2 * (256 + of_deliveries)
    );
}

#[test]
fn partition_in_memory_or_in_the_place_of_another_is_rejected() {
    for (partitions, expected) in [
        ("eu=memory:", "must not name memory:"),
        // The directory of home, whose engine is not named.
        ("eu=sled:knowledge-data", "must name each store once"),
        ("eu=sled:eu;us=fjall:eu", "must name each store once"),
    ] {
        let sources = Sources {
            environment: vec![("KNOWLEDGE_STORAGE__PARTITIONS".into(), partitions.into())],
            ..Sources::default()
        };
        let rejected = sources.load().unwrap_err().to_string();
        let expected = format!("storage.partitions {expected}");
        assert!(rejected.contains(&expected), "{rejected}");
    }
}

/// Returns the sources that are only these variables.
#[cfg(feature = "oidc")]
fn variables(variables: &[(&str, &str)]) -> Sources {
    let variable = |(name, value): &(&str, &str)| (name.into(), value.into());
    Sources {
        environment: variables.iter().map(variable).collect(),
        ..Sources::default()
    }
}

#[cfg(feature = "oidc")]
const ISSUER: (&str, &str) = ("KNOWLEDGE_OIDC__ISSUER", "https://login.example.com");

#[cfg(feature = "oidc")]
#[test]
fn oidc_problem_names_its_setting() {
    let problems = |settings: &[(&str, &str)]| {
        let problems = variables(settings).load().unwrap_err();
        problems.to_string()
    };
    let message = problems(&[ISSUER]);
    for setting in ["oidc.client_id", "oidc.organization", "server.public_url"] {
        let expected = format!("{setting} must be set if oidc.issuer is");
        assert!(message.contains(&expected), "{message}");
    }
    let teams = 0..=knowledge_core::limits::TEAMS_PER_MEMBER_MAX;
    let teams: Vec<_> = teams.map(|team| format!("a = team:t{team}")).collect();
    let teams = teams.join(", ");
    for (name, value, expected) in [
        (
            "KNOWLEDGE_OIDC__GROUPS",
            teams.as_str(),
            "oidc.groups must have at most",
        ),
        (
            "KNOWLEDGE_OIDC__ISSUER",
            "http://login.example.com",
            "oidc.issuer must be an https URL",
        ),
        (
            "KNOWLEDGE_OIDC__ISSUER",
            "https://login.microsoftonline.com/common/v2.0",
            "oidc.issuer must be that of your tenant: put its identifier in place of common",
        ),
        (
            "KNOWLEDGE_OIDC__ISSUER",
            "https://login.microsoftonline.com/{tenantid}/v2.0",
            "put its identifier in place of {tenantid}",
        ),
        (
            "KNOWLEDGE_OIDC__GROUPS",
            "a = role:owner",
            "oidc.groups must be a list, each item a group",
        ),
        (
            "KNOWLEDGE_OIDC__DEFAULT_ROLE",
            "owner",
            "oidc.default_role must be viewer, member",
        ),
        (
            "KNOWLEDGE_OIDC__SCOPES",
            "profile email",
            "oidc.scopes must be without spaces",
        ),
    ] {
        let message = problems(&[(name, value)]);
        assert!(message.contains(expected), "{message}");
    }
}

#[cfg(feature = "oidc")]
#[test]
fn config_check_reads_files_of_oidc() {
    let whole = [
        ISSUER,
        ("KNOWLEDGE_OIDC__CLIENT_ID", "knowledge"),
        ("KNOWLEDGE_OIDC__ORGANIZATION", "acme"),
        (
            "KNOWLEDGE_OIDC__GROUPS",
            "a = team:b, c = role:admin@handbook",
        ),
        (
            "KNOWLEDGE_SERVER__PUBLIC_URL",
            "https://knowledge.example.com",
        ),
    ];
    variables(&whole).check().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let missing = missing.to_str().unwrap();
    for setting in ["client_secret_file", "ca_file"] {
        let variable = format!("KNOWLEDGE_OIDC__{}", setting.to_uppercase());
        let settings = [&whole[..], &[(variable.as_str(), missing)]].concat();
        let message = variables(&settings).check().unwrap_err().to_string();
        let expected = format!("oidc.{setting} cannot be used: {missing}");
        assert!(message.contains(&expected), "{message}");
    }
}
