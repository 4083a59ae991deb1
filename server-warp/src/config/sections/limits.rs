//! `[limits]`: limits of the service.

use knowledge_core::limits::{BULK_MEMORIES_CEILING, CONTENT_BYTES_MAX, NAME_CHARS_MAX};
use knowledge_core::model::URL_CHARS_MAX;

use super::{COUNT_MAX, HELD_BYTES_MAX, RETENTION_MAX, TIME_MIN};
use crate::config::kind::{Bytes, Count, Time, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config, format_time};

pub(super) static SECTION: Section = Section {
    name: "limits",
    about: "Limits of the service",
    settings: &[
        Setting::new(
            "limits.bulk_memories_max",
            &Count {
                at: field!(limits.bulk_memories_max),
                unit: "memories",
                min: 1,
                max: BULK_MEMORIES_CEILING as u64,
            },
            "Memories of one bulk update",
        ),
        Setting::new(
            "limits.content_bytes_max",
            &Bytes {
                at: field!(limits.content_bytes_max),
                min: 1,
                max: CONTENT_BYTES_MAX as u64,
            },
            "The content of a memory",
        ),
        Setting::new(
            "limits.body_bytes_max",
            &Bytes {
                at: field!(limits.body_bytes_max),
                min: 1,
                max: HELD_BYTES_MAX,
            },
            "The body of a request; a longer one is rejected with 413",
        ),
        Setting::new(
            "limits.name_chars_max",
            &Count {
                at: field!(limits.name_chars_max),
                unit: "characters",
                min: 1,
                max: NAME_CHARS_MAX as u64,
            },
            "A name or a title",
        ),
        Setting::new(
            "limits.url_chars_max",
            &Count {
                at: field!(limits.url_chars_max),
                unit: "characters",
                min: 1,
                max: URL_CHARS_MAX as u64,
            },
            "The address of a webhook or a citation subscription",
        ),
        Setting::new(
            "limits.webhooks_per_workspace_max",
            &Count {
                at: field!(limits.webhooks_per_workspace_max),
                unit: "webhooks",
                min: 0,
                max: COUNT_MAX,
            },
            "Outbound webhooks of a workspace",
        ),
        Setting::new(
            "limits.inbound_webhooks_per_workspace_max",
            &Count {
                at: field!(limits.inbound_webhooks_per_workspace_max),
                unit: "webhooks",
                min: 0,
                max: COUNT_MAX,
            },
            "Inbound webhooks of a workspace",
        ),
        Setting::new(
            "limits.connectors_per_workspace_max",
            &Count {
                at: field!(limits.connectors_per_workspace_max),
                unit: "connectors",
                min: 0,
                max: COUNT_MAX,
            },
            "Connectors of a workspace; the dashboard shows all of them",
        ),
        Setting::new(
            "limits.mcp_keys_per_workspace_max",
            &Count {
                at: field!(limits.mcp_keys_per_workspace_max),
                unit: "keys",
                min: 0,
                max: COUNT_MAX,
            },
            "MCP keys of a workspace; the dashboard shows all of them",
        ),
        Setting::new(
            "limits.custom_roles_per_org_max",
            &Count {
                at: field!(limits.custom_roles_per_org_max),
                unit: "roles",
                min: 0,
                max: COUNT_MAX,
            },
            "Custom roles of an organisation",
        ),
        Setting::new(
            "limits.subscriptions_per_recall_max",
            &Count {
                at: field!(limits.subscriptions_per_recall_max),
                unit: "subscriptions",
                min: 0,
                max: COUNT_MAX,
            },
            "Citation subscriptions of a recall",
        ),
        Setting::new(
            "limits.idempotency_retention",
            &Time {
                at: field!(limits.idempotency_retention),
                min: TIME_MIN,
                max: RETENTION_MAX,
            },
            "Time for which the result of a bulk update is kept for replays under its \
             Idempotency-Key",
        ),
        Setting::new(
            "limits.audit_retention",
            &Time {
                at: field!(limits.audit_retention),
                min: TIME_MIN,
                max: RETENTION_MAX,
            },
            "Time for which an entry of the audit log is kept; at least \
             limits.idempotency_retention",
        ),
    ],
    check,
    inspect: nothing,
};

fn check(config: &Config, check: &mut Check<'_>) {
    let limits = &config.limits;
    if limits.audit_retention < limits.idempotency_retention {
        let least = format_time(limits.idempotency_retention);
        check.reject(
            "limits.audit_retention",
            &["limits.idempotency_retention"],
            &format!("must be at least limits.idempotency_retention, {least}"),
        );
    } else if let Err(invalid) = limits.validate() {
        // Unreachable as long as the ranges above are those of core.
        check.reject("limits", &[], &invalid.to_string());
    }
}
