// The workspace knowledge service at the edge: a Durable Object for each organisation, found by what its tokens and the
// URLs of its inbound webhooks say.

import { DurableObject } from "cloudflare:workers";
import { KnowledgeError, KnowledgeService } from "knowledge-wasm";
import { DurableObjectStore } from "knowledge-wasm/stores/durable-object";

const SECOND_MS = 1_000;
/** How often what has expired is swept, where nothing else is due before. */
const MAINTENANCE_INTERVAL_MS = 60 * 60 * SECOND_MS;
/** How long the first token of an organisation is taken. */
const FIRST_TOKEN_SECONDS = 24 * 60 * 60;
/** What one invocation may fetch: six connections at once, and fewer subrequests than the 50 of the smallest plan. */
const DISPATCH_LIMITS = { atOnceMax: 6, attemptsMax: 40 };

/** One organisation: its service over its own database. */
export class Organization extends DurableObject {
  #service;

  constructor(ctx, env) {
    super(ctx, env);
    ctx.blockConcurrencyWhile(async () => {
      this.#service = await KnowledgeService.open(new DurableObjectStore(ctx.storage), {
        sealingKey: env.SEALING_KEY,
        publicUrl: env.PUBLIC_URL,
      });
    });
  }

  async fetch(request) {
    const response = await this.#service.fetch(request);
    // What was changed may be an event that somebody waits for.
    if (request.method !== "GET" && request.method !== "HEAD") await this.#wake(Date.now() + SECOND_MS);
    return response;
  }

  /** Makes the organisation, with a token for its owner. What is refused is an answer: an error loses its code on the way. */
  found(wanted) {
    return answered(() => this.#found(wanted));
  }

  /** Makes a workspace. */
  createWorkspace(org, workspace) {
    return answered(() => this.#service.provision.createWorkspace(org, workspace));
  }

  async #found({ slug, name, owner }) {
    const { provision } = this.#service;
    const { organization } = await provision.createOrganization({ slug, name, owner });
    const { secret } = await provision.issueCredential(slug, {
      member: owner.handle,
      kind: "bearer",
      name: "first",
      expires_in_seconds: FIRST_TOKEN_SECONDS,
    });
    await this.#wake(Date.now() + MAINTENANCE_INTERVAL_MS);
    return { organization, token: secret };
  }

  async alarm() {
    const swept = await this.#service.maintain();
    const send = (url, init) => fetch(url, init);
    const dispatched = await this.#service.dispatch(send, undefined, DISPATCH_LIMITS);
    const next = Date.now() + MAINTENANCE_INTERVAL_MS;
    if (swept.hasMore || dispatched.hasMore) await this.#wake(Date.now());
    else await this.#wake(Math.min(next, dispatched.nextDue?.getTime() ?? next));
  }

  /** Sets the alarm, unless it rings before that. */
  async #wake(at) {
    const set = await this.ctx.storage.getAlarm();
    if (set === null || set > at) await this.ctx.storage.setAlarm(at);
  }
}

/** What the operator is answered. */
async function answered(work) {
  try {
    return { status: 201, body: await work() };
  } catch (error) {
    if (!(error instanceof KnowledgeError)) throw error;
    const { code, message, details } = error;
    return { status: error.status ?? 500, body: { error: code, message, details } };
  }
}

/** Which object an organisation is in. There is one directory. */
export class Directory extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    ctx.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS place (slug TEXT PRIMARY KEY, object TEXT NOT NULL, org TEXT UNIQUE)",
    );
  }

  /** The object of an organisation that is about to be made: the same one when it is tried again. */
  claim(slug, object) {
    const { sql } = this.ctx.storage;
    sql.exec("INSERT OR IGNORE INTO place (slug, object) VALUES (?, ?)", slug, object);
    return sql.exec("SELECT object FROM place WHERE slug = ?", slug).one().object;
  }

  /** Notes the identifier of an organisation that was made. */
  note(slug, org) {
    this.ctx.storage.sql.exec("UPDATE place SET org = ? WHERE slug = ?", org, slug);
  }

  find(org) {
    return this.ctx.storage.sql.exec("SELECT object FROM place WHERE org = ?", org).toArray()[0]?.object;
  }

  findBySlug(slug) {
    return this.ctx.storage.sql.exec("SELECT object FROM place WHERE slug = ?", slug).toArray()[0]?.object;
  }
}

/** Where organisations are, as far as this isolate was told: that never changes. */
const places = new Map();

/** The organisation that a request is for, as its credential or its path says: an identifier without hyphens. */
function organizationOf(request) {
  const bearer = request.headers.get("authorization") ?? "";
  const cookie = request.headers.get("cookie") ?? "";
  const secret = /\bwk[ts]_([0-9a-f]{32})_/.exec(bearer) ?? /\bservice_session=wks_([0-9a-f]{32})_/.exec(cookie);
  const inbound = /^\/v1\/inbound\/([0-9a-f-]{36})\//.exec(new URL(request.url).pathname);
  return (inbound ?? secret)?.[1].replaceAll("-", "");
}

function directory(env) {
  return env.DIRECTORY.get(env.DIRECTORY.idFromName("directory"));
}

async function objectOf(org, env) {
  if (!places.has(org)) {
    const found = org && (await directory(env).find(org));
    // Whoever belongs nowhere is told so by a service that knows nobody, as any other would tell it.
    if (!found) return env.ORGANIZATION.get(env.ORGANIZATION.idFromName("nobody"));
    places.set(org, found);
  }
  return env.ORGANIZATION.get(env.ORGANIZATION.idFromString(places.get(org)));
}

/** Compares secrets without telling how far they agree. */
async function isSame(given, secret) {
  const digest = async (text) => new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  const [left, right] = [await digest(given), await digest(secret)];
  return left.reduce((difference, byte, at) => difference | (byte ^ right[at]), 0) === 0;
}

/** The operator's side: `POST /operator/organizations`, and `POST /operator/organizations/{slug}/workspaces`. */
async function operate(request, path, env) {
  const refuse = (status, error) => ({ status, body: { error } });
  const given = request.headers.get("authorization") ?? "";
  if (!env.OPERATOR_TOKEN || !(await isSame(given, `Bearer ${env.OPERATOR_TOKEN}`))) return refuse(401, "unauthenticated");
  if (request.method !== "POST") return refuse(405, "method_not_allowed");
  const body = await request.json().catch(() => undefined);
  if (typeof body !== "object" || body === null) return refuse(400, "invalid_request");
  const [, slug] = /^\/operator\/organizations\/([^/]+)\/workspaces$/.exec(path) ?? [];
  if (slug) {
    const object = await directory(env).findBySlug(slug);
    if (!object) return refuse(404, "not_found");
    return env.ORGANIZATION.get(env.ORGANIZATION.idFromString(object)).createWorkspace(slug, body);
  }
  if (path !== "/operator/organizations") return refuse(404, "not_found");
  const object = await directory(env).claim(String(body.slug), env.ORGANIZATION.newUniqueId().toString());
  const founded = await env.ORGANIZATION.get(env.ORGANIZATION.idFromString(object)).found(body);
  if (founded.status === 201) {
    await directory(env).note(body.slug, founded.body.organization.id.replaceAll("-", ""));
  }
  return founded;
}

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname.startsWith("/operator/")) {
      const { status, body } = await operate(request, pathname, env);
      return Response.json(body, { status });
    }
    const object = await objectOf(organizationOf(request), env);
    return object.fetch(request);
  },
};
