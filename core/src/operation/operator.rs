//! Table of the operator's operations, in which each operation is declared once.

use http::Method;

use super::{column_errors, declare, error_docs, statuses};

/// Passes the rows of the table to a macro, after tokens of its caller in brackets.
///
/// The rows are those of `operations!` without the columns in braces, in which all would be the
/// same: nothing is authenticated, errors have bodies, and every action is permitted.
macro_rules! operator_operations {
    ($then:ident $($context:tt)*) => { $then! { [$($context)*]
    "Organisations" () {
        /// Lists the organisations.
        ///
        /// In order of creation.
        ListOrganizations: GET "/admin/v1/orgs", 200, [400],
            list_organizations(page: PageRequest) -> Page<Organization>;
        /// Creates an organisation with its owner as the first member.
        CreateOrganization: POST "/admin/v1/orgs", 201, [400, 409 "slug_taken"],
            create_organization(body: NewOrganization) -> CreatedOrganization;
        /// Reads an organisation.
        GetOrganization: GET "/admin/v1/orgs/{org}", 200, [404],
            get_organization(org: OrgSlug) -> Organization;
        /// Removes an organisation with everything in it.
        ///
        /// Its credentials and webhooks stop working immediately, and its slug is free. Maintenance
        /// deletes its data, the audit log included.
        DeleteOrganization: DELETE "/admin/v1/orgs/{org}", 204, [404, 409],
            delete_organization(org: OrgSlug) -> Nothing;
    }
    "Workspaces" () {
        /// Lists the workspaces of an organisation.
        ///
        /// In order of creation.
        ListWorkspaces: GET "/admin/v1/orgs/{org}/workspaces", 200, [400, 404],
            list_workspaces(org: OrgSlug, page: PageRequest) -> Page<Workspace>;
        /// Creates a workspace.
        CreateWorkspace: POST "/admin/v1/orgs/{org}/workspaces", 201, [400, 404, 409 "slug_taken"],
            create_workspace(org: OrgSlug, body: NewWorkspace) -> Workspace;
        /// Reads a workspace.
        GetWorkspace: GET "/admin/v1/orgs/{org}/workspaces/{workspace}", 200, [404],
            get_workspace(org: OrgSlug, workspace: WorkspaceName) -> Workspace;
        /// Removes a workspace with everything in it.
        ///
        /// Nobody can use it any more immediately. Maintenance deletes its data; until then
        /// `removing` of the organisation names it, and at most 100 workspaces. Its slug stays taken.
        DeleteWorkspace: DELETE "/admin/v1/orgs/{org}/workspaces/{workspace}", 204, [404, 409],
            delete_workspace(org: OrgSlug, workspace: WorkspaceName) -> Nothing;
        /// Opens a workspace to every member of the organisation, or makes it private.
        SetWorkspaceAccess: PUT "/admin/v1/orgs/{org}/workspaces/{workspace}/access",
            200, [400, 404, 409],
            set_workspace_access(
                org: OrgSlug, workspace: WorkspaceName, body: NewWorkspaceAccess
            ) -> Workspace;
        /// Reads the retention of a workspace.
        GetRetention: GET "/admin/v1/orgs/{org}/workspaces/{workspace}/retention", 200, [404],
            get_retention(org: OrgSlug, workspace: WorkspaceName) -> Retention;
        /// Sets the retention of a workspace, at once for everything that it has.
        ///
        /// Chats, and memories with a label, that the body gives no days are kept. Recalls without
        /// a subscription are erased after 30 days unless it says otherwise.
        SetRetention: PUT "/admin/v1/orgs/{org}/workspaces/{workspace}/retention",
            200, [400, 404, 409],
            set_retention(
                org: OrgSlug, workspace: WorkspaceName, body: NewRetention
            ) -> Retention;
    }
    "Members" () {
        /// Lists the members of an organisation.
        ///
        /// In order of creation.
        ListMembers: GET "/admin/v1/orgs/{org}/members", 200, [400, 404],
            list_members(org: OrgSlug, page: PageRequest) -> Page<MemberView>;
        /// Adds a member to an organisation.
        CreateMember: POST "/admin/v1/orgs/{org}/members", 201,
            [400, 403 "quota_exceeded", 404, 409 "slug_taken"],
            create_member(org: OrgSlug, body: NewProvisionedMember) -> MemberView;
        /// Reads a member.
        GetMember: GET "/admin/v1/orgs/{org}/members/{member}", 200, [404],
            get_member(org: OrgSlug, member: MemberName) -> MemberView;
        /// Removes a member.
        ///
        /// Its credentials are invalid immediately. The last owner cannot be removed.
        RemoveMember: DELETE "/admin/v1/orgs/{org}/members/{member}", 204, [400, 404, 409],
            remove_member(org: OrgSlug, member: MemberName) -> Nothing;
        /// Assigns a role in the organisation, or in the given `workspace`.
        AssignRole: PUT "/admin/v1/orgs/{org}/members/{member}/role", 200, [400, 404, 409],
            assign_role(org: OrgSlug, member: MemberName, body: RoleAssignment) -> MemberView;
        /// Removes the role of a member in a workspace.
        EndWorkspaceRole: DELETE "/admin/v1/orgs/{org}/members/{member}/role", 200, [400, 404, 409],
            end_workspace_role(
                org: OrgSlug, member: MemberName, ended: EndedRole
            ) -> MemberView;
    }
    "Credentials" () {
        /// Lists the tokens and sessions of an organisation.
        ///
        /// In order of creation. Expired ones may be included until they are purged.
        ListCredentials: GET "/admin/v1/orgs/{org}/credentials", 200, [400, 404],
            list_credentials(
                org: OrgSlug, filter: KindFilter, page: PageRequest
            ) -> Page<CredentialView>;
        /// Issues a token, a session or a login link.
        ///
        /// `secret` is returned only in this response.
        IssueCredential: POST "/admin/v1/orgs/{org}/credentials", 201, [400, 404, 409],
            issue_credential(org: OrgSlug, body: NewCredential) -> IssuedCredential;
        /// Lists what a token or a session created or last took over.
        ///
        /// API tokens, MCP keys, webhooks, inbound webhooks and citation subscriptions, in no
        /// particular order.
        /// A session has those that were created with its access tokens.
        ListCreatedWith: GET "/admin/v1/orgs/{org}/credentials/{credential}/created",
            200, [400, 404],
            list_created_with(
                org: OrgSlug, credential: CredentialId, page: PageRequest
            ) -> Page<CreatedResource>;
        /// Revokes a token or a session.
        ///
        /// What a scoped token created ends with it; everything else that was created with it
        /// remains, unless `with_created` is `true`. Revoking it again changes nothing else.
        RevokeCredential: DELETE "/admin/v1/orgs/{org}/credentials/{credential}",
            200, [400, 404, 409],
            revoke_credential(
                org: OrgSlug, credential: CredentialId, only: KindFilter, also: WithCreated
            ) -> CredentialView;
    }
    "Memories" () {
        /// Lists the sources of an organisation.
        ///
        /// In order of creation.
        ListSources: GET "/admin/v1/orgs/{org}/sources", 200, [400, 404],
            list_sources(org: OrgSlug, page: PageRequest) -> Page<Source>;
        /// Creates a source on behalf of a member.
        ///
        /// The member must have `connector:manage` in the organisation.
        CreateSource: POST "/admin/v1/orgs/{org}/members/{member}/sources",
            201, [400, 403 "forbidden" "quota_exceeded", 404, 409, 429 "quota_exceeded"],
            create_source(org: OrgSlug, member: MemberName, body: NewSource) -> Source;
        /// Ingests a batch of memories on behalf of a member.
        ///
        /// A batch is ingested completely or not at all. A known `source_key` updates that memory.
        /// The memory of a key that was erased is not stored, unless `revive` is `true`. The member
        /// must be permitted to ingest the batch through the public interface.
        IngestMemories:
            POST "/admin/v1/orgs/{org}/members/{member}/workspaces/{workspace}/ingest",
            200, [400, 403 "forbidden" "quota_exceeded", 404, 409, 429 "quota_exceeded"],
            ingest_memories(
                org: OrgSlug, member: MemberName, workspace: WorkspaceName, body: IngestBatch
            ) -> IngestResult;
        /// Summarises a workspace as its dashboard shows it to a member.
        ///
        /// The member must have `dashboard:read` there.
        GetDashboardSummary:
            GET "/admin/v1/orgs/{org}/members/{member}/workspaces/{workspace}/dashboard-summary",
            200, [403 "forbidden", 404],
            get_dashboard_summary(
                org: OrgSlug, member: MemberName, workspace: WorkspaceName
            ) -> DashboardSummary;
    }
    "Deliveries" () {
        /// Lists the outbound webhooks and citation subscriptions of an organisation.
        ///
        /// In order of creation.
        ListEndpoints: GET "/admin/v1/orgs/{org}/endpoints", 200, [400, 404],
            list_endpoints(
                org: OrgSlug, filter: WorkspaceFilter, page: PageRequest
            ) -> Page<EndpointSummary>;
        /// Reads an outbound webhook or citation subscription.
        GetEndpoint: GET "/admin/v1/orgs/{org}/endpoints/{endpoint}", 200, [404],
            get_endpoint(org: OrgSlug, endpoint: EndpointId) -> EndpointSummary;
        /// Lists the deliveries to an endpoint, newest event first.
        ListDeliveries: GET "/admin/v1/orgs/{org}/endpoints/{endpoint}/deliveries", 200, [400, 404],
            list_deliveries(
                org: OrgSlug, endpoint: EndpointId, filter: StatusFilter, page: PageRequest
            ) -> Page<Delivery>;
        /// Reads a delivery to an endpoint with its attempts.
        GetDelivery: GET "/admin/v1/orgs/{org}/endpoints/{endpoint}/deliveries/{delivery}",
            200, [404],
            get_delivery(org: OrgSlug, endpoint: EndpointId, delivery: DeliveryId) -> Delivery;
        /// Redelivers an event to an endpoint.
        Redeliver: POST "/admin/v1/orgs/{org}/endpoints/{endpoint}/deliveries/{delivery}/redeliver",
            202, [400, 404, 409 "endpoint_off"],
            redeliver(
                org: OrgSlug, endpoint: EndpointId, delivery: DeliveryId; Empty
            ) -> Delivery;
        /// Redelivers the dead letters of an endpoint.
        ///
        /// If `has_more` is true, call again: more remain than one call processes.
        RedeliverDead: POST "/admin/v1/orgs/{org}/endpoints/{endpoint}/deliveries/redeliver-dead",
            202, [400, 404, 409 "endpoint_off"],
            redeliver_dead(org: OrgSlug, endpoint: EndpointId; Empty) -> RedeliveryReport;
        /// Sends a test event to an endpoint.
        Ping: POST "/admin/v1/orgs/{org}/endpoints/{endpoint}/ping",
            202, [400, 404, 409 "endpoint_off"],
            ping(org: OrgSlug, endpoint: EndpointId; Empty) -> Delivery;
    }
    } };
}

pub(crate) use operator_operations;

/// One operation of the operator's interface.
#[derive(Clone, Debug)]
pub struct OperatorSpec {
    /// Identifier of the operation.
    pub operation: OperatorOperation,
    /// Summary in one sentence.
    pub summary: &'static str,
    /// Capability that the operation belongs to.
    pub capability: &'static str,
    /// HTTP method.
    pub method: Method,
    /// Path template, parameters in braces.
    pub path: &'static str,
    /// Status of a successful response.
    pub success: u16,
    /// Statuses of its error responses, besides [`OPERATOR_ERROR_STATUSES`].
    pub error_statuses: &'static [u16],
}

/// Statuses of error responses that every operation of the operator's interface has.
pub const OPERATOR_ERROR_STATUSES: &[u16] = &[413, 415, 500, 503];

/// Completes a row of the operator's interface, which has no columns and no defaults.
macro_rules! operator_row {
    (() {} $($common:tt)*) => { OperatorSpec { $($common)* } };
}

/// Lists no permissions, because the operator needs none.
macro_rules! no_permissions {
    ({}) => {
        ""
    };
}

operator_operations!(
    declare "operator's" OperatorOperation OperatorSpec OPERATOR_OPERATIONS, operator_row,
    no_permissions
);
