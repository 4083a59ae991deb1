//! Table of operations, in which each operation is declared once.

/// Passes the rows of the table to a macro, after tokens of its caller in brackets.
///
/// A capability has the defaults of its rows. A row, explained:
///
/// ```text
/// "Webhooks" (                             // the capability, with what its rows have in common:
///     Bearer,                              // authentication
///     identifies [Workspace, Webhook]      // kinds of the identifiers in their paths, in order
/// ) {
///     /// Registers an outbound webhook.   // summary
///     ///
///     /// `signing_secret` is returned …   // further documentation
///     CreateWebhook:                       // variant of `Operation`
///         POST "/v1/workspaces/{id}/webhooks",
///         201,                             // status of a successful response
///         [400, 404],                      // statuses of error responses
///         {
///             requires [Workspace WebhookManage],
///             audits [WebhookCreate],      // actions in the audit log
///             uses [Endpoints],            // quotas of the organisation
///             replays GetWebhook,          // response to a repetition with its idempotency key
///             seals secret,
///         },
///         webhooks.create(                 // view and function of the service, after the caller:
///             id: WorkspaceId,             // a parameter of the path, by its name
///             body: NewWebhook             // another input; the type says where it is read
///         ) -> Webhook,
///         links [GetWebhook, UpdateWebhook];
/// }
/// ```
///
/// The columns in braces are optional and in this order; `public_row!` reads them, and the fields
/// of [`OperationSpec`](super::OperationSpec) document them:
///
/// - `requires [Scope Action "condition"]`: required permissions.
/// - `audits [Action]`, `uses [Quota]`.
/// - `reads 4`: greatest number of store reads of a call, where it is not the one of the
///   capability, which is 3 unless it says otherwise.
/// - `replays Operation`, `seals secret`.
/// - `authentication`, `errors in Headers`, `identifies [Kind]`: where they differ from
///   the capability. Errors have bodies otherwise.
///
/// The rest of a row:
///
/// - An error status may have the code of an error that only some operations have.
/// - `webhooks.create` is `service.webhooks().create`. With `by handler`, a name is a function of
///   the module `handlers`. Its arguments follow the caller; an input after `;` is checked and not
///   passed. Each parameter of the path is an argument. With `by signature` it has no caller and
///   its own handler.
/// - `example` is the body of the example request, in place of the one derived from its schema.
/// - `links` names operations that the response leads to. The last parameter of their paths is the
///   identifier in the response, the others are those of the request; a link that differs lists its
///   parameters.
///
/// A capability with `deliveries` has the rows of `with_deliveries!` at its end.
macro_rules! operations {
    ($then:ident $($context:tt)*) => { $crate::operation::with_deliveries! { $then [$($context)*]
    "Memories" (Bearer, identifies [Memory]) {
        /// Changes attributes of many memories.
        ///
        /// At least one attribute has to be set. The status is `200` whenever the request was
        /// processed: a memory that cannot be changed does not fail the others, its item has an
        /// `error` instead of the `memory`. Within 24 hours the same `Idempotency-Key` with the
        /// same body returns the stored result; with a different body it is rejected. With
        /// `dryRun`, nothing changes, the response has the `impact`, and the key is not used up.
        BulkUpdateMemories: PATCH "/v1/memories/bulk", 200, [400, 409, 422],
            {
                requires [
                    EachMemory MemoryUpdate "to set the audience, the sensitivity or the source",
                    EachMemory MemoryShare "to set these of a memory whose audience does not cover \
                        the caller, or to make another member its audience",
                    EachMemory MemoryReview "to set the review status",
                    EachMemory MemoryDeclassify "to lower the sensitivity",
                    EachMemory MemoryRead "to approve or reject, with what reading the memory \
                        requires",
                ],
                audits [MemoryBulkUpdate],
            },
            memories.bulk_update(key: IdempotencyKey, body: BulkUpdate) -> Replayable<BulkResult>,
            example {
                "memoryIds": ["01890a5d-ac96-774b-bcce-b302099a8057"],
                "audienceTag": "team:platform", "sensitivityLabel": "confidential",
            };
        /// Lists the memories of a workspace.
        ///
        /// Memories that match every filter and exist for the caller, in order of creation. The
        /// title is `null` for a caller that may not read the memory. A filter that excludes many
        /// memories may leave a page short although more follow; it is empty only at the end, or
        /// with a `next_cursor` if nothing was found in 15 seconds.
        ListMemories: GET "/v1/workspaces/{id}/memories", 200, [400, 404],
            {
                requires [
                    Workspace MemoryRead "for memories whose audience covers the caller",
                    Workspace MemoryShare "for the labels of every memory",
                ],
                audits [MemoryRead], identifies [Workspace],
            },
            memories.list(
                id: WorkspaceId, filter: MemoryFilter, page: PageRequest
            ) -> Page<MemorySummary>,
            links [GetMemory];
        /// Adds a memory to a workspace.
        ///
        /// The memory waits for review. A `sourceKey` that another memory from the source has is
        /// rejected; ingest a batch to update it. The default audience is that of the workspace,
        /// for an MCP key the first label of the key that covers its member.
        CreateMemory: POST "/v1/workspaces/{id}/memories", 201, [400, 404],
            {
                requires [
                    Workspace MemoryPropose "for a memory with the default labels; `memory:create` \
                        suffices too",
                    Workspace MemoryCreate "to choose the audience or the sensitivity, or to bring \
                        back an erased key",
                ],
                audits [MemoryCreate], uses [Memories], replays GetMemory,
                identifies [Workspace],
            },
            memories.create(id: WorkspaceId, body: CreateMemory) -> WithEtag<MemoryDetails>,
            links [GetMemory, UpdateMemory, DeleteMemory];
        /// Lists the audience labels of a workspace.
        ///
        /// The labels in use with their numbers of memories, and labels that cover somebody even if
        /// no memory has them. A caller without `memory:share` gets the labels that cover it.
        /// `has_members` is false for a label that covers nobody.
        ListLabels: GET "/v1/workspaces/{id}/labels", 200, [404],
            {
                requires [
                    Workspace MemoryRead "for labels that cover the caller",
                    Workspace MemoryShare "for every label in use",
                ],
                identifies [Workspace],
            },
            memories.labels(id: WorkspaceId) -> WorkspaceLabels;
        /// Ingests a batch of memories from a source.
        ///
        /// A batch is ingested completely or not at all. A known `source_key` updates that memory,
        /// which the caller must be able to read, or have added. The memory of a key that was
        /// erased is not stored, unless `revive` is `true`.
        IngestMemories: POST "/v1/workspaces/{id}/ingest", 200, [400, 404],
            {
                requires [
                    Workspace MemoryCreate,
                    Workspace MemoryUpdate "to update a memory with a known source key",
                ],
                audits [MemoryIngest], uses [Memories], replays IngestMemories,
                identifies [Workspace],
            },
            ingest_memories(id: WorkspaceId, body: IngestBatch) -> IngestResult, by handler;
        /// Changes a memory.
        ///
        /// Omitted fields are unchanged. Labels follow the rules of a bulk update.
        UpdateMemory: PATCH "/v1/memories/{id}", 200, [400, 404, 412],
            {
                requires [
                    Workspace MemoryUpdate "to set anything except the review status",
                    Workspace MemoryShare "to set labels of a memory whose audience does not cover \
                        the caller, or to make another member its audience",
                    Workspace MemoryReview "to set the review status",
                    Workspace MemoryDeclassify "to lower the sensitivity",
                    Workspace MemoryRead "to set the title or content, or to approve or reject, \
                        with what reading the memory requires",
                ],
                audits [MemoryUpdate, MemoryRead],
            },
            memories.update(
                id: MemoryId, body: MemoryUpdate, version: Option<IfMatch>
            ) -> WithEtag<MemoryDetails>;
        /// Deletes a memory.
        ///
        /// Its title and content are erased everywhere; the audit log keeps identifiers and labels.
        DeleteMemory: DELETE "/v1/memories/{id}", 204, [404],
            { requires [Workspace MemoryDelete], audits [MemoryDelete] },
            memories.delete(id: MemoryId) -> Nothing;
        /// Tells which memories the caller may read.
        ///
        /// For callers that search an index of their own: show only what is `readable` here. Items
        /// are in the order of the request. A memory that the caller may not know of looks like one
        /// that does not exist. `sourceKeys` asks by the keys at the sources; such an item is
        /// `null` unless the memory is readable. With `includeContent`, items have the title and
        /// the text of readable memories, up to 4 MiB of text. Readable ones beyond that have
        /// `contentOmitted`: ask for them again.
        CheckMemoryAccess: POST "/v1/memories/access-check", 200, [400],
            {
                requires [
                    EachMemory MemoryRead "for memories whose audience covers the caller",
                    EachMemory MemoryShare "for the labels of every memory",
                ],
                audits [MemoryRead],
            },
            memories.check_access(body: AccessCheck) -> AccessCheckResult,
            example {
                "memoryIds": ["01890a5d-ac96-774b-bcce-b302099a8057"], "includeContent": true,
            };
        /// Returns what the caller may read in a workspace, as a filter for an index of its own.
        ///
        /// For a search that finds only what may be shown: index `workspace_id`, `audience_tag`,
        /// `sensitivity_label` and `review_status` of each memory, and search with the filter.
        /// Memories that the caller added and may not review are not in it, and it knows nothing of
        /// running erasures: the access check decides. The entity tag changes with the caller's
        /// rights.
        GetAccessFilter: GET "/v1/workspaces/{id}/access-filter", 200, [400, 404],
            { requires [Workspace MemoryRead], identifies [Workspace] },
            memories.access_filter(
                id: WorkspaceId, options: AccessFilterOptions
            ) -> Revalidated<AccessFilter>;
        /// Reads a memory.
        ///
        /// Title and content are `null` for a caller that may see its labels but not read it.
        GetMemory: GET "/v1/memories/{id}", 200, [404],
            {
                requires [
                    Workspace MemoryRead "for a memory whose audience covers the caller",
                    Workspace MemoryShare "for the labels of any memory",
                ],
                audits [MemoryRead],
            },
            memories.get(id: MemoryId) -> Revalidated<MemoryDetails>;
    }
    "Workspaces" (Bearer, identifies [Workspace]) {
        /// Lists the workspaces in the scope of the credential.
        ///
        /// In order of creation. A credential scoped to some workspaces sees only those, and a
        /// private workspace is listed for its people only.
        ListWorkspaces: GET "/v1/workspaces", 200, [400],
            workspaces.list(page: PageRequest) -> Page<Workspace>,
            links [GetDashboardSummary];
        /// Reads a workspace.
        GetWorkspace: GET "/v1/workspaces/{id}", 200, [404],
            workspaces.get(id: WorkspaceId) -> Workspace;
        /// Opens a workspace to every member of the organisation, or makes it private.
        ///
        /// The people of a private workspace are those who hold a role in it, and owners. For
        /// everybody else it does not exist, and its label `workspace:<slug>` covers its people
        /// only. A workspace is made private by somebody who will be one of them. No event is
        /// published.
        SetWorkspaceAccess: PUT "/v1/workspaces/{id}/access", 200, [400, 404],
            { requires [Workspace MemberManage], audits [WorkspaceUpdate] },
            workspaces.set_access(id: WorkspaceId, body: NewWorkspaceAccess) -> Workspace,
            example { "access": "private" };
        /// Reads the retention of a workspace.
        GetRetention: GET "/v1/workspaces/{id}/retention", 200, [404],
            { requires [Workspace DashboardRead] },
            workspaces.get_retention(id: WorkspaceId) -> Retention;
        /// Sets the retention of a workspace.
        ///
        /// Omitted fields keep chats and memories, and have recalls registered by searches and
        /// erased after 30 days. A chat that expires is absent from that moment on and erased soon
        /// after; a longer retention never brings it back. A memory that expires, or a recall
        /// without a subscription, remains until the daily sweep deletes it; until then, a longer
        /// retention keeps it.
        SetRetention: PUT "/v1/workspaces/{id}/retention", 200, [400, 404],
            { requires [Workspace ErasureManage], audits [RetentionUpdate] },
            workspaces.set_retention(id: WorkspaceId, body: NewRetention) -> Retention;
    }
    "Sources" (Bearer, identifies [Source]) {
        /// Creates a source.
        CreateSource: POST "/v1/sources", 201, [400],
            {
                requires [Organization ConnectorManage], audits [SourceCreate], uses [Sources],
                replays GetSource,
            },
            sources.create(body: NewSource) -> Source,
            links [GetSource];
        /// Lists the sources of the organisation.
        ///
        /// In order of creation.
        ListSources: GET "/v1/sources", 200, [400],
            { requires [Anywhere MemoryRead] },
            sources.list(page: PageRequest) -> Page<Source>;
        /// Reads a source.
        GetSource: GET "/v1/sources/{id}", 200, [404],
            { requires [Anywhere MemoryRead] },
            sources.get(id: SourceId) -> Source;
    }
    "Dashboard" (Bearer, identifies [Workspace]) {
        /// Summarises a workspace for its dashboard.
        ///
        /// Its cost does not depend on the number of memories.
        GetDashboardSummary: GET "/v1/workspaces/{id}/dashboard-summary", 200, [404],
            { requires [Workspace DashboardRead], errors in Headers },
            get_dashboard_summary(id: WorkspaceId) -> RevalidatedDashboard, by handler;
        /// Counts what happened to a workspace's memories on its last days.
        ///
        /// Days are those of UTC, the oldest first, the last one today. The numbers count every
        /// memory, whoever may know of it.
        GetActivity: GET "/v1/workspaces/{id}/activity", 200, [400, 404],
            { requires [Workspace DashboardRead] },
            workspaces.get_activity(id: WorkspaceId, days: ActivityDays) -> Activity;
    }
    "Connectors" (Bearer, identifies [Workspace, Connector]) {
        /// Creates a connector.
        CreateConnector: POST "/v1/workspaces/{id}/connectors", 201, [400, 404],
            {
                requires [Workspace ConnectorManage], audits [ConnectorCreate],
                replays GetConnector,
            },
            connectors.create(id: WorkspaceId, body: NewConnector) -> ConnectorDetails,
            links [GetConnector, UpdateConnector, DeleteConnector, ReportSync];
        /// Lists a workspace's connectors with their health.
        ///
        /// In order of creation.
        ListConnectors: GET "/v1/workspaces/{id}/connectors", 200, [400, 404],
            { requires [Workspace DashboardRead] },
            connectors.list(id: WorkspaceId, page: PageRequest) -> Page<ConnectorDetails>;
        /// Reads a connector with its health.
        GetConnector: GET "/v1/workspaces/{id}/connectors/{connectorId}", 200, [404],
            { requires [Workspace DashboardRead] },
            connectors.get(id: WorkspaceId, connectorId: ConnectorId) -> ConnectorDetails;
        /// Changes a connector.
        ///
        /// Omitted fields are unchanged.
        UpdateConnector: PATCH "/v1/workspaces/{id}/connectors/{connectorId}", 200, [400, 404],
            { requires [Workspace ConnectorManage], audits [ConnectorUpdate, ConnectorPause] },
            connectors.update(
                id: WorkspaceId, connectorId: ConnectorId, body: ConnectorUpdate
            ) -> ConnectorDetails;
        /// Deletes a connector.
        ///
        /// Memories that it imported remain.
        DeleteConnector: DELETE "/v1/workspaces/{id}/connectors/{connectorId}", 204, [404],
            { requires [Workspace ConnectorManage], audits [ConnectorDelete] },
            connectors.delete(id: WorkspaceId, connectorId: ConnectorId) -> Nothing;
        /// Reports the result of a connector's sync.
        ///
        /// A change of the connector's status is published as an event. If the response is lost,
        /// send the report again.
        ReportSync: POST "/v1/workspaces/{id}/connectors/{connectorId}/sync-reports",
            204, [400, 404],
            { requires [Workspace ConnectorReport] },
            report_sync(
                id: WorkspaceId, connectorId: ConnectorId, body: SyncReportRequest
            ) -> Nothing, by handler,
            example {
                "outcome": "failure", "error": "the token expired", "is_authentication": true,
            };
    }
    "MCP keys" (Bearer, identifies [Workspace, Credential]) {
        /// Creates an MCP key.
        ///
        /// `secret` is the key itself, returned only in this response. An unknown client is stored
        /// as `other`. The key depends on the member that creates it; if that is done with a
        /// scoped token, it also ends with the token.
        CreateMcpKey: POST "/v1/workspaces/{id}/mcp-keys", 201, [400, 404],
            {
                requires [
                    Workspace McpKeyManage,
                    Workspace MemoryPropose "for a key that proposes memories",
                ],
                audits [McpKeyCreate], replays GetMcpKey,
            },
            mcp_keys.create(id: WorkspaceId, body: NewMcpKey) -> IssuedMcpKey,
            links [GetMcpKey, RotateMcpKey, RevokeMcpKey];
        /// Lists the MCP keys of a workspace.
        ///
        /// In order of creation, without the keys themselves.
        ListMcpKeys: GET "/v1/workspaces/{id}/mcp-keys", 200, [400, 404],
            { requires [Workspace DashboardRead] },
            mcp_keys.list(id: WorkspaceId, page: PageRequest) -> Page<McpKeySummary>;
        /// Reads an MCP key.
        GetMcpKey: GET "/v1/workspaces/{id}/mcp-keys/{keyId}", 200, [404],
            { requires [Workspace DashboardRead] },
            mcp_keys.get(id: WorkspaceId, keyId: CredentialId) -> McpKeySummary;
        /// Replaces the secret of an MCP key.
        ///
        /// The old secret stops working immediately; the identifier is unchanged. From then on the
        /// key acts as the member that rotates it, and its audience has to cover that member.
        RotateMcpKey: POST "/v1/workspaces/{id}/mcp-keys/{keyId}/rotate", 200, [400, 404],
            { requires [Workspace McpKeyManage], audits [McpKeyRotate] },
            rotate_mcp_key(
                id: WorkspaceId, keyId: CredentialId, body: RotateMcpKeyRequest
            ) -> IssuedMcpKey, by handler;
        /// Revokes an MCP key.
        ///
        /// The key stops working immediately.
        RevokeMcpKey: DELETE "/v1/workspaces/{id}/mcp-keys/{keyId}", 204, [404],
            { requires [Workspace McpKeyManage], audits [McpKeyRevoke] },
            mcp_keys.revoke(id: WorkspaceId, keyId: CredentialId) -> Nothing;
    }
    "Chats" (Bearer, identifies [Workspace, Chat]) {
        /// Creates a chat.
        ///
        /// It exists for its participants: the caller and the members that the request names.
        CreateChat: POST "/v1/workspaces/{id}/chats", 201, [400, 404],
            { requires [Workspace ChatWrite], audits [ChatCreate], uses [Chats], replays GetChat },
            chats.create(id: WorkspaceId, body: NewChat) -> Chat,
            links [GetChat, PostChatMessage, ListChatMessages];
        /// Lists the chats of a workspace that the caller takes part in.
        ///
        /// Most recently created first.
        ListChats: GET "/v1/workspaces/{id}/chats", 200, [400, 404],
            { requires [Workspace DashboardRead] },
            chats.list(id: WorkspaceId, page: PageRequest) -> Page<Chat>;
        /// Reads a chat.
        GetChat: GET "/v1/workspaces/{id}/chats/{sessionId}", 200, [404],
            { requires [Workspace DashboardRead] },
            chats.get(id: WorkspaceId, sessionId: ChatId) -> Chat;
        /// Deletes a chat with its messages.
        DeleteChat: DELETE "/v1/workspaces/{id}/chats/{sessionId}", 204, [404],
            {
                requires [
                    Workspace ChatWrite "for a chat that the caller created",
                    Workspace ErasureManage "for a chat of another member, also one that the \
                        caller takes no part in",
                ],
                audits [ChatDelete],
            },
            chats.delete(id: WorkspaceId, sessionId: ChatId) -> Nothing;
        /// Adds a message to a chat.
        PostChatMessage: POST "/v1/workspaces/{id}/chats/{sessionId}/messages", 201, [400, 404],
            { requires [Workspace ChatWrite], uses [ChatMessages], replays ListChatMessages },
            post_chat_message(
                id: WorkspaceId, sessionId: ChatId, body: NewChatMessage
            ) -> ChatMessage, by handler;
        /// Lists the messages of a chat.
        ///
        /// Oldest first.
        ListChatMessages: GET "/v1/workspaces/{id}/chats/{sessionId}/messages", 200, [400, 404],
            { requires [Workspace DashboardRead] },
            chats.list_messages(
                id: WorkspaceId, sessionId: ChatId, page: PageRequest
            ) -> Page<ChatMessage>;
    }
    "Erasures" (Bearer, identifies [Erasure]) {
        /// Erases memories and what was made from them.
        ///
        /// Everything of a member, everything from a source, or the named memories, with their
        /// labels and source keys, the recalls that cite nothing else, and, of a member, its
        /// recalls and chats. The response is the receipt, which says when the erasure is
        /// complete. Within 24 hours the same `Idempotency-Key` with the same body returns the
        /// receipt; with a different body it is rejected.
        ///
        /// A keyed hash of each source key stays, unless `suppress` is `false`, so that an ingest
        /// does not bring the memory back. With `dryRun` the response is `200` with what would be
        /// counted; nothing is erased, and the key can be used again.
        CreateErasure: POST "/v1/erasures", 201, [400, 409, 422],
            {
                requires [Organization ErasureManage], audits [ErasureCreate], reads 5,
                seals secret,
            },
            create_erasure(key: IdempotencyKey, body: NewErasure) -> ErasureResponse, by handler,
            example { "memoryIds": ["01890a5d-ac96-774b-bcce-b302099a8057"] },
            links [GetErasure];
        /// Lists the receipts of erasures.
        ///
        /// Newest first.
        ListErasures: GET "/v1/erasures", 200, [400],
            { requires [Organization ErasureManage] },
            erasures.list(page: PageRequest) -> Page<Erasure>,
            links [GetErasure];
        /// Reads the receipt of an erasure.
        ///
        /// It counts what was removed, and says what remains where, and until when.
        GetErasure: GET "/v1/erasures/{id}", 200, [404],
            { requires [Organization ErasureManage] },
            erasures.get(id: ErasureId) -> Erasure;
    }
    "Custom roles" (Session, identifies [Organization, Role], reads 2) {
        /// Deletes a custom role.
        ///
        /// `reassign_to` names the new role of its holders: `viewer`, `member` or an active
        /// organisation-wide custom role. It is required if the role has holders.
        DeleteCustomRole: DELETE "/v1/orgs/{orgSlug}/custom-roles/{roleId}",
            204, [400, 404, 409 "role_in_use"],
            { requires [Organization RoleManage], audits [RoleDelete] },
            roles.delete(orgSlug: OrgSlug, roleId: RoleId, body: DeleteRole) -> Nothing,
            example { "reassign_to": "viewer" };
        /// Changes a custom role.
        ///
        /// Omitted fields are unchanged. A caller cannot grant permissions that it does not hold.
        UpdateCustomRole: PATCH "/v1/orgs/{orgSlug}/custom-roles/{roleId}",
            200, [400, 404, 409 "slug_taken", 412],
            { requires [Organization RoleManage], audits [RoleUpdate] },
            roles.update(
                orgSlug: OrgSlug, roleId: RoleId, body: CustomRoleUpdate, version: Option<IfMatch>
            ) -> Data<WithEtag<CustomRole>>,
            example {
                "description": "Reviews new memories.",
                "actions": { "allow": ["memory:review"], "deny": ["chat:write"] },
            };
        /// Lists the custom roles of an organisation.
        ///
        /// All of them on one page, sorted by name, then by identifier.
        ListCustomRoles: GET "/v1/orgs/{orgSlug}/custom-roles", 200, [404],
            { requires [Organization RoleRead] },
            roles.list(orgSlug: OrgSlug) -> Data<Vec<CustomRole>>;
        /// Creates a custom role.
        ///
        /// A caller cannot grant permissions that it does not hold.
        CreateCustomRole: POST "/v1/orgs/{orgSlug}/custom-roles", 201, [400, 404, 409 "slug_taken"],
            { requires [Organization RoleManage], audits [RoleCreate], replays GetCustomRole },
            roles.create(
                orgSlug: OrgSlug, body: NewCustomRole
            ) -> Data<WithEtag<CustomRole>>,
            links [GetCustomRole];
        /// Reads a custom role.
        GetCustomRole: GET "/v1/orgs/{orgSlug}/custom-roles/{roleId}", 200, [404],
            { requires [Organization RoleRead], reads 3 },
            roles.get(orgSlug: OrgSlug, roleId: RoleId) -> Data<WithEtag<CustomRole>>;
    }
    "Members" (Session, identifies [Organization, Member], reads 2) {
        /// Lists the members of an organisation.
        ///
        /// In order of addition.
        ListMembers: GET "/v1/orgs/{orgSlug}/members", 200, [400, 404],
            { requires [Organization RoleRead] },
            members.list(orgSlug: OrgSlug, page: PageRequest) -> Page<Member>;
        /// Adds a member.
        ///
        /// Adding a member issues no token and no session. With `login_link`, a person gets a link
        /// that signs them in once, within a day; it is returned only in this response. A caller
        /// cannot grant more than it holds: neither a role with other permissions nor, without all
        /// permissions, a team that it is not in. Only owners can add owners.
        AddMember: POST "/v1/orgs/{orgSlug}/members", 201, [400, 404, 409 "slug_taken"],
            {
                requires [Organization MemberManage], audits [MemberCreate], uses [Members],
                replays GetMember,
            },
            members.add(orgSlug: OrgSlug, body: NewMember) -> Data<WithEtag<AddedMember>>,
            example {
                "handle": "ada", "name": "Ada", "role": "member", "teams": ["platform"],
                "login_link": true,
            },
            links [GetMember, UpdateMember, CreateLoginLink, RemoveMember];
        /// Creates a login link for a person who has no session or token yet.
        ///
        /// The link signs the person in once, within a day; its `secret` and `url` are returned
        /// only in this response, and the link that they had before is revoked. It is for members
        /// that were added by others, until they sign in for the first time.
        CreateLoginLink: POST "/v1/orgs/{orgSlug}/members/{memberId}/login-links",
            200, [400, 404],
            { requires [Organization MemberManage], audits [CredentialCreate], reads 3 },
            members.create_login_link(orgSlug: OrgSlug, memberId: MemberId; Empty)
                -> Data<LoginLink>;
        /// Reads a member with its workspace roles.
        GetMember: GET "/v1/orgs/{orgSlug}/members/{memberId}", 200, [404],
            { requires [Organization RoleRead] },
            members.get(orgSlug: OrgSlug, memberId: MemberId) -> Data<WithEtag<MemberDetails>>;
        /// Changes a member.
        ///
        /// Omitted fields are unchanged. Only owners can change owners, and one owner always
        /// remains. A change of the role or the teams revokes the login link of a person who has
        /// no session or token yet.
        UpdateMember: PATCH "/v1/orgs/{orgSlug}/members/{memberId}", 200, [400, 404, 412],
            { requires [Organization MemberManage], audits [MemberUpdate, RoleAssign] },
            members.update(
                orgSlug: OrgSlug, memberId: MemberId, body: MemberUpdate, version: Option<IfMatch>
            ) -> Data<WithEtag<MemberDetails>>,
            example { "role": "admin" };
        /// Removes a member.
        ///
        /// Its tokens, sessions and MCP keys stop working immediately. Only owners can remove
        /// owners, and one owner always remains.
        RemoveMember: DELETE "/v1/orgs/{orgSlug}/members/{memberId}", 204, [400, 404],
            { requires [Organization MemberManage], audits [MemberRemove] },
            members.remove(orgSlug: OrgSlug, memberId: MemberId) -> Nothing;
        /// Assigns a member a role in a workspace.
        ///
        /// It replaces the role in the organisation there. Only owners can restrict owners. The
        /// login link of a person who has no session or token yet is revoked.
        AssignWorkspaceRole:
            PUT "/v1/orgs/{orgSlug}/members/{memberId}/workspace-roles/{workspaceId}",
            204, [400, 404],
            { requires [Organization MemberManage], audits [RoleAssign] },
            assign_workspace_role(
                orgSlug: OrgSlug, memberId: MemberId, workspaceId: WorkspaceId,
                body: AssignWorkspaceRoleRequest
            ) -> Nothing, by handler,
            example { "role": "viewer" };
        /// Removes a member's role in a workspace.
        ///
        /// The role in the organisation applies there again. The login link of a person who has no
        /// session or token yet is revoked.
        EndWorkspaceRole:
            DELETE "/v1/orgs/{orgSlug}/members/{memberId}/workspace-roles/{workspaceId}",
            204, [404],
            { requires [Organization MemberManage], audits [RoleAssign] },
            members.end_workspace_role(
                orgSlug: OrgSlug, memberId: MemberId, workspaceId: WorkspaceId
            ) -> Nothing;
    }
    "API tokens" (Session, identifies [Organization, Member, Credential], reads 2) {
        /// Creates an API token of the caller or of a service account.
        ///
        /// `secret` is the token itself, returned only in this response. The token acts as its
        /// member, within the scope in `narrowing`, and depends on that member only: signing out
        /// does not end it, unless the session is ended `with_created`. Nobody creates a token of
        /// another person, or of a service account that may do more than they may.
        CreateToken: POST "/v1/orgs/{orgSlug}/members/{memberId}/tokens", 201, [400, 404],
            {
                requires [Organization TokenManage "for a service account"],
                audits [CredentialCreate], replays GetToken,
            },
            tokens.create(
                orgSlug: OrgSlug, memberId: MemberId, body: NewApiToken
            ) -> Data<IssuedApiToken>,
            example {
                "name": "Search", "expires_in_seconds": 2_592_000,
                "narrowing": { "actions": ["memory:read"] },
            },
            links [GetToken, EndToken];
        /// Lists the API tokens of the caller or of a service account.
        ///
        /// Valid ones in order of creation, without the tokens themselves. Those that the operator
        /// issued are among them.
        ListTokens: GET "/v1/orgs/{orgSlug}/members/{memberId}/tokens", 200, [400, 404],
            { requires [Organization TokenManage "for a service account"], reads 3 },
            tokens.list(
                orgSlug: OrgSlug, memberId: MemberId, page: PageRequest
            ) -> Page<ApiToken>;
        /// Reads an API token of the caller or of a service account.
        GetToken: GET "/v1/orgs/{orgSlug}/members/{memberId}/tokens/{tokenId}", 200, [404],
            { requires [Organization TokenManage "for a service account"], reads 3 },
            tokens.get(
                orgSlug: OrgSlug, memberId: MemberId, tokenId: CredentialId
            ) -> Data<ApiToken>;
        /// Ends an API token of the caller or of a service account.
        ///
        /// The token stops working immediately. What it created ends with it if the token was
        /// scoped; everything else that was created with it remains, unless `with_created` is
        /// `true`.
        EndToken: DELETE "/v1/orgs/{orgSlug}/members/{memberId}/tokens/{tokenId}", 204, [400, 404],
            {
                requires [Organization TokenManage "for a service account"],
                audits [CredentialRevoke], reads 3,
            },
            tokens.end(
                orgSlug: OrgSlug, memberId: MemberId, tokenId: CredentialId, also: WithCreated
            ) -> Nothing;
    }
    "Recalls" (Bearer, identifies [Recall]) {
        /// Registers a recall with the memories that it cites.
        ///
        /// Its subscribers are notified when one of the memories changes.
        CreateRecall: POST "/v1/workspaces/{id}/recalls", 201, [400, 404],
            {
                requires [Workspace RecallCreate], audits [RecallCreate], uses [Recalls],
                replays GetRecall, identifies [Workspace],
            },
            recalls.create(id: WorkspaceId, body: NewRecall) -> Recall,
            example {
                "query": "Who is on call?",
                "memory_ids": ["01890a5d-ac96-774b-bcce-b302099a8057"],
            },
            links [GetRecall, ListCitationSubscriptions { recall_id: "$response.body#/id" }];
        /// Searches a workspace for the memories that answer a question.
        ///
        /// It registers them as a recall, unless `record` is `false`, or `record_recalls` in the
        /// retention of the workspace. They are approved memories that the caller may read: those
        /// with words of the `query`, ranked by BM25 over nothing but these, the `candidates` of
        /// another index in their order, or both rankings fused. `503` to a `query` while the index
        /// of the workspace is built.
        SearchRecalls: POST "/v1/workspaces/{id}/recalls/search", 200, [400, 404, 409],
            {
                requires [Workspace RecallCreate, Workspace MemoryRead],
                audits [RecallCreate, MemoryRead], uses [Recalls], reads 4,
                identifies [Workspace],
            },
            recalls.search(id: WorkspaceId, body: RecallSearch) -> RecallResults,
            example { "query": "Who is on call?" },
            links [GetRecall { id: "$response.body#/recall_id" }];
        /// Lists the recalls of a workspace.
        ///
        /// Newest first, each with the cited memories that exist for the caller. With `memoryId`,
        /// those that cite this memory and show it to the caller.
        ListRecalls: GET "/v1/workspaces/{id}/recalls", 200, [400, 404],
            { requires [Workspace MemoryRead], reads 4, identifies [Workspace] },
            recalls.list(
                id: WorkspaceId, filter: CitationFilter, page: PageRequest
            ) -> Page<RecallSummary>;
        /// Reads a recall with the memories that it cites.
        GetRecall: GET "/v1/recalls/{id}", 200, [404],
            { requires [Workspace MemoryRead] },
            recalls.get(id: RecallId) -> Recall;
        /// Narrows a recall to the memories that the answer cites.
        ///
        /// All others are no longer cited: no subscriber is notified of their changes.
        UpdateRecall: PATCH "/v1/recalls/{id}", 200, [400, 404],
            {
                requires [Workspace RecallCreate "for a recall that the caller registered"],
                audits [RecallUpdate],
            },
            recalls.update(id: RecallId, body: RecallUpdate) -> Recall,
            example { "memory_ids": ["01890a5d-ac96-774b-bcce-b302099a8057"] };
        /// Deletes a recall with its citation subscriptions.
        DeleteRecall: DELETE "/v1/recalls/{id}", 204, [404],
            {
                requires [
                    Workspace RecallCreate "for a recall that the caller registered",
                    Workspace ErasureManage "for a recall of another member, also one that does \
                        not exist for the caller",
                ],
                audits [RecallDelete],
            },
            recalls.delete(id: RecallId) -> Nothing;
    }
    "Audit log" (Bearer, identifies []) {
        /// Lists the entries of the audit log, newest first.
        ///
        /// `resource_id` requires `resource_kind`. A filter that excludes many entries may leave a
        /// page short although more follow; it is empty only at the end, or with a `next_cursor` if
        /// nothing was found in 15 seconds.
        ListAuditEntries: GET "/v1/audit-log", 200, [400],
            { requires [Organization AuditRead] },
            audit_log.list(filter: AuditFilter, page: PageRequest) -> Page<AuditEntry>,
            links [GetAuditEntry];
        /// Reads an entry of the audit log.
        ///
        /// `before` and `after` hold the identifiers and labels of the changed resource, never the
        /// content of a memory.
        GetAuditEntry: GET "/v1/audit-log/{id}", 200, [404],
            { requires [Organization AuditRead] },
            audit_log.get(id: AuditLogId) -> AuditEntry;
    }
    "Citation subscriptions" (Bearer, identifies [Subscription]) {
        /// Subscribes to the citations of a recall.
        ///
        /// A subscription is for a single answer; to follow all answers of a workspace, register
        /// one webhook for `citation.changed`. `signing_secret` is returned only in this response.
        CreateCitationSubscription: POST "/v1/citation-subscriptions", 201, [400, 404],
            {
                requires [Workspace CitationSubscriptionManage], audits [SubscriptionCreate],
                uses [Endpoints], replays GetCitationSubscription, seals secret,
                errors in Headers,
            },
            citation_subscriptions.create(body: NewCitationSubscription) -> CitationSubscription,
            links [
                GetCitationSubscription, RotateCitationSubscriptionSecret,
                PingCitationSubscription, ListCitationSubscriptionDeliveries,
                RedeliverDeadToCitationSubscription, DeleteCitationSubscription,
            ];
        /// Lists the subscriptions to the citations of a recall.
        ///
        /// In order of creation.
        ListCitationSubscriptions: GET "/v1/citation-subscriptions", 200, [400, 404],
            { requires [Workspace CitationSubscriptionManage] },
            citation_subscriptions.list(
                recall: RecallFilter, page: PageRequest
            ) -> Page<CitationSubscription>;
        /// Reads a citation subscription.
        GetCitationSubscription: GET "/v1/citation-subscriptions/{id}", 200, [404],
            { requires [Workspace CitationSubscriptionManage] },
            citation_subscriptions.get(id: SubscriptionId) -> CitationSubscription;
        /// Deletes a citation subscription.
        DeleteCitationSubscription: DELETE "/v1/citation-subscriptions/{id}", 204, [404],
            {
                requires [
                    Workspace CitationSubscriptionManage,
                    Workspace WebhookManage "for another member's subscription",
                ],
                audits [SubscriptionDelete],
            },
            citation_subscriptions.delete(id: SubscriptionId) -> Nothing;
        /// Replaces the signing secret of a citation subscription.
        ///
        /// The new `signing_secret` is returned only in this response. For 24 hours deliveries are
        /// signed with the old one too.
        RotateCitationSubscriptionSecret: POST "/v1/citation-subscriptions/{id}/rotate-secret",
            200, [400, 404],
            {
                requires [
                    Workspace CitationSubscriptionManage,
                    Workspace WebhookManage "for another member's subscription",
                ],
                audits [SubscriptionRotateSecret], seals secret,
            },
            citation_subscriptions.rotate_secret(id: SubscriptionId; Empty) -> RotatedSecret;
    } deliveries {
        to "a citation subscription" at "/v1/citation-subscriptions/{id}", SubscriptionEndpoint,
        requires [
            Workspace CitationSubscriptionManage,
            Workspace WebhookManage "for another member's subscription",
        ], audits [SubscriptionRedeliver, SubscriptionPing],
        operations [
            ListCitationSubscriptionDeliveries, GetCitationSubscriptionDelivery,
            RedeliverToCitationSubscription, RedeliverDeadToCitationSubscription,
            PingCitationSubscription,
        ]
    }
    "Webhooks" (Bearer, identifies [Workspace, Webhook]) {
        /// Registers an outbound webhook.
        ///
        /// `signing_secret` is returned only in this response.
        CreateWebhook: POST "/v1/workspaces/{id}/webhooks", 201, [400, 404],
            {
                requires [Workspace WebhookManage], audits [WebhookCreate], uses [Endpoints],
                replays GetWebhook, seals secret, errors in Headers,
            },
            webhooks.create(id: WorkspaceId, body: NewWebhook) -> Webhook,
            links [
                GetWebhook, UpdateWebhook, RotateWebhookSecret, PingWebhook, ListWebhookDeliveries,
                RedeliverDeadToWebhook, DeleteWebhook,
            ];
        /// Lists the outbound webhooks of a workspace.
        ///
        /// In order of creation, without their secrets.
        ListWebhooks: GET "/v1/workspaces/{id}/webhooks", 200, [400, 404],
            { requires [Workspace WebhookManage] },
            webhooks.list(id: WorkspaceId, page: PageRequest) -> Page<Webhook>;
        /// Reads an outbound webhook.
        GetWebhook: GET "/v1/workspaces/{id}/webhooks/{webhookId}", 200, [404],
            { requires [Workspace WebhookManage] },
            webhooks.get(id: WorkspaceId, webhookId: WebhookId) -> WithEtag<Webhook>;
        /// Changes an outbound webhook.
        ///
        /// Omitted fields are unchanged.
        UpdateWebhook: PATCH "/v1/workspaces/{id}/webhooks/{webhookId}", 200, [400, 404, 412],
            { requires [Workspace WebhookManage], audits [WebhookUpdate] },
            webhooks.update(
                id: WorkspaceId, webhookId: WebhookId, body: WebhookUpdate, version: Option<IfMatch>
            ) -> WithEtag<Webhook>;
        /// Deletes an outbound webhook.
        DeleteWebhook: DELETE "/v1/workspaces/{id}/webhooks/{webhookId}", 204, [404],
            { requires [Workspace WebhookManage], audits [WebhookDelete] },
            webhooks.delete(id: WorkspaceId, webhookId: WebhookId) -> Nothing;
        /// Replaces the signing secret of an outbound webhook.
        ///
        /// The new `signing_secret` is returned only in this response. The old one remains valid
        /// for 24 hours.
        RotateWebhookSecret: POST "/v1/workspaces/{id}/webhooks/{webhookId}/rotate-secret",
            200, [400, 404],
            { requires [Workspace WebhookManage], audits [WebhookRotateSecret], seals secret },
            webhooks.rotate_secret(id: WorkspaceId, webhookId: WebhookId; Empty) -> RotatedSecret;
    } deliveries {
        to "an outbound webhook" at "/v1/workspaces/{id}/webhooks/{webhookId}", WebhookEndpoint,
        requires [Workspace WebhookManage], audits [WebhookRedeliver, WebhookPing],
        operations [
            ListWebhookDeliveries, GetWebhookDelivery, RedeliverToWebhook, RedeliverDeadToWebhook,
            PingWebhook,
        ]
    }
    "Inbound webhooks" (Bearer, identifies [Workspace, InboundWebhook]) {
        /// Registers an inbound webhook.
        ///
        /// `signing_secret` is returned only in this response. Senders post to `url`.
        CreateInboundWebhook: POST "/v1/workspaces/{id}/inbound-webhooks", 201, [400, 404],
            {
                requires [Workspace InboundWebhookManage], audits [InboundWebhookCreate],
                uses [Endpoints, Sources], replays GetInboundWebhook, seals secret,
                errors in Headers,
            },
            inbound_webhooks.create(id: WorkspaceId, body: NewInboundWebhook) -> InboundWebhook,
            links [
                PostToInboundWebhook { org: "$response.body#/org_id", id: "$response.body#/id" },
                GetInboundWebhook, UpdateInboundWebhook, RotateInboundWebhookSecret,
                DeleteInboundWebhook,
            ];
        /// Lists the inbound webhooks of a workspace.
        ///
        /// In order of creation, without their secrets.
        ListInboundWebhooks: GET "/v1/workspaces/{id}/inbound-webhooks", 200, [400, 404],
            { requires [Workspace InboundWebhookManage] },
            inbound_webhooks.list(id: WorkspaceId, page: PageRequest) -> Page<InboundWebhook>;
        /// Reads an inbound webhook.
        GetInboundWebhook: GET "/v1/workspaces/{id}/inbound-webhooks/{webhookId}", 200, [404],
            { requires [Workspace InboundWebhookManage] },
            inbound_webhooks.get(
                id: WorkspaceId, webhookId: InboundWebhookId
            ) -> WithEtag<InboundWebhook>;
        /// Changes an inbound webhook.
        ///
        /// Omitted fields are unchanged.
        UpdateInboundWebhook: PATCH "/v1/workspaces/{id}/inbound-webhooks/{webhookId}",
            200, [400, 404, 412],
            { requires [Workspace InboundWebhookManage], audits [InboundWebhookUpdate] },
            inbound_webhooks.update(
                id: WorkspaceId, webhookId: InboundWebhookId, body: InboundWebhookUpdate,
                version: Option<IfMatch>
            ) -> WithEtag<InboundWebhook>;
        /// Deletes an inbound webhook.
        DeleteInboundWebhook: DELETE "/v1/workspaces/{id}/inbound-webhooks/{webhookId}", 204, [404],
            { requires [Workspace InboundWebhookManage], audits [InboundWebhookDelete] },
            inbound_webhooks.delete(id: WorkspaceId, webhookId: InboundWebhookId) -> Nothing;
        /// Replaces the signing secret of an inbound webhook.
        ///
        /// The new `signing_secret` is returned only in this response. The old one remains valid
        /// for 24 hours.
        RotateInboundWebhookSecret:
            POST "/v1/workspaces/{id}/inbound-webhooks/{webhookId}/rotate-secret",
            200, [400, 404],
            {
                requires [Workspace InboundWebhookManage], audits [InboundWebhookRotateSecret],
                seals secret,
            },
            inbound_webhooks.rotate_secret(
                id: WorkspaceId, webhookId: InboundWebhookId; Empty
            ) -> RotatedSecret;
        /// Ingests the memories posted to an inbound webhook.
        ///
        /// The address is the `url` of the inbound webhook. The message is signed with the
        /// webhook's secret (Standard Webhooks 1.0.0), at most 5 minutes from the server's time in
        /// either direction. The memories wait for review and belong to the source of the webhook;
        /// a known `source_key` updates that memory, and one that was erased is left out. A message
        /// is ingested completely or not at all. For 7 days, the repetition of an accepted message
        /// is answered `204` and has no effect. The member in `acts_as` creates the memories with
        /// its current permissions: `403` if it has been removed or lacks them.
        PostToInboundWebhook: POST "/v1/inbound/{org}/{id}", 204, [400, 404],
            {
                requires [
                    Workspace MemoryCreate "held by the member that the inbound webhook acts as",
                    Workspace MemoryUpdate "held by that member, to update a memory with a known \
                        source key",
                ],
                audits [MemoryIngest], uses [Memories], reads 4, authentication Signature,
                identifies [Organization, InboundWebhook],
            },
            post_to_inbound_webhook(
                org: OrgId, id: InboundWebhookId, message: SignedHeaders, body: InboundBatch
            ) -> Nothing, by signature;
    }
    } };
}

pub(crate) use operations;

/// Appends the operations on the deliveries to an endpoint, which are the same for each kind of
/// endpoint, to the capabilities that have them. Passes all rows to a macro.
macro_rules! with_deliveries {
    ($then:ident $context:tt $(
        $capability:literal $defaults:tt { $($rows:tt)* } $(deliveries {
            to $noun:literal at $path:literal, $endpoint:ident,
            requires $requires:tt, audits [$redelivered:ident, $pinged:ident],
            operations [
                $list:ident, $get:ident, $redeliver:ident, $redeliver_dead:ident, $ping:ident $(,)?
            ]
        })?
    )+) => { $then! { $context $($capability $defaults { $($rows)* $(
        #[doc = concat!(" Lists the deliveries to ", $noun, ", newest event first.")]
        ///
        /// Deliveries within the retention period, by the time of their events. Each has its
        /// attempts, oldest first, with time, duration, and the status of the response or the
        /// failure.
        $list: GET concat!($path, "/deliveries"), 200, [400, 404],
            { requires $requires },
            deliveries.list(
                endpoint: $endpoint, filter: StatusFilter, page: PageRequest
            ) -> Page<Delivery>;
        #[doc = concat!(" Reads a delivery to ", $noun, " with its attempts.")]
        $get: GET concat!($path, "/deliveries/{deliveryId}"), 200, [404],
            { requires $requires },
            deliveries.get(endpoint: $endpoint, deliveryId: DeliveryId) -> Delivery;
        #[doc = concat!(" Redelivers an event to ", $noun, ".")]
        ///
        /// The delivery is due immediately, with a new retry schedule and the same `webhook-id`,
        /// whatever its state. Read it again for the result. An inactive endpoint has to be
        /// activated first.
        $redeliver: POST concat!($path, "/deliveries/{deliveryId}/redeliver"),
            202, [400, 404, 409 "endpoint_off"],
            { requires $requires, audits [$redelivered], reads 4 },
            deliveries.redeliver(endpoint: $endpoint, deliveryId: DeliveryId; Empty) -> Delivery,
            links [$get];
        #[doc = concat!(" Redelivers the dead letters of ", $noun, ".")]
        ///
        /// Dead letters are redelivered oldest first, each as by a single redelivery. If `has_more`
        /// is true, call again: more remain than one call processes.
        $redeliver_dead: POST concat!($path, "/deliveries/redeliver-dead"),
            202, [400, 404, 409 "endpoint_off"],
            { requires $requires, audits [$redelivered], reads 4 },
            deliveries.redeliver_dead(endpoint: $endpoint; Empty) -> RedeliveryReport;
        #[doc = concat!(" Sends a test event to ", $noun, ".")]
        ///
        /// Sends one `webhook.ping` in a single attempt, whatever the event type of the endpoint.
        /// Read the delivery again for the result. An endpoint that the service disabled receives
        /// it too, and a 2xx response activates it again. An endpoint that its owner deactivated
        /// does not.
        $ping: POST concat!($path, "/ping"), 202, [400, 404, 409 "endpoint_off"],
            { requires $requires, audits [$pinged], replays $get },
            deliveries.ping(endpoint: $endpoint; Empty) -> Delivery,
            links [$get, $redeliver];
    )? })+ } };
}

pub(crate) use with_deliveries;
