import type { RequestLike } from "./index.js";
import type { Action, AudienceLabel, Workspace } from "./operations.js";

/** Parameters of a page of a list. */
export interface PageQuery {
  /** Number of items, at most 200. */
  limit?: number;
  /** `next_cursor` of the previous page. */
  cursor?: string;
}

/** A page of a list. */
export interface Page<T> {
  data: T[];
  /** The `cursor` of the next page; `null` at the end. */
  next_cursor: string | null;
}

export interface Organization {
  id: string;
  name: string;
  slug: string;
  created_at: string;
}

/** A member, as the operator API returns it. */
export interface ProvisionedMember {
  id: string;
  kind: "user" | "service_account";
  handle: string;
  name: string;
  /** The role in the organisation: a built-in one, or the slug of a custom role. */
  role: string;
  /** The roles in workspaces, which replace that of the organisation there. */
  workspace_roles: Array<{ workspace: string; role: string }>;
  teams: string[];
  created_at: string;
}

/** A token or a session, as the operator API returns it. */
export interface Credential {
  id: string;
  kind: "bearer" | "session";
  name: string;
  /** The handle of the member that the credential authenticates. */
  member: string;
  state: "valid" | "expired" | "revoked";
  /** The scope of the credential; `null` is unrestricted. */
  narrowing: {
    workspaces: string[] | null;
    actions: Action[] | null;
    audience: AudienceLabel[] | null;
  };
  created_at: string;
  expires_at: string;
  revoked_at: string | null;
}

/**
 * The operator API of a service, without authentication: a caller can do everything. Organisations
 * are given by slug, workspaces by slug or identifier, members by handle or identifier.
 */
export class Provisioning {
  private constructor();
  /**
   * Handles a request to the operator API, as the server's admin socket does. The methods below are
   * its requests, under `/admin/v1/orgs`; it also has requests for deliveries. Pass on requests of
   * the operator only.
   */
  fetch(request: RequestLike): Promise<Response>;
  organizations(page?: PageQuery): Promise<Page<Organization>>;
  /** Creates an organisation with its owner as the first member. */
  createOrganization(organization: {
    slug: string;
    name: string;
    owner: { handle: string; name: string };
  }): Promise<{ organization: Organization; owner: ProvisionedMember }>;
  organization(org: string): Promise<Organization>;
  workspaces(org: string, page?: PageQuery): Promise<Page<Workspace>>;
  createWorkspace(
    org: string,
    workspace: { slug: string; name: string; audience?: AudienceLabel },
  ): Promise<Workspace>;
  workspace(org: string, workspace: string): Promise<Workspace>;
  members(org: string, page?: PageQuery): Promise<Page<ProvisionedMember>>;
  createMember(
    org: string,
    member: {
      handle: string;
      name: string;
      role: string;
      kind?: "user" | "service_account";
      teams?: string[];
    },
  ): Promise<ProvisionedMember>;
  member(org: string, member: string): Promise<ProvisionedMember>;
  removeMember(org: string, member: string): Promise<void>;
  /** Assigns a role in the organisation, or in the given `workspace`. */
  assignRole(
    org: string,
    member: string,
    role: { role: string; workspace?: string },
  ): Promise<ProvisionedMember>;
  /** Removes the role of a member in a workspace. */
  endWorkspaceRole(org: string, member: string, workspace: string): Promise<ProvisionedMember>;
  credentials(org: string, page?: PageQuery & { kind?: "bearer" | "session" }): Promise<Page<Credential>>;
  /** Issues a token or a session. Its secret is returned only here. */
  issueCredential(
    org: string,
    credential: {
      member: string;
      kind: "bearer" | "session";
      name: string;
      expires_in_seconds: number;
      narrowing?: { workspaces?: string[]; actions?: Action[]; audience?: AudienceLabel[] };
    },
  ): Promise<{ secret: string; credential: Credential }>;
  /** Revokes a token or a session by its identifier. Idempotent. */
  revokeCredential(org: string, credential: string): Promise<Credential>;
}
