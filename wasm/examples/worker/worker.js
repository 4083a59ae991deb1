// The workspace knowledge service at the edge: a Durable Object for each organisation, found by what its tokens and the
// URLs of its inbound webhooks say.

import { DurableObject } from "cloudflare:workers";
import { KnowledgeService } from "knowledge-wasm";
import { DurableObjectStore } from "knowledge-wasm/stores/durable-object";

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
/** How soon what a request has changed is delivered. */
const DISPATCH_DELAY_MS = SECOND_MS;
/** How long after an alarm that failed the next one is. */
const RETRY_DELAY_MS = MINUTE_MS;
/** How often what has expired is swept, where nothing else is due before. */
const MAINTENANCE_INTERVAL_MS = 60 * MINUTE_MS;
/** What one invocation may fetch: six connections at once, and fewer subrequests than the 50 of the smallest plan. */
const DISPATCH_LIMITS = { atOnceMax: 6, attemptsMax: 40 };
/** How many organisations the operator is listed at a time. */
const ORGANIZATIONS_PER_PAGE = 200;
const OPERATOR_PATH = "/admin/v1/";
const INBOUND_PATH = "/v1/inbound/";

/** One organisation: its service over its own database. */
export class Organization extends DurableObject {
  #service;
  /** Whether the directory knows the organisation. */
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
    // What was changed may be an event that somebody waits for.
    const isRead = request.method === "GET" || request.method === "HEAD";
    // A message that is signed rightly and refused for what it says is one, too.
    const isRefusedMessage = response.status === 400 && new URL(request.url).pathname.startsWith(INBOUND_PATH);
    if ((response.ok || isRefusedMessage) && !isRead) await this.#wake(Date.now() + DISPATCH_DELAY_MS);
    return response;
  }

  /** Answers the operator. The directory knows the organisation before anybody gets a credential of it. */
  async #operate(request) {
    const { provision } = this.#service;
    const response = await provision.fetch(request);
    if (!this.#isEntered) {
      // Whatever was asked: the object may have ended when the organisation was made and not entered yet.
      const [organization] = (await provision.organizations({ limit: 1 })).data;
      if (organization) await directory(this.env).enter(organization);
      this.#isEntered = organization !== undefined;
    }
    return response;
  }

  async alarm() {
    // Set before anything can go wrong: there is always a next one.
    const retry = Date.now() + RETRY_DELAY_MS;
    await this.ctx.storage.setAlarm(retry);
    const orRetry = (error) => {
      console.error(error);
      return retry;
    };
    const next = Math.min(await this.#sweep().catch(orRetry), await this.#deliver().catch(orRetry));
    // A request may have set another one by now.
    if ((await this.ctx.storage.getAlarm()) === retry) await this.ctx.storage.setAlarm(next);
    else await this.#wake(next);
  }

  /** Sweeps what has expired, and says when to do so again. */
  async #sweep() {
    const { hasMore } = await this.#service.maintain();
    return hasMore ? Date.now() : Date.now() + MAINTENANCE_INTERVAL_MS;
  }

  /** Makes the deliveries that are due, and says when to do so again. */
  async #deliver() {
    const send = (url, init) => fetch(url, init);
    const { hasMore, nextDue } = await this.#service.dispatch(send, undefined, DISPATCH_LIMITS);
    return hasMore ? Date.now() : (nextDue?.getTime() ?? Infinity);
  }

  /** Sets the alarm, unless it rings before that. */
  async #wake(at) {
    const set = await this.ctx.storage.getAlarm();
    if (set === null || set > at) await this.ctx.storage.setAlarm(at);
  }
}

/** Which organisations there are. There is one directory. */
export class Directory extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    ctx.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS organization (id TEXT PRIMARY KEY, slug TEXT NOT NULL UNIQUE, record TEXT NOT NULL)",
    );
  }

  /** Enters an organisation, however often. */
  enter(organization) {
    const { id, slug } = organization;
    const values = [id, slug, JSON.stringify(organization)];
    this.ctx.storage.sql.exec("INSERT OR REPLACE INTO organization (id, slug, record) VALUES (?, ?, ?)", ...values);
  }

  /** The slug of an organisation. */
  slugOf(id) {
    return this.ctx.storage.sql.exec("SELECT slug FROM organization WHERE id = ?", id).toArray()[0]?.slug;
  }

  /** A page of the organisations, by their slugs. */
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

/** The object of an organisation. Without one it is that of nobody, whose service refuses whoever comes as any other would. */
function objectOf(slug, env) {
  const name = slug === undefined ? "nobody" : `organization ${slug}`;
  return env.ORGANIZATION.get(env.ORGANIZATION.idFromName(name));
}

/** The slugs of organisations by their identifiers, as far as this isolate was told: they never change. */
const slugs = new Map();

async function slugOf(id, env) {
  if (!slugs.has(id)) {
    const slug = await directory(env).slugOf(id);
    if (slug === undefined) return undefined;
    slugs.set(id, slug);
  }
  return slugs.get(id);
}

/** `0190…` as it stands in a credential, with the hyphens that identifiers have. */
function hyphenated(hex) {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** The organisation that a request is for, as its path or its credential says; nothing is decided by that. */
function organizationOf(request) {
  const { pathname } = new URL(request.url);
  const [, inbound] = /^\/v1\/inbound\/([0-9a-f-]{36})\//i.exec(pathname) ?? [];
  if (inbound) return inbound.toLowerCase();
  const [, bearer] = /\bwk[ts]_([0-9a-f]{32})_/.exec(request.headers.get("authorization") ?? "") ?? [];
  const [, session] = /\bservice_session=wk[ts]_([0-9a-f]{32})_/.exec(request.headers.get("cookie") ?? "") ?? [];
  // Where both come along, these paths take the session and the others the token.
  const hint = pathname.startsWith("/v1/orgs/") ? (session ?? bearer) : (bearer ?? session);
  return hint && hyphenated(hint);
}

/** Whether the operator asks. The digests have one length, and comparing them takes the same time wherever they differ. */
async function isOperator(request, env) {
  if (!env.OPERATOR_TOKEN) return false;
  const digest = (text) => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const given = await digest(request.headers.get("authorization") ?? "");
  return crypto.subtle.timingSafeEqual(given, await digest(`Bearer ${env.OPERATOR_TOKEN}`));
}

/** The operator's interface: each organisation's object answers for it, and the directory says which there are. */
async function operate(request, env) {
  if (!(await isOperator(request, env))) {
    const body = { error: "unauthenticated", message: "the operator's token is needed: Authorization: Bearer ..." };
    return Response.json(body, { status: 401, headers: { "www-authenticate": "Bearer" } });
  }
  const { pathname, searchParams } = new URL(request.url);
  if (pathname === "/admin/v1/orgs" && request.method === "GET") {
    return Response.json(await directory(env).list(searchParams.get("cursor") ?? ""));
  }
  let [, slug] = /^\/admin\/v1\/orgs\/([^/]+)/.exec(pathname) ?? [];
  // An organisation that is made now names itself in the body.
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
