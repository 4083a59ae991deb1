//! `PATCH /v1/orgs/{orgSlug}/custom-roles/{roleId}`, rejected

use serde_json::json;

use super::update::update;
use crate::support::{assert_rejections, own_org};

suite![
    role_update_rejects_invalid_request,
    role_fields_are_bounded,
    action_must_not_be_in_both_lists,
    null_is_rejected,
    role_update_rejects_unauthenticated_caller,
    role_update_requires_permission,
    member_cannot_grant_actions_beyond_their_own,
    role_update_requires_known_role,
    role_slug_must_be_unique,
];

async fn role_update_rejects_invalid_request() {
    assert_rejections! { r#"
        admin PATCH /v1/orgs/<slug>/custom-roles/<unheld> {"name": " ", "slug": "Not a slug", "description": 7, "base_role": "admin", "is_active": "yes", "actions": {"allow": ["memory:read", "memory:own"], "deny": "memory:read", "keep": []}, "workspace_id": null}
          too_small: name must have 1 to 128 characters, not only white space, and no control characters
          invalid_value: slug must have 1 to 64 characters of a-z 0-9 - _ .
          invalid_type: description must be a string, not a number
          invalid_value: base_role must be one of viewer, member
          invalid_type: is_active must be true or false, not a string
          invalid_value: actions.allow[1] must be one of memory:read, memory:read_confidential, memory:read_restricted, memory:create, memory:propose, memory:update, memory:share, memory:declassify, memory:review, memory:delete, dashboard:read, connector:report, connector:manage, mcp_key:manage, chat:write, recall:create, citation_subscription:manage, webhook:manage, inbound_webhook:manage, role:read, role:manage, member:manage, member:act_for, token:manage, audit:read, erasure:manage
          invalid_type: actions.deny must be a list of action names, not a string
          unknown_field: actions.keep is unknown; known fields: allow, deny
          unknown_field: workspace_id is unknown; known fields: name, slug, description, base_role, is_active, actions, act_for_teams
    "# }
}

async fn role_fields_are_bounded() {
    assert_rejections! { r#"
        admin PATCH /v1/orgs/<slug>/custom-roles/<unheld> {"name": "<129 x>"}
          too_large: name must have 1 to 128 characters, not only white space, and no control characters
        admin PATCH /v1/orgs/<slug>/custom-roles/<unheld> {"name": "tab\there"}
          invalid_value: name must not contain the control character U+0009
        admin PATCH /v1/orgs/<slug>/custom-roles/<unheld> {"name": "a\u202eb"}
          invalid_value: name must not contain the control character U+202E
        admin PATCH /v1/orgs/<slug>/custom-roles/<unheld> {"slug": ""}
        admin PATCH /v1/orgs/<slug>/custom-roles/<unheld> {"slug": "<65 x>"}
          invalid_value: slug must have 1 to 64 characters of a-z 0-9 - _ .
        admin PATCH /v1/orgs/<slug>/custom-roles/<unheld> {"description": "<1025 x>"}
          too_large: description must have at most 1024 characters
    "# }
}

async fn action_must_not_be_in_both_lists() {
    assert_rejections! { r#"
        admin PATCH /v1/orgs/<slug>/custom-roles/<unheld> {"actions": {"allow": ["memory:read"], "deny": ["memory:read"]}}
          duplicate: actions must not have memory:read in both lists
    "# }
    let twice = json!({ "actions": { "allow": ["memory:read", "memory:read"] } });
    let answer = update(own_org(), &twice).await;
    assert_eq!(answer.status, 200, "a list of actions is a set");
}

async fn null_is_rejected() {
    assert_rejections! { r#"
        admin PATCH /v1/orgs/<slug>/custom-roles/<unheld> {"name": null, "slug": null, "description": null, "base_role": null, "is_active": null, "actions": null}
          invalid_type: name must be a string, not null
          invalid_type: slug must be a string, not null
          invalid_type: description must be a string, not null
          invalid_type: base_role must be a string, not null
          invalid_type: is_active must be true or false, not null
          invalid_type: actions must be an object, not null
    "# }
}

async fn role_update_rejects_unauthenticated_caller() {
    assert_rejections! { r#"
        nobody PATCH /v1/orgs/<slug>/custom-roles/<unheld> {}
          401 unauthenticated: a session is required; send Cookie: service_session=wks_... [www-authenticate: Cookie realm="knowledge", cookie-name="service_session"]
    "# }
}

async fn role_update_requires_permission() {
    assert_rejections! { r#"
        member PATCH /v1/orgs/<slug>/custom-roles/<unheld> {"name": "Mine"}
          403 forbidden: missing permission role:manage {"permission":"role:manage"}
    "# }
}

async fn member_cannot_grant_actions_beyond_their_own() {
    // A role that exceeds the caller cannot be changed in any other way either. The removed actions
    // matter too, and so do those of an inactive role.
    assert_rejections! { r#"
        keeper PATCH /v1/orgs/<slug>/custom-roles/<guest_role> {"actions": {"allow": ["memory:delete"]}}
        keeper PATCH /v1/orgs/<slug>/custom-roles/<inactive> {"actions": {"allow": ["memory:delete"]}}
          403 forbidden: cannot grant, change or take away an action that the caller does not hold wherever it would count: memory:delete {"permission":null}
        keeper PATCH /v1/orgs/<slug>/custom-roles/<unheld> {"name": "Mine"}
        keeper PATCH /v1/orgs/<slug>/custom-roles/<unheld> {"actions": {"allow": []}}
          403 forbidden: cannot grant, change or take away an action that the caller does not hold wherever it would count: audit:read {"permission":null}
        keeper PATCH /v1/orgs/<slug>/custom-roles/<keeper_role> {"name": "Mine"}
          403 forbidden: only owners can change their own role {"permission":null}
    "# }
}

async fn role_update_requires_known_role() {
    assert_rejections! { r#"
        admin PATCH /v1/orgs/<slug>/custom-roles/<max> {}
        admin PATCH /v1/orgs/<slug>/custom-roles/unheld {}
        admin PATCH /v1/orgs/<slug>/custom-roles/0 {}
        admin PATCH /v1/orgs/<slug>/custom-roles/<nil> {}
          404 not_found: there is no such custom role {"kind":"role"}
        admin PATCH /v1/orgs/nobody/custom-roles/<unheld> {}
          404 not_found: there is no such organisation {"kind":"organization"}
    "# }
}

async fn role_slug_must_be_unique() {
    assert_rejections! { r#"
        admin PATCH /v1/orgs/<slug>/custom-roles/<unheld> {"slug": "keeper"}
          409 slug_taken: the slug is used by another custom role; choose another
    "# }
}
