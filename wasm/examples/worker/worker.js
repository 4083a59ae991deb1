// The workspace knowledge service at the edge: a Durable Object for each organisation, whose
// identifier is in its tokens and the URLs of its inbound webhooks.

import { DurableObject } from "cloudflare:workers";
import { KnowledgeService } from "knowledge-wasm";
import { DurableObjectStore } from "knowledge-wasm/stores/durable-object";

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
/** Delay of deliveries after a change. */
const DISPATCH_DELAY_MS = SECOND_MS;
/** Delay of the next alarm after one that failed. */
const RETRY_DELAY_MS = MINUTE_MS;
/** Maximum interval between two maintenance runs. */
const MAINTENANCE_INTERVAL_MS = 60 * MINUTE_MS;
/** Limits of an invocation: six connections, and fewer subrequests than the smallest plan's 50. */
const DISPATCH_LIMITS = { atOnceMax: 6, attemptsMax: 40 };
/** Page size of the list of organisations. */
const ORGANIZATIONS_PER_PAGE = 200;
const OPERATOR_PATH = "/admin/v1/";
const INBOUND_PATH = "/v1/inbound/";

/** One organisation: its service over its own database. */
export class Organization extends DurableObject {
  #service;
  /** True if the directory has the organisation. */
  #isEntered = false;

  constructor(ctx, env) {
    super(ctx, env);
    ctx.blockConcurrencyWhile(async () => {
      this.#service = await KnowledgeService.open(new DurableObjectStore(ctx.storage), {
        sealingKey: env.SEALING_KEY,
        publicUrl: env.PUBLIC_URL,
        webhooks: JSON.parse(env.WEBHOOKS ?? "{}"),
      });
    });
  }

  async fetch(request) {
    const isOperator = new URL(request.url).pathname.startsWith(OPERATOR_PATH);
    const response = isOperator ? await this.#operate(request) : await this.#service.fetch(request);
    // A change may have emitted an event, and so may an inbound message that was rejected for its
    // content.
    const isRead = request.method === "GET" || request.method === "HEAD";
    const isRefusedMessage = response.status === 400 && new URL(request.url).pathname.startsWith(INBOUND_PATH);
    if ((response.ok || isRefusedMessage) && !isRead) await this.#wake(Date.now() + DISPATCH_DELAY_MS);
    return response;
  }

  /**
   * Handles an operator's request. The directory has the organisation before a credential can be
   * issued.
   */
  async #operate(request) {
    const { provision } = this.#service;
    const response = await provision.fetch(request);
    if (!this.#isEntered) {
      // After every request: a crash may have separated the creation of the organisation from its
      // entry in the directory.
      const [organization] = (await provision.organizations({ limit: 1 })).data;
      if (organization) await directory(this.env).enter(organization);
      this.#isEntered = organization !== undefined;
    }
    return response;
  }

  async alarm() {
    // Set before anything can fail, so that there is always a next alarm.
    const retry = Date.now() + RETRY_DELAY_MS;
    await this.ctx.storage.setAlarm(retry);
    const orRetry = (error) => {
      console.error(error);
      return retry;
    };
    const next = Math.min(await this.#sweep().catch(orRetry), await this.#deliver().catch(orRetry));
    // A request may have set another alarm in the meantime.
    if ((await this.ctx.storage.getAlarm()) === retry) await this.ctx.storage.setAlarm(next);
    else await this.#wake(next);
  }

  /** Purges expired records; returns the time of the next run. */
  async #sweep() {
    const { hasMore } = await this.#service.maintain();
    return hasMore ? Date.now() : Date.now() + MAINTENANCE_INTERVAL_MS;
  }

  /** Sends due deliveries; returns the time of the next run. */
  async #deliver() {
    const send = (url, init) => fetch(url, init);
    const { hasMore, nextDue } = await this.#service.dispatch(send, undefined, DISPATCH_LIMITS);
    return hasMore ? Date.now() : (nextDue?.getTime() ?? Infinity);
  }

  /** Sets the alarm, unless an earlier one is set. */
  async #wake(at) {
    const set = await this.ctx.storage.getAlarm();
    if (set === null || set > at) await this.ctx.storage.setAlarm(at);
  }
}

/** The directory of organisations, a single object. */
export class Directory extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    ctx.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS organization (id TEXT PRIMARY KEY, slug TEXT NOT NULL UNIQUE, record TEXT NOT NULL)",
    );
  }

  /** Enters an organisation. Idempotent. */
  enter(organization) {
    const { id, slug } = organization;
    const values = [id, slug, JSON.stringify(organization)];
    this.ctx.storage.sql.exec("INSERT OR REPLACE INTO organization (id, slug, record) VALUES (?, ?, ?)", ...values);
  }

  /** Returns the slug of an organisation. */
  slugOf(id) {
    return this.ctx.storage.sql.exec("SELECT slug FROM organization WHERE id = ?", id).toArray()[0]?.slug;
  }

  /** Returns a page of organisations, ordered by slug. */
  list(cursor) {
    const statement = "SELECT slug, record FROM organization WHERE slug > ? ORDER BY slug LIMIT ?";
    const rows = this.ctx.storage.sql.exec(statement, cursor, ORGANIZATIONS_PER_PAGE).toArray();
    const data = rows.map(({ record }) => JSON.parse(record));
    return { data, next_cursor: rows.length < ORGANIZATIONS_PER_PAGE ? null : rows.at(-1).slug };
  }
}

function directory(env) {
  return env.DIRECTORY.get(env.DIRECTORY.idFromName("directory"));
}

/**
 * Returns the object of an organisation. Without a slug it is an empty object, which rejects a
 * request as any other would.
 */
function objectOf(slug, env) {
  const name = slug === undefined ? "nobody" : `organization ${slug}`;
  return env.ORGANIZATION.get(env.ORGANIZATION.idFromName(name));
}

/** Cache of slugs by the identifier of the organisation; they never change. */
const slugs = new Map();

async function slugOf(id, env) {
  if (!slugs.has(id)) {
    const slug = await directory(env).slugOf(id);
    if (slug === undefined) return undefined;
    slugs.set(id, slug);
  }
  return slugs.get(id);
}

/** Inserts the hyphens of an identifier, which credentials omit. */
function hyphenated(hex) {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** Returns the organisation that the path or credential names: unverified, for routing only. */
function organizationOf(request) {
  const { pathname } = new URL(request.url);
  const [, inbound] = /^\/v1\/inbound\/([0-9a-f-]{36})\//i.exec(pathname) ?? [];
  if (inbound) return inbound.toLowerCase();
  const [, bearer] = /\bwk[ts]_([0-9a-f]{32})_/.exec(request.headers.get("authorization") ?? "") ?? [];
  const [, session] = /\bservice_session=wk[ts]_([0-9a-f]{32})_/.exec(request.headers.get("cookie") ?? "") ?? [];
  // If a request has both, these paths use the session and the others the token.
  const hint = pathname.startsWith("/v1/orgs/") ? (session ?? bearer) : (bearer ?? session);
  return hint && hyphenated(hint);
}

/** Returns true for the operator's token, by comparing digests in constant time. */
async function isOperator(request, env) {
  if (!env.OPERATOR_TOKEN) return false;
  const digest = (text) => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const given = await digest(request.headers.get("authorization") ?? "");
  return crypto.subtle.timingSafeEqual(given, await digest(`Bearer ${env.OPERATOR_TOKEN}`));
}

/** Handles the operator API: the directory lists organisations, their objects do the rest. */
async function operate(request, env) {
  if (!(await isOperator(request, env))) {
    const body = { error: "unauthenticated", message: "send the operator's token: Authorization: Bearer ..." };
    return Response.json(body, { status: 401, headers: { "www-authenticate": "Bearer" } });
  }
  const { pathname, searchParams } = new URL(request.url);
  if (pathname === "/admin/v1/orgs" && request.method === "GET") {
    return Response.json(await directory(env).list(searchParams.get("cursor") ?? ""));
  }
  let [, slug] = /^\/admin\/v1\/orgs\/([^/]+)/.exec(pathname) ?? [];
  // The request that creates an organisation has its slug in the body.
  slug ??= (await request.clone().json().catch(() => undefined))?.slug;
  return objectOf(typeof slug === "string" ? slug : undefined, env).fetch(request);
}

export default {
  async fetch(request, env) {
    if (new URL(request.url).pathname.startsWith(OPERATOR_PATH)) return operate(request, env);
    const id = organizationOf(request);
    return objectOf(id && (await slugOf(id, env)), env).fetch(request);
  },
};
