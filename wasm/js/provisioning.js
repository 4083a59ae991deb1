// The operator API of a service: organisations, workspaces, members, tokens and sessions.

function path(strings, ...names) {
  return String.raw({ raw: strings }, ...names.map((name) => encodeURIComponent(name)));
}

function withQuery(path, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(pairs).toString();
  return text === "" ? path : `${path}?${text}`;
}

/** Client of the operator API; organisations are given by slug. */
export class Provisioning {
  #ask;
  #answer;

  constructor(ask, answer) {
    this.#ask = ask;
    this.#answer = answer;
  }

  /** Handles a request to the operator API, `/admin/v1/...`, without authentication. */
  fetch(request) {
    return this.#answer(request);
  }

  organizations(page) {
    return this.#ask("GET", withQuery("/admin/v1/orgs", page));
  }

  createOrganization(organization) {
    return this.#ask("POST", "/admin/v1/orgs", organization);
  }

  organization(org) {
    return this.#ask("GET", path`/admin/v1/orgs/${org}`);
  }

  workspaces(org, page) {
    return this.#ask("GET", withQuery(path`/admin/v1/orgs/${org}/workspaces`, page));
  }

  createWorkspace(org, workspace) {
    return this.#ask("POST", path`/admin/v1/orgs/${org}/workspaces`, workspace);
  }

  workspace(org, workspace) {
    return this.#ask("GET", path`/admin/v1/orgs/${org}/workspaces/${workspace}`);
  }

  members(org, page) {
    return this.#ask("GET", withQuery(path`/admin/v1/orgs/${org}/members`, page));
  }

  createMember(org, member) {
    return this.#ask("POST", path`/admin/v1/orgs/${org}/members`, member);
  }

  member(org, member) {
    return this.#ask("GET", path`/admin/v1/orgs/${org}/members/${member}`);
  }

  async removeMember(org, member) {
    await this.#ask("DELETE", path`/admin/v1/orgs/${org}/members/${member}`);
  }

  assignRole(org, member, role) {
    return this.#ask("PUT", path`/admin/v1/orgs/${org}/members/${member}/role`, role);
  }

  endWorkspaceRole(org, member, workspace) {
    const role = path`/admin/v1/orgs/${org}/members/${member}/role`;
    return this.#ask("DELETE", withQuery(role, { workspace }));
  }

  credentials(org, page) {
    return this.#ask("GET", withQuery(path`/admin/v1/orgs/${org}/credentials`, page));
  }

  issueCredential(org, credential) {
    return this.#ask("POST", path`/admin/v1/orgs/${org}/credentials`, credential);
  }

  revokeCredential(org, credential) {
    return this.#ask("DELETE", path`/admin/v1/orgs/${org}/credentials/${credential}`);
  }
}
