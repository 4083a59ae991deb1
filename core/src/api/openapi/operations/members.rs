//! Members and the roles that they hold.

use schemars::JsonSchema;
use serde_json::json;

use crate::access::RoleRef;
use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::error::Error;
use crate::model::Member;
use crate::service::{MemberDetails, MemberUpdate, NewMember};

const HANDLE_TAKEN: Error = Error::SlugTaken { what: "member" };

/// Which role a member gets in a workspace.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "nothing but its schema")]
struct AssignWorkspaceRoleRequest {
    /// The role; not `owner`.
    #[schemars(with = "crate::schema::WorkspaceRole")]
    role: RoleRef,
}

/// The parameters of the operations on one member, from the answer to its creation.
const ADDED: &[(&str, &str)] = &[
    ("orgSlug", "$request.path.orgSlug"),
    ("memberId", "$response.body#/data/id"),
];

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::ListMembers,
        "In the order in which they were added.",
    )
    .needs("list_members")
    .answers_page::<Member>();
    all.describe(
        Operation::AddMember,
        "The member gets no token and no session by that. Nobody grants what they do not hold: a role that may do more \
         than the caller, or a team that the caller is not in (who may do everything gives any team). Owners are made by \
         owners alone.",
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
        "What is left out stays as it is. Owners are changed by owners alone, and the last one stays.",
    )
    .needs("update_member")
    .if_match()
    .optional_body::<MemberUpdate>()
    .example(json!({ "role": "admin" }))
    .answers_data::<MemberDetails>()
    .etag();
    all.describe(
        Operation::RemoveMember,
        "From that moment on none of its tokens, sessions and MCP keys is taken. Owners are removed by owners alone, and \
         the last one stays.",
    )
    .needs("remove_member");
    all.describe(
        Operation::AssignWorkspaceRole,
        "There it replaces the role in the organisation. Owners are restricted by owners alone.",
    )
    .needs("assign_role")
    .body::<AssignWorkspaceRoleRequest>()
    .example(json!({ "role": "viewer" }));
    all.describe(
        Operation::EndWorkspaceRole,
        "The role in the organisation counts there again.",
    )
    .needs("end_workspace_role");
}
