//! Custom roles.

use serde_json::json;

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::error::Error;
use crate::model::{CustomRole, CustomRoleUpdate, NewCustomRole};
use crate::service::DeleteRole;

const SLUG_TAKEN: Error = Error::SlugTaken { what: "role" };
const ROLE_IN_USE: Error = Error::RoleInUse { holder_count: 1 };

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::DeleteCustomRole,
        "`reassign_to` names the new role of its holders: `viewer`, `member` or an active organisation-wide custom role. It \
         is required if the role has holders.",
    )
    .needs("delete_custom_role")
    .optional_body::<DeleteRole>()
    .example(json!({ "reassign_to": "viewer" }))
    .refuses(&ROLE_IN_USE);
    all.describe(
        Operation::UpdateCustomRole,
        "Omitted fields are unchanged. A caller cannot grant permissions that it does not hold.",
    )
    .needs("update_custom_role")
    .if_match()
    .optional_body::<CustomRoleUpdate>()
    .example(json!({
        "description": "Reviews new memories.",
        "actions": { "allow": ["memory:review"], "deny": ["chat:write"] },
    }))
    .answers_data::<CustomRole>()
    .etag()
    .refuses(&SLUG_TAKEN);
    all.describe(
        Operation::CreateCustomRole,
        "A caller cannot grant permissions that it does not hold.",
    )
    .needs("create_custom_role")
    .body::<NewCustomRole>()
    .answers_data::<CustomRole>()
    .etag()
    .refuses(&SLUG_TAKEN)
    .leads_to(
        Operation::GetCustomRole,
        &[
            ("orgSlug", "$request.path.orgSlug"),
            ("roleId", "$response.body#/data/id"),
        ],
    );
    all.describe(Operation::GetCustomRole, "")
        .needs("custom_role")
        .answers_data::<CustomRole>()
        .etag();
    all.describe(
        Operation::ListCustomRoles,
        "All of them on one page, sorted by name, then by identifier.",
    )
    .needs("list_custom_roles")
    .answers_data::<Vec<CustomRole>>();
}
