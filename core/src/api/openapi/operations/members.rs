//! Members and their roles.

use schemars::JsonSchema;
use serde_json::json;

use crate::access::RoleRef;
use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::error::Error;
use crate::model::Member;
use crate::service::{MemberDetails, MemberUpdate, NewMember};

const HANDLE_TAKEN: Error = Error::SlugTaken { what: "member" };

/// Assignment of a role in a workspace.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only used as a schema")]
struct AssignWorkspaceRoleRequest {
    /// Role to assign; not `owner`.
    #[schemars(with = "crate::schema::WorkspaceRole")]
    role: RoleRef,
}

/// Parameters of the operations on one member, from the response to its creation.
const ADDED: &[(&str, &str)] = &[
    ("orgSlug", "$request.path.orgSlug"),
    ("memberId", "$response.body#/data/id"),
];

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(Operation::ListMembers, "In order of addition.")
        .needs("list_members")
        .answers_page::<Member>();
    all.describe(
        Operation::AddMember,
        "Adding a member issues no token and no session. A caller cannot grant more than it holds: neither a role with other \
         permissions nor, without all permissions, a team that it is not in. Only owners can add owners.",
    )
    .needs("add_member")
    .body::<NewMember>()
    .example(json!({ "handle": "ada", "name": "Ada", "role": "member", "teams": ["platform"] }))
    .answers_data::<MemberDetails>()
    .etag()
    .refuses(&HANDLE_TAKEN)
    .leads_to(Operation::GetMember, ADDED)
    .leads_to(Operation::UpdateMember, ADDED)
    .leads_to(Operation::RemoveMember, ADDED);
    all.describe(Operation::GetMember, "")
        .needs("member")
        .answers_data::<MemberDetails>()
        .etag();
    all.describe(
        Operation::UpdateMember,
        "Omitted fields are unchanged. Only owners can change owners, and one owner always remains.",
    )
    .needs("update_member")
    .if_match()
    .optional_body::<MemberUpdate>()
    .example(json!({ "role": "admin" }))
    .answers_data::<MemberDetails>()
    .etag();
    all.describe(
        Operation::RemoveMember,
        "Its tokens, sessions and MCP keys stop working immediately. Only owners can remove owners, and one owner always \
         remains.",
    )
    .needs("remove_member");
    all.describe(
        Operation::AssignWorkspaceRole,
        "It replaces the role in the organisation there. Only owners can restrict owners.",
    )
    .needs("assign_role")
    .body::<AssignWorkspaceRoleRequest>()
    .example(json!({ "role": "viewer" }));
    all.describe(
        Operation::EndWorkspaceRole,
        "The role in the organisation applies there again.",
    )
    .needs("end_workspace_role");
}
