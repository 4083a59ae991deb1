import type { RequestLike } from "./index.js";
import type { Action, AudienceLabel, Workspace } from "./operations.js";

/** Which page of a list. */
export interface PageQuery {
  /** How many items, at most 200. */
  limit?: number;
  /** `next_cursor` of the page before. */
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

/** A member as the operator sees it. */
export interface ProvisionedMember {
  id: string;
  kind: "user" | "service_account";
  handle: string;
  name: string;
  /** The role in the organisation: one of the four, or the slug of a custom role. */
  role: string;
  /** The roles in workspaces, which replace it there. */
  workspace_roles: Array<{ workspace: string; role: string }>;
  teams: string[];
  created_at: string;
}

/** A token or a session as the operator sees it. */
export interface Credential {
  id: string;
  kind: "bearer" | "session";
  name: string;
  /** The handle of the member that whoever presents it acts as. */
  member: string;
  state: "valid" | "expired" | "revoked";
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
 * The operator's side of a service. Nothing here asks who calls: whoever can call it can do everything. Organisations are
 * named by their slug, workspaces by slug or identifier, members by handle or identifier.
 */
export class Provisioning {
  private constructor();
  /**
   * Answers a request to the operator's interface as the server's socket for it does: the methods below are its requests, at
   * `/admin/v1/orgs` and under it, and deliveries can be looked after there. Let nobody else's requests through.
   */
  fetch(request: RequestLike): Promise<Response>;
  organizations(page?: PageQuery): Promise<Page<Organization>>;
  /** Makes an organisation with its first member, who owns it. */
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
  /** Gives a role in the organisation, or with a `workspace` in that. */
  assignRole(
    org: string,
    member: string,
    role: { role: string; workspace?: string },
  ): Promise<ProvisionedMember>;
  endWorkspaceRole(org: string, member: string, workspace: string): Promise<ProvisionedMember>;
  credentials(org: string, page?: PageQuery & { kind?: "bearer" | "session" }): Promise<Page<Credential>>;
  /** Makes a token or a session. Its secret is in this answer and nowhere else. */
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
  /** Revokes a token or a session, by its identifier. Revoking it again changes nothing. */
  revokeCredential(org: string, credential: string): Promise<Credential>;
}
