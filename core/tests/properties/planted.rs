//! Changes that verification has to detect, one field at a time.

use knowledge_core::service::DifferenceCode;
use serde_json::{Value, json};

/// A change of one field of an entry, as verification has to report it.
///
/// Family, field, new value, expected difference, and the family that is reported.
pub(crate) type Planted = (
    &'static str,
    &'static str,
    Value,
    DifferenceCode,
    &'static str,
);

fn other() -> Value {
    json!("00000000-0000-7000-8000-000000000001")
}

fn later() -> Value {
    json!("2099-01-01T00:00:00.000Z")
}

pub(crate) fn planted() -> Vec<Planted> {
    [of_workspaces(), of_deliveries()].concat()
}

fn of_workspaces() -> Vec<Planted> {
    use DifferenceCode::{Count, Mismatch, Missing, NotDue, Sealed, UnknownRole};

    vec![
        ("org", "/id", other(), Mismatch, "org"),
        ("org", "/slug", json!("elsewhere"), Missing, "org_slug"),
        ("org_slug", "", other(), Missing, "org"),
        ("workspace", "/id", other(), Mismatch, "workspace"),
        (
            "workspace",
            "/slug",
            json!("elsewhere"),
            Missing,
            "workspace_slug",
        ),
        ("workspace_slug", "", other(), Missing, "workspace"),
        ("member", "/id", other(), Mismatch, "member"),
        (
            "member",
            "/handle",
            json!("elsewhere"),
            Missing,
            "member_handle",
        ),
        ("member", "/role", other(), UnknownRole, "member"),
        ("member_handle", "", other(), Missing, "member"),
        ("workspace_role", "", other(), UnknownRole, "workspace_role"),
        ("role", "/id", other(), Mismatch, "role"),
        ("role", "/org_id", other(), Mismatch, "role"),
        ("role", "/slug", json!("elsewhere"), Missing, "role_slug"),
        ("role", "/workspace_id", other(), Missing, "workspace"),
        ("role_slug", "", other(), Missing, "role"),
        ("role_redirect", "", other(), UnknownRole, "role_redirect"),
        ("credential", "/id", other(), Missing, "credential_id"),
        ("credential", "/member_id", other(), Missing, "member"),
        ("credential", "/expires_at", later(), NotDue, "credential"),
        (
            "credential_id",
            "",
            json!("ab".repeat(32)),
            Missing,
            "credential",
        ),
        ("source", "/id", other(), Mismatch, "source"),
        ("memory", "/workspace_id", other(), Missing, "workspace"),
        ("memory", "/workspace_id", other(), Mismatch, "memory"),
        ("memory", "/source_id", other(), Missing, "source"),
        (
            "memory",
            "/review",
            json!("pending"),
            Count,
            "pending_count",
        ),
        (
            "memory",
            "/review",
            json!("pending"),
            Count,
            "approved_label_count",
        ),
        (
            "memory",
            "/audience",
            json!("team:elsewhere"),
            Count,
            "label_count",
        ),
        (
            "member",
            "/teams",
            json!(["elsewhere"]),
            Count,
            "team_member_count",
        ),
        (
            "content",
            "/source_key",
            json!("another name"),
            Mismatch,
            "content",
        ),
        ("content", "/origin_source_id", other(), Missing, "source"),
        ("content", "/origin_source_id", other(), Mismatch, "content"),
        ("content", "/origin_source_id", other(), Missing, "source"),
        ("source_key", "", other(), Missing, "content"),
        ("recall", "/id", other(), Mismatch, "recall"),
        ("recall", "/workspace_id", other(), Missing, "workspace"),
        ("recall", "/memory_ids/0", other(), Missing, "cited_by"),
        ("connector", "/workspace_id", other(), Mismatch, "connector"),
        ("connector", "/id", other(), Mismatch, "connector"),
        (
            "connector_state",
            "/look_at",
            later(),
            NotDue,
            "connector_state",
        ),
        ("mcp_key", "/id", other(), Mismatch, "mcp_key"),
        ("mcp_key", "/expires_at", later(), NotDue, "mcp_key"),
        ("chat", "/workspace_id", other(), Mismatch, "chat"),
        ("chat", "/last_message_at", later(), Missing, "chat_recent"),
        (
            "chat_message",
            "/chat_id",
            other(),
            Mismatch,
            "chat_message",
        ),
        ("chat_recent", "/last_message_at", later(), Mismatch, "chat"),
        ("chat_recent", "/participants/0", other(), Mismatch, "chat"),
        ("subscription_id", "", other(), Missing, "subscription"),
        (
            "subscription",
            "/record/recall_id",
            other(),
            Mismatch,
            "subscription",
        ),
        (
            "subscription",
            "/secret",
            json!("AAAA"),
            Sealed,
            "subscription",
        ),
        (
            "webhook",
            "/record/workspace_id",
            other(),
            Mismatch,
            "webhook",
        ),
        ("webhook", "/secret", json!("AAAA"), Sealed, "webhook"),
        (
            "inbound_webhook",
            "/record/id",
            other(),
            Mismatch,
            "inbound_webhook",
        ),
        (
            "inbound_webhook",
            "/secret",
            json!("AAAA"),
            Sealed,
            "inbound_webhook",
        ),
        (
            "meta",
            "/sealing_key",
            json!("0123456789abcdef"),
            Sealed,
            "meta",
        ),
        (
            "meta",
            "/schema",
            json!(u32::MAX),
            DifferenceCode::Unfinished,
            "meta",
        ),
        (
            "meta",
            "/schema",
            json!(u32::MAX - 1),
            DifferenceCode::Unreadable,
            "meta",
        ),
        ("idempotency", "/first_audit_id", other(), Missing, "audit"),
        ("idempotency", "/items", json!(161), Missing, "audit"),
        ("idempotency", "/operation_id", other(), Mismatch, "audit"),
        ("idempotency", "/expires_at", later(), NotDue, "idempotency"),
        (
            "due",
            "",
            json!({"expire": {"records": [""], "counter": null}}),
            DifferenceCode::Unreadable,
            "due",
        ),
        (
            "former_member",
            "",
            json!(1),
            DifferenceCode::Unreadable,
            "former_member",
        ),
    ]
}

fn of_deliveries() -> Vec<Planted> {
    use DifferenceCode::{Count, Mismatch, Missing, NotDue};

    vec![
        ("outbox", "/id", other(), Mismatch, "outbox"),
        ("outbox", "/org_id", other(), Mismatch, "outbox"),
        ("outbox", "/workspace_id", other(), Missing, "workspace"),
        (
            "outbox",
            "/endpoints",
            json!(99),
            Count,
            "endpoint_sequence",
        ),
        ("event", "/event/id", other(), Mismatch, "event"),
        ("event", "/event/org_id", other(), Mismatch, "event"),
        (
            "event",
            "/event/workspace_id",
            other(),
            Missing,
            "workspace",
        ),
        (
            "event",
            "/event/endpoints",
            json!(99),
            Count,
            "endpoint_sequence",
        ),
        ("event", "/endpoints", json!([]), Mismatch, "event"),
        ("event", "/kept_until", later(), NotDue, "event"),
        ("host_pings", "/expires_at", later(), NotDue, "host_pings"),
        (
            "url_confirmation",
            "/expires_at",
            later(),
            NotDue,
            "url_confirmation",
        ),
        (
            "endpoint",
            "/parent",
            json!({"webhook": other()}),
            Missing,
            "webhook",
        ),
        (
            "endpoint",
            "/parent",
            json!({"webhook": other()}),
            Mismatch,
            "endpoint",
        ),
        ("endpoint", "/due", later(), Missing, "endpoint_due"),
        ("endpoint", "/due", json!(null), Mismatch, "endpoint"),
        (
            "endpoint",
            "/sequence",
            json!(99),
            Count,
            "endpoint_sequence",
        ),
        (
            "endpoint_sequence",
            "",
            json!(1),
            Count,
            "endpoint_sequence",
        ),
        (
            "delivery",
            "/delivery/event_id",
            other(),
            Mismatch,
            "delivery",
        ),
        ("delivery", "/delivery/id", other(), Mismatch, "delivery"),
        (
            "delivery",
            "/delivery/status",
            json!("dead"),
            Mismatch,
            "delivery",
        ),
        (
            "delivery",
            "/delivery/status",
            json!("delivered"),
            Mismatch,
            "delivery",
        ),
        (
            "delivery",
            "/delivery/next_attempt_at",
            json!(null),
            Mismatch,
            "delivery",
        ),
        ("delivery", "/due", later(), Mismatch, "delivery"),
        ("delivery_id", "/event", other(), Mismatch, "delivery_id"),
        ("delivery_id", "/endpoint", other(), Mismatch, "delivery_id"),
        ("undelivered", "", other(), Missing, "delivery"),
        (
            "undelivered_count",
            "",
            json!(99),
            Count,
            "undelivered_count",
        ),
        (
            "disabled_endpoint_count",
            "",
            json!(0),
            Count,
            "disabled_endpoint_count",
        ),
        (
            "webhook",
            "/record/disabled_reason",
            json!("failing"),
            Mismatch,
            "webhook",
        ),
        (
            "webhook",
            "/disabled",
            json!("failing"),
            Mismatch,
            "webhook",
        ),
    ]
}
