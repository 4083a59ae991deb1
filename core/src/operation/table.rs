//! Table of operations, in which each operation is declared once.

/// Passes the rows of the table to a macro.
///
/// A capability holds rows of
///
/// ```text
/// /// Summary.
/// ///
/// /// Further documentation.
/// Name: METHOD "path", authentication, error style, origin, success, [error statuses],
///     requires [scope action "condition"], audits [actions], reads number replays operation,
///     function(argument: Input, …; Input) -> Output, by handler, example {…}, links […];
/// ```
///
/// - An error status may have the code of an error that only some operations have.
/// - `function` is a function of the service, or with `by handler` one of the module `handlers`.
///   Its arguments follow the credential; an input after `;` is checked and not passed. Each
///   parameter of the path is an argument.
/// - `reads` is the greatest number of store reads of a call, see [`OperationSpec::reads`].
/// - `replays` names an operation that creates something also without an idempotency key, see
///   [`OperationSpec::replay`].
/// - `example` is the body of the example request, in place of the one derived from its schema.
/// - `links` names operations that the response leads to. The last parameter of their paths is the
///   identifier in the response, the others are those of the request; a link that differs lists its
///   parameters.
macro_rules! operations {
    ($then:ident) => { $then! {
    "Memories" {
        /// Changes attributes of many memories.
        ///
        /// At least one attribute has to be set. The status is `200` whenever the request was
        /// processed: a memory that cannot be changed does not fail the others, its item has an
        /// `error` instead of the `memory`. Within 24 hours the same `Idempotency-Key` with the
        /// same body returns the stored result; with a different body it is rejected.
        BulkUpdateMemories: PATCH "/v1/memories/bulk",
            Bearer, Body, Specified, 200, [400, 409, 422],
            requires [
                EachMemory MemoryUpdate "to set the audience, the sensitivity or the source",
                EachMemory MemoryShare "to set these of a memory whose audience does not cover \
                    the caller, or to make another member its audience",
                EachMemory MemoryReview "to set the review status",
                EachMemory MemoryDeclassify "to lower the sensitivity",
            ], audits [MemoryBulkUpdate], reads 3,
            bulk_update_memories(key: IdempotencyKey, body: BulkUpdate) -> Replayable<BulkResult>,
            example {
                "memoryIds": ["01890a5d-ac96-774b-bcce-b302099a8057"],
                "audienceTag": "team:platform", "sensitivityLabel": "confidential",
            };
        /// Lists the memories of a workspace.
        ///
        /// Memories that match every filter and exist for the caller, in order of creation. The
        /// title is `null` for a caller that may not read the memory. A page examines a bounded
        /// number of memories, so that it may be short or empty although more follow.
        ListMemories: GET "/v1/workspaces/{id}/memories", Bearer, Body, Addition, 200, [400, 404],
            requires [
                Workspace MemoryRead "for memories whose audience covers the caller",
                Workspace MemoryShare "for the labels of every memory",
            ], audits [MemoryRead], reads 3,
            list_memories(
                id: WorkspaceId, filter: MemoryFilter, page: PageRequest
            ) -> Page<MemorySummary>,
            links [GetMemory];
        /// Adds a memory to a workspace.
        ///
        /// The memory waits for review. A `sourceKey` that another memory from the source has is
        /// rejected; ingest a batch to update it.
        CreateMemory: POST "/v1/workspaces/{id}/memories", Bearer, Body, Addition, 201, [400, 404],
            requires [Workspace MemoryCreate], audits [MemoryCreate], reads 3 replays GetMemory,
            create_memory(id: WorkspaceId, body: CreateMemory) -> WithEtag<MemoryDetails>,
            links [GetMemory, UpdateMemory, DeleteMemory];
        /// Ingests a batch of memories from a source.
        ///
        /// A batch is ingested completely or not at all. A known `source_key` updates that memory,
        /// which the caller must be able to read, or have added.
        IngestMemories: POST "/v1/workspaces/{id}/ingest", Bearer, Body, Addition, 200, [400, 404],
            requires [
                Workspace MemoryCreate,
                Workspace MemoryUpdate "to update a memory with a known source key",
            ], audits [MemoryIngest], reads 3 replays IngestMemories,
            ingest_memories(id: WorkspaceId, body: IngestBatch) -> IngestResult, by handler;
        /// Changes a memory.
        ///
        /// Omitted fields are unchanged. Labels follow the rules of a bulk update.
        UpdateMemory: PATCH "/v1/memories/{id}", Bearer, Body, Addition, 200, [400, 404, 412],
            requires [
                Workspace MemoryUpdate "to set anything except the review status",
                Workspace MemoryShare "to set labels of a memory whose audience does not cover \
                    the caller, or to make another member its audience",
                Workspace MemoryReview "to set the review status",
                Workspace MemoryDeclassify "to lower the sensitivity",
                Workspace MemoryRead "to set the title or content, with what reading the memory \
                    requires",
            ], audits [MemoryUpdate], reads 3,
            update_memory(
                id: MemoryId, body: MemoryUpdate, version: Option<IfMatch>
            ) -> WithEtag<MemoryDetails>;
        /// Deletes a memory.
        ///
        /// Its title and content are erased everywhere; the audit log keeps identifiers and labels.
        DeleteMemory: DELETE "/v1/memories/{id}", Bearer, Body, Addition, 204, [404],
            requires [Workspace MemoryDelete], audits [MemoryDelete], reads 3,
            delete_memory(id: MemoryId) -> Nothing;
        /// Tells which memories the caller may read.
        ///
        /// For callers that search an index of their own: show only what is `readable` here. Items
        /// are in the order of the request. A memory that the caller may not know of looks like one
        /// that does not exist. With `includeContent`, items carry the title and the text of
        /// readable memories, up to 4 MiB of text; the others of them have `contentOmitted`: ask
        /// for these again.
        CheckMemoryAccess: POST "/v1/memories/access-check", Bearer, Body, Addition, 200, [400],
            requires [
                EachMemory MemoryRead "for memories whose audience covers the caller",
                EachMemory MemoryShare "for the labels of every memory",
            ], audits [MemoryRead], reads 3,
            check_memory_access(body: AccessCheck) -> AccessCheckResult,
            example {
                "memoryIds": ["01890a5d-ac96-774b-bcce-b302099a8057"], "includeContent": true,
            };
        /// Reads a memory.
        ///
        /// Title and content are `null` for a caller that may see its labels but not read it.
        GetMemory: GET "/v1/memories/{id}", Bearer, Body, Addition, 200, [404],
            requires [
                Workspace MemoryRead "for a memory whose audience covers the caller",
                Workspace MemoryShare "for the labels of any memory",
            ], audits [MemoryRead], reads 3,
            get_memory(id: MemoryId) -> Revalidated<MemoryDetails>;
    }
    "Workspaces" {
        /// Lists the workspaces in the scope of the credential.
        ///
        /// In order of creation. A credential scoped to some workspaces sees only those.
        ListWorkspaces: GET "/v1/workspaces", Bearer, Body, Addition, 200, [400],
            requires [], audits [], reads 3,
            list_workspaces(page: PageRequest) -> Page<Workspace>,
            links [GetDashboardSummary];
        /// Reads a workspace.
        GetWorkspace: GET "/v1/workspaces/{id}", Bearer, Body, Addition, 200, [404],
            requires [], audits [], reads 3,
            get_workspace(id: WorkspaceId) -> Workspace;
        /// Reads the retention of a workspace.
        GetRetention: GET "/v1/workspaces/{id}/retention", Bearer, Body, Addition, 200, [404],
            requires [Workspace DashboardRead], audits [], reads 3,
            get_retention(id: WorkspaceId) -> Retention;
        /// Sets the retention of a workspace.
        ///
        /// Omitted fields keep everything. A chat that expires is absent from that moment on and
        /// erased soon after; a longer retention never brings it back. A memory that expires
        /// remains until the daily sweep deletes it; until then, a longer retention keeps it.
        SetRetention: PUT "/v1/workspaces/{id}/retention",
            Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace ErasureManage], audits [RetentionUpdate], reads 3,
            set_retention(id: WorkspaceId, body: NewRetention) -> Retention;
    }
    "Sources" {
        /// Creates a source.
        CreateSource: POST "/v1/sources", Bearer, Body, Addition, 201, [400],
            requires [Organization ConnectorManage], audits [SourceCreate],
            reads 3 replays GetSource,
            create_source(body: NewSource) -> Source,
            links [GetSource];
        /// Lists the sources of the organisation.
        ///
        /// In order of creation.
        ListSources: GET "/v1/sources", Bearer, Body, Addition, 200, [400],
            requires [Anywhere MemoryRead], audits [], reads 3,
            list_sources(page: PageRequest) -> Page<Source>;
        /// Reads a source.
        GetSource: GET "/v1/sources/{id}", Bearer, Body, Addition, 200, [404],
            requires [Anywhere MemoryRead], audits [], reads 3,
            get_source(id: SourceId) -> Source;
    }
    "Dashboard" {
        /// Summarises a workspace for its dashboard.
        ///
        /// Its cost does not depend on the number of memories.
        GetDashboardSummary: GET "/v1/workspaces/{id}/dashboard-summary",
            Bearer, Headers, Specified, 200, [404],
            requires [Workspace DashboardRead], audits [], reads 3,
            get_dashboard_summary(id: WorkspaceId) -> RevalidatedDashboard, by handler;
    }
    "Connectors" {
        /// Creates a connector.
        CreateConnector: POST "/v1/workspaces/{id}/connectors",
            Bearer, Body, Addition, 201, [400, 404],
            requires [Workspace ConnectorManage], audits [ConnectorCreate],
            reads 3 replays GetConnector,
            create_connector(id: WorkspaceId, body: NewConnector) -> ConnectorDetails,
            links [GetConnector, UpdateConnector, DeleteConnector, ReportSync];
        /// Lists a workspace's connectors with their health.
        ///
        /// In order of creation.
        ListConnectors: GET "/v1/workspaces/{id}/connectors",
            Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace DashboardRead], audits [], reads 3,
            list_connectors(id: WorkspaceId, page: PageRequest) -> Page<ConnectorDetails>;
        /// Reads a connector with its health.
        GetConnector: GET "/v1/workspaces/{id}/connectors/{connectorId}",
            Bearer, Body, Addition, 200, [404],
            requires [Workspace DashboardRead], audits [], reads 3,
            get_connector(id: WorkspaceId, connectorId: ConnectorId) -> ConnectorDetails;
        /// Changes a connector.
        ///
        /// Omitted fields are unchanged.
        UpdateConnector: PATCH "/v1/workspaces/{id}/connectors/{connectorId}",
            Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace ConnectorManage], audits [ConnectorUpdate, ConnectorPause], reads 3,
            update_connector(
                id: WorkspaceId, connectorId: ConnectorId, body: ConnectorUpdate
            ) -> ConnectorDetails;
        /// Deletes a connector.
        ///
        /// Memories that it imported remain.
        DeleteConnector: DELETE "/v1/workspaces/{id}/connectors/{connectorId}",
            Bearer, Body, Addition, 204, [404],
            requires [Workspace ConnectorManage], audits [ConnectorDelete], reads 3,
            delete_connector(id: WorkspaceId, connectorId: ConnectorId) -> Nothing;
        /// Reports the result of a connector's sync.
        ///
        /// A change of the connector's status is published as an event. If the response is lost,
        /// send the report again.
        ReportSync: POST "/v1/workspaces/{id}/connectors/{connectorId}/sync-reports",
            Bearer, Body, Addition, 204, [400, 404],
            requires [Workspace ConnectorReport], audits [], reads 3,
            report_sync(
                id: WorkspaceId, connectorId: ConnectorId, body: SyncReportRequest
            ) -> Nothing, by handler,
            example { "outcome": "failure", "error": "the token expired", "is_authentication": true };
    }
    "MCP keys" {
        /// Creates an MCP key.
        ///
        /// `secret` is the key itself, returned only in this response. An unknown client is stored
        /// as `other`.
        CreateMcpKey: POST "/v1/workspaces/{id}/mcp-keys", Bearer, Body, Addition, 201, [400, 404],
            requires [Workspace McpKeyManage], audits [McpKeyCreate], reads 3 replays GetMcpKey,
            create_mcp_key(id: WorkspaceId, body: NewMcpKey) -> IssuedMcpKey,
            links [GetMcpKey, RotateMcpKey, RevokeMcpKey];
        /// Lists the MCP keys of a workspace.
        ///
        /// In order of creation, without the keys themselves.
        ListMcpKeys: GET "/v1/workspaces/{id}/mcp-keys", Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace DashboardRead], audits [], reads 3,
            list_mcp_keys(id: WorkspaceId, page: PageRequest) -> Page<McpKeySummary>;
        /// Reads an MCP key.
        GetMcpKey: GET "/v1/workspaces/{id}/mcp-keys/{keyId}", Bearer, Body, Addition, 200, [404],
            requires [Workspace DashboardRead], audits [], reads 3,
            get_mcp_key(id: WorkspaceId, keyId: CredentialId) -> McpKeySummary;
        /// Replaces the secret of an MCP key.
        ///
        /// The old secret stops working immediately; the identifier is unchanged. From then on the
        /// key acts as the member that rotates it, and its audience has to cover that member.
        RotateMcpKey: POST "/v1/workspaces/{id}/mcp-keys/{keyId}/rotate",
            Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace McpKeyManage], audits [McpKeyRotate], reads 3,
            rotate_mcp_key(
                id: WorkspaceId, keyId: CredentialId, body: RotateMcpKeyRequest
            ) -> IssuedMcpKey, by handler;
        /// Revokes an MCP key.
        ///
        /// The key stops working immediately.
        RevokeMcpKey: DELETE "/v1/workspaces/{id}/mcp-keys/{keyId}",
            Bearer, Body, Addition, 204, [404],
            requires [Workspace McpKeyManage], audits [McpKeyRevoke], reads 3,
            revoke_mcp_key(id: WorkspaceId, keyId: CredentialId) -> Nothing;
        /// Records a use of the MCP key that authenticates the request.
        ///
        /// The bearer token has to be an MCP key of the workspace.
        NoteMcpKeyUse: POST "/v1/workspaces/{id}/mcp-key-uses",
            Bearer, Body, Addition, 204, [400, 404],
            requires [], audits [], reads 3,
            note_mcp_key_use(id: WorkspaceId; Empty) -> Nothing;
    }
    "Chats" {
        /// Creates a chat.
        ///
        /// It exists for its participants: the caller and the members that the request names.
        CreateChat: POST "/v1/workspaces/{id}/chats", Bearer, Body, Addition, 201, [400, 404],
            requires [Workspace ChatWrite], audits [ChatCreate], reads 3 replays GetChat,
            create_chat(id: WorkspaceId, body: NewChat) -> Chat,
            links [GetChat, PostChatMessage, ListChatMessages];
        /// Lists the chats of a workspace that the caller takes part in.
        ///
        /// Most recently created first.
        ListChats: GET "/v1/workspaces/{id}/chats", Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace DashboardRead], audits [], reads 3,
            list_chats(id: WorkspaceId, page: PageRequest) -> Page<Chat>;
        /// Reads a chat.
        GetChat: GET "/v1/workspaces/{id}/chats/{sessionId}", Bearer, Body, Addition, 200, [404],
            requires [Workspace DashboardRead], audits [], reads 3,
            get_chat(id: WorkspaceId, sessionId: ChatId) -> Chat;
        /// Deletes a chat with its messages.
        DeleteChat: DELETE "/v1/workspaces/{id}/chats/{sessionId}",
            Bearer, Body, Addition, 204, [404],
            requires [
                Workspace ChatWrite "for a chat that the caller created",
                Workspace ErasureManage "for a chat of another member, also one that the caller \
                    takes no part in",
            ], audits [ChatDelete], reads 3,
            delete_chat(id: WorkspaceId, sessionId: ChatId) -> Nothing;
        /// Adds a message to a chat.
        PostChatMessage: POST "/v1/workspaces/{id}/chats/{sessionId}/messages",
            Bearer, Body, Addition, 201, [400, 404],
            requires [Workspace ChatWrite], audits [], reads 3 replays ListChatMessages,
            post_chat_message(
                id: WorkspaceId, sessionId: ChatId, body: NewChatMessage
            ) -> ChatMessage, by handler;
        /// Lists the messages of a chat.
        ///
        /// Oldest first.
        ListChatMessages: GET "/v1/workspaces/{id}/chats/{sessionId}/messages",
            Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace DashboardRead], audits [], reads 3,
            list_chat_messages(
                id: WorkspaceId, sessionId: ChatId, page: PageRequest
            ) -> Page<ChatMessage>;
    }
    "Erasures" {
        /// Erases memories and what was made from them.
        ///
        /// Everything of a member, everything from a source, or the named memories, with their
        /// labels and source keys, the recalls that cite nothing else, and, of a member, its
        /// recalls and chats. The response is the receipt, which says when the erasure is
        /// complete. Within 24 hours the same `Idempotency-Key` with the same body returns the
        /// receipt; with a different body it is rejected.
        CreateErasure: POST "/v1/erasures", Bearer, Body, Addition, 201, [400, 409, 422],
            requires [Organization ErasureManage], audits [ErasureCreate], reads 5,
            create_erasure(key: IdempotencyKey, body: NewErasure) -> Replayable<Erasure>,
            example { "memoryIds": ["01890a5d-ac96-774b-bcce-b302099a8057"] },
            links [GetErasure];
        /// Lists the receipts of erasures.
        ///
        /// Newest first.
        ListErasures: GET "/v1/erasures", Bearer, Body, Addition, 200, [400],
            requires [Organization ErasureManage], audits [], reads 3,
            list_erasures(page: PageRequest) -> Page<Erasure>,
            links [GetErasure];
        /// Reads the receipt of an erasure.
        ///
        /// It counts what was removed, and says what remains where, and until when.
        GetErasure: GET "/v1/erasures/{id}", Bearer, Body, Addition, 200, [404],
            requires [Organization ErasureManage], audits [], reads 3,
            get_erasure(id: ErasureId) -> Erasure;
    }
    "Custom roles" {
        /// Deletes a custom role.
        ///
        /// `reassign_to` names the new role of its holders: `viewer`, `member` or an active
        /// organisation-wide custom role. It is required if the role has holders.
        DeleteCustomRole: DELETE "/v1/orgs/{orgSlug}/custom-roles/{roleId}",
            Session, Body, Specified, 204, [400, 404, 409 "role_in_use"],
            requires [Organization RoleManage], audits [RoleDelete], reads 2,
            delete_custom_role(orgSlug: OrgSlug, roleId: RoleId, body: DeleteRole) -> Nothing,
            example { "reassign_to": "viewer" };
        /// Changes a custom role.
        ///
        /// Omitted fields are unchanged. A caller cannot grant permissions that it does not hold.
        UpdateCustomRole: PATCH "/v1/orgs/{orgSlug}/custom-roles/{roleId}",
            Session, Body, Specified, 200, [400, 404, 409 "slug_taken", 412],
            requires [Organization RoleManage], audits [RoleUpdate], reads 2,
            update_custom_role(
                orgSlug: OrgSlug, roleId: RoleId, body: CustomRoleUpdate, version: Option<IfMatch>
            ) -> Data<WithEtag<CustomRole>>,
            example {
                "description": "Reviews new memories.",
                "actions": { "allow": ["memory:review"], "deny": ["chat:write"] },
            };
        /// Lists the custom roles of an organisation.
        ///
        /// All of them on one page, sorted by name, then by identifier.
        ListCustomRoles: GET "/v1/orgs/{orgSlug}/custom-roles",
            Session, Body, Specified, 200, [404],
            requires [Organization RoleRead], audits [], reads 2,
            list_custom_roles(orgSlug: OrgSlug) -> Data<Vec<CustomRole>>;
        /// Creates a custom role.
        ///
        /// A caller cannot grant permissions that it does not hold.
        CreateCustomRole: POST "/v1/orgs/{orgSlug}/custom-roles",
            Session, Body, Addition, 201, [400, 404, 409 "slug_taken"],
            requires [Organization RoleManage], audits [RoleCreate], reads 2 replays GetCustomRole,
            create_custom_role(
                orgSlug: OrgSlug, body: NewCustomRole
            ) -> Data<WithEtag<CustomRole>>,
            links [GetCustomRole];
        /// Reads a custom role.
        GetCustomRole: GET "/v1/orgs/{orgSlug}/custom-roles/{roleId}",
            Session, Body, Addition, 200, [404],
            requires [Organization RoleRead], audits [], reads 3,
            get_custom_role(orgSlug: OrgSlug, roleId: RoleId) -> Data<WithEtag<CustomRole>>;
    }
    "Members" {
        /// Lists the members of an organisation.
        ///
        /// In order of addition.
        ListMembers: GET "/v1/orgs/{orgSlug}/members", Session, Body, Addition, 200, [400, 404],
            requires [Organization RoleRead], audits [], reads 2,
            list_members(orgSlug: OrgSlug, page: PageRequest) -> Page<Member>;
        /// Adds a member.
        ///
        /// Adding a member issues no token and no session. A caller cannot grant more than it
        /// holds: neither a role with other permissions nor, without all permissions, a team that
        /// it is not in. Only owners can add owners.
        AddMember: POST "/v1/orgs/{orgSlug}/members",
            Session, Body, Addition, 201, [400, 404, 409 "slug_taken"],
            requires [Organization MemberManage], audits [MemberCreate], reads 2 replays GetMember,
            add_member(orgSlug: OrgSlug, body: NewMember) -> Data<WithEtag<MemberDetails>>,
            example { "handle": "ada", "name": "Ada", "role": "member", "teams": ["platform"] },
            links [GetMember, UpdateMember, RemoveMember];
        /// Reads a member with its workspace roles.
        GetMember: GET "/v1/orgs/{orgSlug}/members/{memberId}", Session, Body, Addition, 200, [404],
            requires [Organization RoleRead], audits [], reads 2,
            get_member(orgSlug: OrgSlug, memberId: MemberId) -> Data<WithEtag<MemberDetails>>;
        /// Changes a member.
        ///
        /// Omitted fields are unchanged. Only owners can change owners, and one owner always
        /// remains.
        UpdateMember: PATCH "/v1/orgs/{orgSlug}/members/{memberId}",
            Session, Body, Addition, 200, [400, 404, 412],
            requires [Organization MemberManage], audits [MemberUpdate, RoleAssign], reads 2,
            update_member(
                orgSlug: OrgSlug, memberId: MemberId, body: MemberUpdate, version: Option<IfMatch>
            ) -> Data<WithEtag<MemberDetails>>,
            example { "role": "admin" };
        /// Removes a member.
        ///
        /// Its tokens, sessions and MCP keys stop working immediately. Only owners can remove
        /// owners, and one owner always remains.
        RemoveMember: DELETE "/v1/orgs/{orgSlug}/members/{memberId}",
            Session, Body, Addition, 204, [400, 404],
            requires [Organization MemberManage], audits [MemberRemove], reads 2,
            remove_member(orgSlug: OrgSlug, memberId: MemberId) -> Nothing;
        /// Assigns a member a role in a workspace.
        ///
        /// It replaces the role in the organisation there. Only owners can restrict owners.
        AssignWorkspaceRole: PUT "/v1/orgs/{orgSlug}/members/{memberId}/workspace-roles/{workspaceId}",
            Session, Body, Addition, 204, [400, 404],
            requires [Organization MemberManage], audits [RoleAssign], reads 2,
            assign_workspace_role(
                orgSlug: OrgSlug, memberId: MemberId, workspaceId: WorkspaceId,
                body: AssignWorkspaceRoleRequest
            ) -> Nothing, by handler,
            example { "role": "viewer" };
        /// Removes a member's role in a workspace.
        ///
        /// The role in the organisation applies there again.
        EndWorkspaceRole: DELETE "/v1/orgs/{orgSlug}/members/{memberId}/workspace-roles/{workspaceId}",
            Session, Body, Addition, 204, [404],
            requires [Organization MemberManage], audits [RoleAssign], reads 2,
            end_workspace_role(
                orgSlug: OrgSlug, memberId: MemberId, workspaceId: WorkspaceId
            ) -> Nothing;
    }
    "Recalls" {
        /// Registers a recall with the memories that it cites.
        ///
        /// Its subscribers are notified when one of the memories changes.
        CreateRecall: POST "/v1/workspaces/{id}/recalls", Bearer, Body, Addition, 201, [400, 404],
            requires [Workspace RecallCreate], audits [RecallCreate], reads 3 replays GetRecall,
            create_recall(id: WorkspaceId, body: NewRecall) -> Recall,
            links [GetRecall, ListCitationSubscriptions { recall_id: "$response.body#/id" }];
        /// Lists the recalls of a workspace.
        ///
        /// Newest first, without the memories that they cite.
        ListRecalls: GET "/v1/workspaces/{id}/recalls", Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace MemoryRead], audits [], reads 4,
            list_recalls(id: WorkspaceId, page: PageRequest) -> Page<RecallSummary>;
        /// Reads a recall with the memories that it cites.
        GetRecall: GET "/v1/recalls/{id}", Bearer, Body, Addition, 200, [404],
            requires [Workspace MemoryRead], audits [], reads 3,
            get_recall(id: RecallId) -> Recall;
        /// Deletes a recall with its citation subscriptions.
        DeleteRecall: DELETE "/v1/recalls/{id}", Bearer, Body, Addition, 204, [404],
            requires [
                Workspace RecallCreate "for a recall that the caller registered",
                Workspace ErasureManage "for a recall of another member, also one that does not \
                    exist for the caller",
            ], audits [RecallDelete], reads 3,
            delete_recall(id: RecallId) -> Nothing;
    }
    "Audit log" {
        /// Lists the entries of the audit log, newest first.
        ///
        /// Newest first. `resource_id` requires `resource_kind`. A page examines a bounded number
        /// of entries, so that it may be short or empty although more follow.
        ListAuditEntries: GET "/v1/audit-log", Bearer, Body, Addition, 200, [400],
            requires [Organization AuditRead], audits [], reads 3,
            list_audit_entries(filter: AuditFilter, page: PageRequest) -> Page<AuditEntry>,
            links [GetAuditEntry];
        /// Reads an entry of the audit log.
        ///
        /// `before` and `after` hold the identifiers and labels of the changed resource, never the
        /// content of a memory.
        GetAuditEntry: GET "/v1/audit-log/{id}", Bearer, Body, Addition, 200, [404],
            requires [Organization AuditRead], audits [], reads 3,
            get_audit_entry(id: AuditLogId) -> AuditEntry;
    }
    "Citation subscriptions" {
        /// Subscribes to the citations of a recall.
        ///
        /// `signing_secret` is returned only in this response.
        CreateCitationSubscription: POST "/v1/citation-subscriptions",
            Bearer, Headers, Specified, 201, [400, 404],
            requires [Workspace CitationSubscriptionManage], audits [SubscriptionCreate],
            reads 3 replays GetCitationSubscription,
            create_citation_subscription(body: NewCitationSubscription) -> CitationSubscription,
            links [
                GetCitationSubscription, RotateCitationSubscriptionSecret,
                PingCitationSubscription, ListCitationSubscriptionDeliveries,
                RedeliverDeadToCitationSubscription, DeleteCitationSubscription,
            ];
        /// Lists the subscriptions to the citations of a recall.
        ///
        /// In order of creation.
        ListCitationSubscriptions: GET "/v1/citation-subscriptions",
            Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace CitationSubscriptionManage], audits [], reads 3,
            list_citation_subscriptions(
                recall: RecallFilter, page: PageRequest
            ) -> Page<CitationSubscription>;
        /// Reads a citation subscription.
        GetCitationSubscription: GET "/v1/citation-subscriptions/{id}",
            Bearer, Body, Addition, 200, [404],
            requires [Workspace CitationSubscriptionManage], audits [], reads 3,
            get_citation_subscription(id: SubscriptionId) -> CitationSubscription;
        /// Deletes a citation subscription.
        DeleteCitationSubscription: DELETE "/v1/citation-subscriptions/{id}",
            Bearer, Body, Addition, 204, [404],
            requires [
                Workspace CitationSubscriptionManage,
                Workspace WebhookManage "for another member's subscription",
            ], audits [SubscriptionDelete], reads 3,
            delete_citation_subscription(id: SubscriptionId) -> Nothing;
        /// Replaces the signing secret of a citation subscription.
        ///
        /// The new `signing_secret` is returned only in this response. For 24 hours deliveries are
        /// signed with the old one too.
        RotateCitationSubscriptionSecret: POST "/v1/citation-subscriptions/{id}/rotate-secret",
            Bearer, Body, Addition, 200, [400, 404],
            requires [
                Workspace CitationSubscriptionManage,
                Workspace WebhookManage "for another member's subscription",
            ], audits [SubscriptionRotateSecret], reads 3,
            rotate_citation_subscription_secret(id: SubscriptionId; Empty) -> RotatedSecret;
        /// Lists the deliveries to a citation subscription, newest event first.
        ///
        /// Deliveries within the retention period, by the time of their events. Each has its
        /// attempts, oldest first, with time, duration, and the status of the response or the
        /// failure.
        ListCitationSubscriptionDeliveries: GET "/v1/citation-subscriptions/{id}/deliveries",
            Bearer, Body, Addition, 200, [400, 404],
            requires [
                Workspace CitationSubscriptionManage,
                Workspace WebhookManage "for another member's subscription",
            ], audits [], reads 3,
            list_deliveries(
                endpoint: SubscriptionEndpoint, filter: StatusFilter, page: PageRequest
            ) -> Page<Delivery>;
        /// Reads a delivery to a citation subscription with its attempts.
        GetCitationSubscriptionDelivery: GET "/v1/citation-subscriptions/{id}/deliveries/{deliveryId}",
            Bearer, Body, Addition, 200, [404],
            requires [
                Workspace CitationSubscriptionManage,
                Workspace WebhookManage "for another member's subscription",
            ], audits [], reads 3,
            get_delivery(endpoint: SubscriptionEndpoint, deliveryId: DeliveryId) -> Delivery;
        /// Redelivers an event to a citation subscription.
        ///
        /// The delivery is due immediately, with a new retry schedule and the same `webhook-id`,
        /// whatever its state. Read it again for the result. An inactive endpoint has to be
        /// activated first.
        RedeliverToCitationSubscription: POST "/v1/citation-subscriptions/{id}/deliveries/{deliveryId}/redeliver",
            Bearer, Body, Addition, 202, [400, 404, 409 "endpoint_off"],
            requires [
                Workspace CitationSubscriptionManage,
                Workspace WebhookManage "for another member's subscription",
            ], audits [SubscriptionRedeliver], reads 3,
            redeliver(endpoint: SubscriptionEndpoint, deliveryId: DeliveryId; Empty) -> Delivery,
            links [GetCitationSubscriptionDelivery];
        /// Redelivers the dead letters of a citation subscription.
        ///
        /// Dead letters are redelivered oldest first, each as by a single redelivery. If `has_more`
        /// is true, call again: more remain than one call processes.
        RedeliverDeadToCitationSubscription: POST "/v1/citation-subscriptions/{id}/deliveries/redeliver-dead",
            Bearer, Body, Addition, 202, [400, 404, 409 "endpoint_off"],
            requires [
                Workspace CitationSubscriptionManage,
                Workspace WebhookManage "for another member's subscription",
            ], audits [SubscriptionRedeliver], reads 3,
            redeliver_dead(endpoint: SubscriptionEndpoint; Empty) -> RedeliveryReport;
        /// Sends a test event to a citation subscription.
        ///
        /// Sends one `webhook.ping` in a single attempt, whatever the event type of the endpoint.
        /// Read the delivery again for the result. An endpoint that the service disabled receives
        /// it too, and a 2xx response activates it again. An endpoint that its owner deactivated
        /// does not.
        PingCitationSubscription: POST "/v1/citation-subscriptions/{id}/ping",
            Bearer, Body, Addition, 202, [400, 404, 409 "endpoint_off"],
            requires [
                Workspace CitationSubscriptionManage,
                Workspace WebhookManage "for another member's subscription",
            ], audits [SubscriptionPing], reads 3 replays GetCitationSubscriptionDelivery,
            ping(endpoint: SubscriptionEndpoint; Empty) -> Delivery,
            links [GetCitationSubscriptionDelivery, RedeliverToCitationSubscription];
    }
    "Webhooks" {
        /// Registers an outbound webhook.
        ///
        /// `signing_secret` is returned only in this response.
        CreateWebhook: POST "/v1/workspaces/{id}/webhooks",
            Bearer, Headers, Specified, 201, [400, 404],
            requires [Workspace WebhookManage], audits [WebhookCreate], reads 3 replays GetWebhook,
            create_webhook(id: WorkspaceId, body: NewWebhook) -> Webhook,
            links [
                GetWebhook, UpdateWebhook, RotateWebhookSecret, PingWebhook, ListWebhookDeliveries,
                RedeliverDeadToWebhook, DeleteWebhook,
            ];
        /// Lists the outbound webhooks of a workspace.
        ///
        /// In order of creation, without their secrets.
        ListWebhooks: GET "/v1/workspaces/{id}/webhooks", Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace WebhookManage], audits [], reads 3,
            list_webhooks(id: WorkspaceId, page: PageRequest) -> Page<Webhook>;
        /// Reads an outbound webhook.
        GetWebhook: GET "/v1/workspaces/{id}/webhooks/{webhookId}",
            Bearer, Body, Addition, 200, [404],
            requires [Workspace WebhookManage], audits [], reads 3,
            get_webhook(id: WorkspaceId, webhookId: WebhookId) -> WithEtag<Webhook>;
        /// Changes an outbound webhook.
        ///
        /// Omitted fields are unchanged.
        UpdateWebhook: PATCH "/v1/workspaces/{id}/webhooks/{webhookId}",
            Bearer, Body, Addition, 200, [400, 404, 412],
            requires [Workspace WebhookManage], audits [WebhookUpdate], reads 3,
            update_webhook(
                id: WorkspaceId, webhookId: WebhookId, body: WebhookUpdate, version: Option<IfMatch>
            ) -> WithEtag<Webhook>;
        /// Deletes an outbound webhook.
        DeleteWebhook: DELETE "/v1/workspaces/{id}/webhooks/{webhookId}",
            Bearer, Body, Addition, 204, [404],
            requires [Workspace WebhookManage], audits [WebhookDelete], reads 3,
            delete_webhook(id: WorkspaceId, webhookId: WebhookId) -> Nothing;
        /// Replaces the signing secret of an outbound webhook.
        ///
        /// The new `signing_secret` is returned only in this response. The old one remains valid
        /// for 24 hours.
        RotateWebhookSecret: POST "/v1/workspaces/{id}/webhooks/{webhookId}/rotate-secret",
            Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace WebhookManage], audits [WebhookRotateSecret], reads 3,
            rotate_webhook_secret(id: WorkspaceId, webhookId: WebhookId; Empty) -> RotatedSecret;
        /// Lists the deliveries to an outbound webhook, newest event first.
        ///
        /// Deliveries within the retention period, by the time of their events. Each has its
        /// attempts, oldest first, with time, duration, and the status of the response or the
        /// failure.
        ListWebhookDeliveries: GET "/v1/workspaces/{id}/webhooks/{webhookId}/deliveries",
            Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace WebhookManage], audits [], reads 3,
            list_deliveries(
                endpoint: WebhookEndpoint, filter: StatusFilter, page: PageRequest
            ) -> Page<Delivery>;
        /// Reads a delivery to an outbound webhook with its attempts.
        GetWebhookDelivery: GET "/v1/workspaces/{id}/webhooks/{webhookId}/deliveries/{deliveryId}",
            Bearer, Body, Addition, 200, [404],
            requires [Workspace WebhookManage], audits [], reads 3,
            get_delivery(endpoint: WebhookEndpoint, deliveryId: DeliveryId) -> Delivery;
        /// Redelivers an event to an outbound webhook.
        ///
        /// The delivery is due immediately, with a new retry schedule and the same `webhook-id`,
        /// whatever its state. Read it again for the result. An inactive endpoint has to be
        /// activated first.
        RedeliverToWebhook: POST "/v1/workspaces/{id}/webhooks/{webhookId}/deliveries/{deliveryId}/redeliver",
            Bearer, Body, Addition, 202, [400, 404, 409 "endpoint_off"],
            requires [Workspace WebhookManage], audits [WebhookRedeliver], reads 3,
            redeliver(endpoint: WebhookEndpoint, deliveryId: DeliveryId; Empty) -> Delivery,
            links [GetWebhookDelivery];
        /// Redelivers the dead letters of an outbound webhook.
        ///
        /// Dead letters are redelivered oldest first, each as by a single redelivery. If `has_more`
        /// is true, call again: more remain than one call processes.
        RedeliverDeadToWebhook: POST "/v1/workspaces/{id}/webhooks/{webhookId}/deliveries/redeliver-dead",
            Bearer, Body, Addition, 202, [400, 404, 409 "endpoint_off"],
            requires [Workspace WebhookManage], audits [WebhookRedeliver], reads 3,
            redeliver_dead(endpoint: WebhookEndpoint; Empty) -> RedeliveryReport;
        /// Sends a test event to an outbound webhook.
        ///
        /// Sends one `webhook.ping` in a single attempt, whatever the event type of the endpoint.
        /// Read the delivery again for the result. An endpoint that the service disabled receives
        /// it too, and a 2xx response activates it again. An endpoint that its owner deactivated
        /// does not.
        PingWebhook: POST "/v1/workspaces/{id}/webhooks/{webhookId}/ping",
            Bearer, Body, Addition, 202, [400, 404, 409 "endpoint_off"],
            requires [Workspace WebhookManage], audits [WebhookPing],
            reads 3 replays GetWebhookDelivery,
            ping(endpoint: WebhookEndpoint; Empty) -> Delivery,
            links [GetWebhookDelivery, RedeliverToWebhook];
    }
    "Inbound webhooks" {
        /// Registers an inbound webhook.
        ///
        /// `signing_secret` is returned only in this response. Senders post to `url`.
        CreateInboundWebhook: POST "/v1/workspaces/{id}/inbound-webhooks",
            Bearer, Headers, Specified, 201, [400, 404],
            requires [Workspace InboundWebhookManage], audits [InboundWebhookCreate],
            reads 3 replays GetInboundWebhook,
            create_inbound_webhook(id: WorkspaceId, body: NewInboundWebhook) -> InboundWebhook,
            links [
                PostToInboundWebhook { org: "$response.body#/org_id", id: "$response.body#/id" },
                GetInboundWebhook, UpdateInboundWebhook, RotateInboundWebhookSecret,
                DeleteInboundWebhook,
            ];
        /// Lists the inbound webhooks of a workspace.
        ///
        /// In order of creation, without their secrets.
        ListInboundWebhooks: GET "/v1/workspaces/{id}/inbound-webhooks",
            Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace InboundWebhookManage], audits [], reads 3,
            list_inbound_webhooks(id: WorkspaceId, page: PageRequest) -> Page<InboundWebhook>;
        /// Reads an inbound webhook.
        GetInboundWebhook: GET "/v1/workspaces/{id}/inbound-webhooks/{webhookId}",
            Bearer, Body, Addition, 200, [404],
            requires [Workspace InboundWebhookManage], audits [], reads 3,
            get_inbound_webhook(
                id: WorkspaceId, webhookId: InboundWebhookId
            ) -> WithEtag<InboundWebhook>;
        /// Changes an inbound webhook.
        ///
        /// Omitted fields are unchanged.
        UpdateInboundWebhook: PATCH "/v1/workspaces/{id}/inbound-webhooks/{webhookId}",
            Bearer, Body, Addition, 200, [400, 404, 412],
            requires [Workspace InboundWebhookManage], audits [InboundWebhookUpdate], reads 3,
            update_inbound_webhook(
                id: WorkspaceId, webhookId: InboundWebhookId, body: InboundWebhookUpdate,
                version: Option<IfMatch>
            ) -> WithEtag<InboundWebhook>;
        /// Deletes an inbound webhook.
        DeleteInboundWebhook: DELETE "/v1/workspaces/{id}/inbound-webhooks/{webhookId}",
            Bearer, Body, Addition, 204, [404],
            requires [Workspace InboundWebhookManage], audits [InboundWebhookDelete], reads 3,
            delete_inbound_webhook(id: WorkspaceId, webhookId: InboundWebhookId) -> Nothing;
        /// Replaces the signing secret of an inbound webhook.
        ///
        /// The new `signing_secret` is returned only in this response. The old one remains valid
        /// for 24 hours.
        RotateInboundWebhookSecret: POST "/v1/workspaces/{id}/inbound-webhooks/{webhookId}/rotate-secret",
            Bearer, Body, Addition, 200, [400, 404],
            requires [Workspace InboundWebhookManage], audits [InboundWebhookRotateSecret], reads 3,
            rotate_inbound_webhook_secret(
                id: WorkspaceId, webhookId: InboundWebhookId; Empty
            ) -> RotatedSecret;
        /// Ingests the memories posted to an inbound webhook.
        ///
        /// The address is the `url` of the inbound webhook. The message is signed with the
        /// webhook's secret (Standard Webhooks 1.0.0), at most 5 minutes from the server's time in
        /// either direction. The memories wait for review and belong to the source of the webhook;
        /// a known `source_key` updates that memory. A message is ingested completely or not at
        /// all. For 7 days, the repetition of an accepted message is answered `204` and has no
        /// effect. The member in `acts_as` creates the memories with its current permissions: `403`
        /// if it has been removed or lacks them.
        PostToInboundWebhook: POST "/v1/inbound/{org}/{id}",
            Signature, Body, Addition, 204, [400, 404],
            requires [
                Workspace MemoryCreate "held by the member that the inbound webhook acts as",
                Workspace MemoryUpdate "held by that member, to update a memory with a known \
                    source key",
            ], audits [MemoryIngest], reads 4,
            post_to_inbound_webhook(
                org: OrgId, id: InboundWebhookId, message: SignedHeaders, body: InboundBatch
            ) -> Nothing, by handler;
    }
    } };
}

pub(crate) use operations;
