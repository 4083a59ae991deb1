//! The tables of the reference documentation match the code.
//!
//! `UPDATE_REFERENCE=1 cargo test -p knowledge-core --test reference` updates them.

use std::fmt::Write as _;
use std::path::Path;

use knowledge_core::access::{
    Action, BaseRole, BuiltInRole, PermissionScope, REQUIRED_PERMISSIONS,
};
use knowledge_core::api::{ErrorStyle, OPERATIONS, Origin};
use knowledge_core::limits;
use knowledge_core::model::{
    AudienceScope, BulkItemErrorCode, ChecklistTier, ConnectorScope, ConnectorStatus,
    DeliveryFailureCode, EventType, McpClient, MemberKind, ReviewStatus, SPECIAL_RANGES,
    SensitivityLabel, SpecialRange,
};
use knowledge_core::service::{
    AuditAction, DELIVERY_TIMEOUT, IngestOutcome, RESPONSE_BYTES_MAX, ResourceKind,
};
use knowledge_core::store::{
    COMMIT_BYTES_MAX, COMMIT_MUTATIONS_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX,
};
use knowledge_core::{Error, ProblemCode};

fn names<T: Copy + ToString>(values: &[T]) -> String {
    values
        .iter()
        .map(|value| format!("`{}`", value.to_string()))
        .collect::<Vec<_>>()
        .join(", ")
}

fn operations() -> String {
    let mut table = String::from(
        "| operation | method and path | credential | success | errors | error style | |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for spec in OPERATIONS {
        let style = match spec.error_style {
            ErrorStyle::Body => "JSON body",
            ErrorStyle::Headers => "headers",
        };
        let origin = match spec.origin {
            Origin::Specified => "",
            Origin::Addition => "addition",
        };
        let refusals: Vec<_> = spec.refusals.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            table,
            "| `{}` | `{} {}` | {} | {} | {} | {style} | {origin} |",
            spec.operation.id(),
            spec.method,
            spec.path,
            spec.authentication,
            spec.success,
            refusals.join(", ")
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

fn needs() -> String {
    let mut table =
        String::from("| operation | action | scope | condition |\n| --- | --- | --- | --- |\n");
    for permission in REQUIRED_PERMISSIONS {
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
            permission.operation, permission.action
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
            "code of a problem in `details.fields`",
            names(ProblemCode::ALL),
        ),
        ("outcome of an ingested memory", names(IngestOutcome::ALL)),
        ("action in the audit log", names(AuditAction::ALL)),
        (
            "kind of a resource in the audit log",
            names(ResourceKind::ALL),
        ),
    ];
    let mut table = String::from("| enumeration | values |\n| --- | --- |\n");
    rows.iter()
        .for_each(|(what, values)| table.push_str(&format!("| {what} | {values} |\n")));
    table
}

fn errors() -> String {
    let after = std::time::Duration::from_secs(1);
    let all = [
        Error::InvalidRequest { fields: Vec::new() },
        Error::IdempotencyKeyRequired,
        Error::Unauthenticated { reason: "" },
        Error::forbidden(""),
        Error::NotFound { what: "" },
        Error::MethodNotAllowed {
            allow: String::new(),
        },
        Error::Conflict,
        Error::RoleInUse { holder_count: 1 },
        Error::SlugTaken { what: "" },
        Error::EndpointInactive,
        Error::PreconditionFailed,
        Error::PayloadTooLarge { bytes_max: 1 },
        Error::UnsupportedMediaType,
        Error::IdempotencyKeyReused,
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
    let rows = [
        (
            "memories of one bulk update",
            limits::BULK_MEMORIES_MAX.to_string(),
        ),
        (
            "content of a memory",
            format!("{} bytes", limits::CONTENT_BYTES_MAX),
        ),
        (
            "memories of one ingest",
            limits::INGEST_MEMORIES_MAX.to_string(),
        ),
        ("request body", format!("{} bytes", limits::BODY_BYTES_MAX)),
        (
            "name or title",
            format!("{} characters", limits::NAME_CHARS_MAX),
        ),
        (
            "description",
            format!("{} characters", limits::DESCRIPTION_CHARS_MAX),
        ),
        (
            "URL",
            format!("{} characters", knowledge_core::model::URL_CHARS_MAX),
        ),
        (
            "outbound webhooks of a workspace",
            limits::WEBHOOKS_PER_WORKSPACE_MAX.to_string(),
        ),
        (
            "inbound webhooks of a workspace",
            limits::INBOUND_WEBHOOKS_PER_WORKSPACE_MAX.to_string(),
        ),
        (
            "connectors of a workspace",
            limits::CONNECTORS_PER_WORKSPACE_MAX.to_string(),
        ),
        (
            "MCP keys of a workspace",
            limits::MCP_KEYS_PER_WORKSPACE_MAX.to_string(),
        ),
        (
            "custom roles of an organisation",
            limits::CUSTOM_ROLES_PER_ORG_MAX.to_string(),
        ),
        (
            "memories cited by a recall",
            limits::RECALL_MEMORIES_MAX.to_string(),
        ),
        (
            "subscriptions of a recall",
            limits::SUBSCRIPTIONS_PER_RECALL_MAX.to_string(),
        ),
        (
            "retention of results for replays",
            format!("{} hours", limits::IDEMPOTENCY_RETENTION.as_secs() / 3_600),
        ),
        (
            "retention of the audit log",
            format!("{} days", limits::AUDIT_RETENTION.as_secs() / 86_400),
        ),
        (
            "retention of events and deliveries",
            format!("{} days", limits::DELIVERY_RETENTION.as_secs() / 86_400),
        ),
        (
            "duration of a delivery attempt",
            format!("{} seconds", DELIVERY_TIMEOUT.as_secs()),
        ),
        (
            "response to a delivery",
            format!("{RESPONSE_BYTES_MAX} bytes"),
        ),
        (
            "validity of a replaced signing secret",
            format!("{} hours", limits::SIGNING_SECRET_OVERLAP.as_secs() / 3_600),
        ),
        ("key in a store", format!("{KEY_BYTES_MAX} bytes")),
        ("value in a store", format!("{VALUE_BYTES_MAX} bytes")),
        ("mutations of one commit", COMMIT_MUTATIONS_MAX.to_string()),
        ("size of one commit", format!("{COMMIT_BYTES_MAX} bytes")),
    ];
    let mut table = String::from("| limit | maximum |\n| --- | --- |\n");
    rows.iter()
        .for_each(|(what, most)| table.push_str(&format!("| {what} | {most} |\n")));
    table
}

fn special_ranges() -> String {
    let mut table = String::from("| addresses | purpose | |\n| --- | --- | --- |\n");
    for SpecialRange { range, name, rfc } in SPECIAL_RANGES {
        let _ = writeln!(table, "| `{range}` | {name} | RFC {rfc} |");
    }
    table
}

fn delivery_failures() -> String {
    use DeliveryFailureCode as Code;
    let mut table = String::from("| code | meaning |\n| --- | --- |\n");
    for code in DeliveryFailureCode::ALL {
        let meaning = match code {
            Code::AddressRefused => {
                "the URL, or every address that its name resolves to, is not allowed for deliveries"
            }
            Code::DnsFailed => "the name could not be resolved within 5 seconds",
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
            code => panic!("{code} is not described here"),
        };
        let _ = writeln!(table, "| `{code}` | {meaning} |");
    }
    table
}

/// Replaces the text between the markers of `name`.
fn with_table(text: &str, name: &str, table: &str) -> String {
    let begin = format!("<!-- table {name} -->\n");
    let end = "<!-- end -->";
    let (before, rest) = text
        .split_once(&begin)
        .unwrap_or_else(|| panic!("the document has no table {name}"));
    let (_, after) = rest
        .split_once(end)
        .unwrap_or_else(|| panic!("the table {name} has no end"));
    format!("{before}{begin}{table}{end}{after}")
}

#[test]
fn reference_tables_match_code() {
    assert_written(
        "docs/reference.md",
        &[
            ("operations", operations()),
            ("built-in roles", built_in_roles()),
            ("needs", needs()),
            ("enumerations", enumerations()),
            ("errors", errors()),
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

/// Asserts that a file contains these tables, or updates it on request.
#[expect(
    clippy::disallowed_methods,
    reason = "the environment tells this test to update the tables"
)]
fn assert_written(file: &str, tables: &[(&str, String)]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let written = std::fs::read_to_string(&path).unwrap();
    let expected = tables.iter().fold(written.clone(), |text, (name, table)| {
        with_table(&text, name, table)
    });
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(
            written == expected,
            "{file} does not match the code; run this test with UPDATE_REFERENCE=1"
        );
    }
}
