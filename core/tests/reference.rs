//! The tables of the reference documentation and the JavaScript limits match the code.
//!
//! `UPDATE_REFERENCE=1 cargo test -p knowledge-core-tests --test reference` updates them.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use knowledge_core::access::{Action, ActionSet, BaseRole, BuiltInRole, PermissionScope};
use knowledge_core::api::{ErrorStyle, OPERATIONS, openapi};
use knowledge_core::limits::{self, Limit, Limits};
use knowledge_core::model::{
    AudienceScope, BulkItemErrorCode, ChecklistTier, ConnectorScope, ConnectorStatus,
    DeliveryFailureCode, EndedReason, EventType, McpClient, MemberKind, Quota, ResourceState,
    ReviewStatus, SPECIAL_RANGES, SensitivityLabel, SpecialRange, WorkspaceAccess,
};
use knowledge_core::service::{
    AuditAction, DELIVERY_TIMEOUT, IngestOutcome, RESPONSE_BYTES_MAX, ResourceKind,
};
use knowledge_core::store::{
    COMMIT_BYTES_MAX, COMMIT_MUTATIONS_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX,
};
use knowledge_core::{EntityKind, Error, ProblemCode};
use serde_json::Value;

fn names<T: Copy + ToString>(values: &[T]) -> String {
    values
        .iter()
        .map(|value| format!("`{}`", value.to_string()))
        .collect::<Vec<_>>()
        .join(", ")
}

fn operations() -> String {
    let mut table = String::from(
        "| operation | method and path | credential | success | errors | error style |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for spec in OPERATIONS {
        let style = match spec.error_style {
            ErrorStyle::Body => "JSON body",
            ErrorStyle::Headers => "headers",
        };
        let errors: Vec<_> = spec
            .error_statuses
            .iter()
            .map(ToString::to_string)
            .collect();
        let _ = writeln!(
            table,
            "| `{}` | `{} {}` | {} | {} | {} | {style} |",
            spec.operation.id(),
            spec.method,
            spec.path,
            spec.authentication,
            spec.success,
            errors.join(", ")
        );
    }
    table
}

fn built_in_roles() -> String {
    let mut table = String::from("| action |");
    BuiltInRole::ALL
        .iter()
        .for_each(|role| table.push_str(&format!(" {role} |")));
    table.push_str("\n| --- |");
    BuiltInRole::ALL
        .iter()
        .for_each(|_| table.push_str(" --- |"));
    table.push('\n');
    for action in Action::ALL {
        let _ = write!(table, "| `{action}` |");
        for role in BuiltInRole::ALL {
            table.push_str(if role.actions().contains(*action) {
                " yes |"
            } else {
                " |"
            });
        }
        table.push('\n');
    }
    table
}

fn for_members() -> String {
    let actions = ActionSet::FOR_MEMBERS.iter();
    let rows = actions.map(|action| format!("| `{action}` |\n"));
    format!("| action |\n| --- |\n{}", rows.collect::<String>())
}

fn needs() -> String {
    let mut table =
        String::from("| operation | action | scope | condition |\n| --- | --- | --- | --- |\n");
    let permissions = OPERATIONS.iter().flat_map(|spec| {
        spec.permissions
            .iter()
            .map(|permission| (spec.operation, permission))
    });
    for (operation, permission) in permissions {
        let scope = match permission.scope {
            PermissionScope::Organization => "the organisation",
            PermissionScope::Anywhere => "the organisation or any workspace",
            PermissionScope::Workspace => "the workspace",
            PermissionScope::EachMemory => "the workspace of each memory",
        };
        let when = if permission.when.is_empty() {
            "always"
        } else {
            permission.when
        };
        let _ = writeln!(
            table,
            "| `{}` | `{}` | {scope} | {when} |",
            operation.id(),
            permission.action
        );
    }
    table
}

fn enumerations() -> String {
    let rows = [
        (
            "sensitivity label, in ascending order",
            names(SensitivityLabel::ALL),
        ),
        ("review status", names(ReviewStatus::ALL)),
        ("scope of an audience label", names(AudienceScope::ALL)),
        ("access to a workspace", names(WorkspaceAccess::ALL)),
        ("tier of a checklist step", names(ChecklistTier::ALL)),
        ("scope of a connector", names(ConnectorScope::ALL)),
        ("status of a connector", names(ConnectorStatus::ALL)),
        ("client of an MCP key", names(McpClient::ALL)),
        ("built-in role", names(BuiltInRole::ALL)),
        ("base role of a custom role", names(BaseRole::ALL)),
        ("kind of a member", names(MemberKind::ALL)),
        ("type of an event", names(EventType::ALL)),
        ("error code of a bulk item", names(BulkItemErrorCode::ALL)),
        (
            "kind of a missing resource in `details.kind`",
            names(EntityKind::ALL),
        ),
        (
            "code of a problem in `details.fields`",
            names(ProblemCode::ALL),
        ),
        ("outcome of an ingested memory", names(IngestOutcome::ALL)),
        ("action in the audit log", names(AuditAction::ALL)),
        (
            "kind of a resource in the audit log",
            names(ResourceKind::ALL),
        ),
        (
            "state of an MCP key, an API token, a webhook or a subscription",
            names(ResourceState::ALL),
        ),
        ("reason for such an end", names(EndedReason::ALL)),
    ];
    let mut table = String::from("| enumeration | values |\n| --- | --- |\n");
    rows.iter()
        .for_each(|(what, values)| table.push_str(&format!("| {what} | {values} |\n")));
    table
}

fn errors() -> String {
    let after = Duration::from_secs(1);
    let all = [
        Error::InvalidRequest { fields: Vec::new() },
        Error::IdempotencyKeyRequired,
        Error::Unauthenticated { reason: "" },
        Error::forbidden(""),
        Error::NotFound {
            kind: EntityKind::Memory,
        },
        Error::MethodNotAllowed {
            allow: String::new(),
        },
        Error::Conflict,
        Error::RoleInUse { holder_count: 1 },
        Error::SlugTaken {
            kind: EntityKind::Role,
        },
        Error::EndpointInactive,
        Error::CreatedResourceGone,
        Error::PreconditionFailed,
        Error::PayloadTooLarge { bytes_max: 1 },
        Error::UnsupportedMediaType,
        Error::IdempotencyKeyReused,
        Error::QuotaExceeded {
            quota: Quota::Memories,
            maximum: 1,
            retry_after: None,
        },
        Error::QuotaExceeded {
            quota: Quota::AuditBytes,
            maximum: 1,
            retry_after: Some(after),
        },
        Error::RateLimited { retry_after: after },
        Error::internal(""),
        Error::unavailable(""),
    ];
    let mut table = String::from("| status | `error` |\n| --- | --- |\n");
    for error in &all {
        let _ = writeln!(
            table,
            "| {} | `{}` |",
            knowledge_core::api::status(error).as_u16(),
            error.code()
        );
    }
    table
}

fn limits() -> String {
    let seconds = |time: Duration| format!("{} seconds", time.as_secs());
    let bytes = |size: usize| format!("{size} bytes");
    let fixed = [
        ("duration of a delivery attempt", seconds(DELIVERY_TIMEOUT)),
        ("response to a delivery", bytes(RESPONSE_BYTES_MAX)),
        (
            "validity of a replaced signing secret",
            format!("{} hours", limits::SIGNING_SECRET_OVERLAP.as_secs() / 3_600),
        ),
        (
            "age of the confirmation of a URL",
            format!(
                "{} days",
                limits::URL_CONFIRMATION_LIFETIME.as_secs() / (24 * 3_600)
            ),
        ),
        ("key in a store", bytes(KEY_BYTES_MAX)),
        ("value in a store", bytes(VALUE_BYTES_MAX)),
        ("mutations of one commit", COMMIT_MUTATIONS_MAX.to_string()),
        ("size of one commit", bytes(COMMIT_BYTES_MAX)),
    ];
    let all = limits::all();
    let declared = all.iter().map(|limit| (limit.of, limit_value(limit)));
    let mut table = String::from("| limit | maximum |\n| --- | --- |\n");
    declared
        .chain(fixed)
        .for_each(|(what, most)| table.push_str(&format!("| {what} | {most} |\n")));
    table
}

fn events() -> String {
    let document = openapi::document(&Limits::default());
    let mut table = String::from("| event | cause | `data` |\n| --- | --- | --- |\n");
    for event_type in EventType::ALL {
        let schema = |at: &Value| {
            let target = at["$ref"].as_str().expect("a reference");
            document.pointer(&target[1..]).expect("a schema").clone()
        };
        let delivery = &document["webhooks"][event_type.as_str()]["post"];
        let body = schema(&delivery["requestBody"]["content"]["application/json"]["schema"]);
        let cause = body["description"].as_str().expect("a description");
        let data = schema(&body["properties"]["data"]);
        let fields = data["required"].as_array().expect("fields");
        let fields: Vec<_> = fields.iter().filter_map(Value::as_str).collect();
        let (cause, fields) = (cause.replace("\n\n", " "), names(&fields));
        let _ = writeln!(table, "| `{event_type}` | {cause} | {fields} |");
    }
    table
}

fn limit_value(limit: &Limit) -> String {
    let hours = limit.default / 3_600_000;
    match limit.unit {
        "time" if hours <= 24 => format!("{hours} hours"),
        "time" => format!("{} days", hours / 24),
        unit @ ("bytes" | "characters") => format!("{} {unit}", limit.default),
        _ => limit.default.to_string(),
    }
}

/// Returns the properties of the TypeScript interface of the limits.
fn limit_properties() -> String {
    let all = limits::all();
    let fields = all.iter().filter_map(|limit| limit.field);
    fields
        .map(|field| format!("  {}?: number;\n", field.property))
        .collect()
}

fn special_ranges() -> String {
    let mut table = String::from("| addresses | purpose | |\n| --- | --- | --- |\n");
    for SpecialRange { range, name, rfc } in SPECIAL_RANGES {
        let rfc = rfc.map_or_else(String::new, |rfc| format!("RFC {rfc} "));
        let _ = writeln!(table, "| `{range}` | {name} | {rfc}|");
    }
    table
}

fn delivery_failures() -> String {
    use DeliveryFailureCode as Code;
    let mut table = String::from("| code | meaning |\n| --- | --- |\n");
    for code in DeliveryFailureCode::ALL {
        let meaning = match code {
            Code::AddressRefused => {
                "the name could not be resolved within 5 seconds, or the URL, or every address that its name resolves to, is not allowed for deliveries"
            }
            Code::DnsFailed => {
                "the name could not be resolved; only in metrics, because deliveries show it as `address_refused`"
            }
            Code::ConnectionFailed => "no connection could be established",
            Code::TlsFailed => {
                "the TLS handshake failed, or the certificate does not match the host of the URL"
            }
            Code::TimedOut => "the attempt took longer than 15 seconds",
            Code::AnswerBroken => {
                "the response was not valid HTTP, had too large a header, or ended early"
            }
            Code::EndpointInactive => "nothing was sent: the endpoint is inactive",
            Code::EventUnreadable => {
                "nothing was sent: the stored event is unreadable; the operator of the service has to investigate"
            }
            Code::Superseded => {
                "nothing was sent: the endpoint was taken over after the event, which may name what does not exist for its present owner"
            }
            code => panic!("{code} is not described here"),
        };
        let _ = writeln!(table, "| `{code}` | {meaning} |");
    }
    table
}

/// Replaces the text between two markers.
fn with_text(text: &str, begin: &str, end: &str, new: &str) -> String {
    let (before, rest) = text
        .split_once(begin)
        .unwrap_or_else(|| panic!("the file does not contain {begin:?}"));
    let (_, after) = rest
        .split_once(end)
        .unwrap_or_else(|| panic!("the file does not contain {end:?} after {begin:?}"));
    format!("{before}{begin}{new}{end}{after}")
}

#[test]
fn reference_tables_match_code() {
    assert_written(
        "docs/reference.md",
        &[
            ("operations", operations()),
            ("built-in roles", built_in_roles()),
            ("for members", for_members()),
            ("needs", needs()),
            ("enumerations", enumerations()),
            ("errors", errors()),
            ("events", events()),
            ("limits", limits()),
        ],
    );
    assert_written(
        "docs/webhooks.md",
        &[
            ("special ranges", special_ranges()),
            ("delivery failures", delivery_failures()),
        ],
    );
}

#[test]
fn javascript_limits_match_code() {
    assert_contains("wasm/js/index.d.ts", |text| {
        let begin = "export interface Limits {\n";
        with_text(text, begin, "}\n", &limit_properties())
    });
    for limit in limits::all() {
        let Some(field) = limit.field else { continue };
        let unit = if limit.unit == "time" { "Seconds" } else { "" };
        assert_eq!(field.property, camel_case(field.name) + unit);
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| {
        let (initial, rest) = word.split_at(1);
        text + &initial.to_uppercase() + rest
    })
}

/// Asserts that a file contains these tables, or updates it on request.
fn assert_written(file: &str, tables: &[(&str, String)]) {
    assert_contains(file, |text| {
        tables.iter().fold(text.to_owned(), |text, (name, table)| {
            let begin = format!("<!-- table {name} -->\n");
            with_text(&text, &begin, "<!-- end -->", table)
        })
    });
}

/// Asserts that a file is up to date, or updates it on request.
#[expect(
    clippy::disallowed_methods,
    reason = "the environment tells this test to update the file"
)]
fn assert_contains(file: &str, update: impl FnOnce(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(file);
    let written = std::fs::read_to_string(&path).unwrap();
    let expected = update(&written);
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(
            written == expected,
            "{file} does not match the code; run this test with UPDATE_REFERENCE=1"
        );
    }
}
