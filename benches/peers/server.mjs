// The service: Fastify over PostgreSQL.
import { createHash, randomBytes } from "node:crypto";

import Fastify from "fastify";
import pg from "pg";

import { bulkUpdateSchema, dashboardSchema } from "./schemas.mjs";
import * as statements from "./statements.mjs";

const MEMBER = ["dashboard:read", "memory:update", "memory:review"];
/** Actions of the built-in roles, as far as these operations need them. */
const ACTIONS = {
  viewer: ["dashboard:read"],
  member: MEMBER,
  admin: [...MEMBER, "memory:declassify"],
  owner: [...MEMBER, "memory:declassify"],
};
/** Error of PostgreSQL for a value that violates a unique key. */
const UNIQUE_VIOLATION = "23505";

const sha256 = (text) => createHash("sha256").update(text).digest();

/** Creates the service over the directory of the socket of PostgreSQL. */
export function create({ socket, connections }) {
  const pool = new pg.Pool({
    host: socket,
    user: "postgres",
    database: "postgres",
    min: connections,
    max: connections,
  });
  const app = Fastify({ logger: false });
  app.setErrorHandler((error, request, reply) => {
    const { statusCode = 500, code = "internal", message } = error;
    if (statusCode >= 500) console.error(error);
    return reply.code(statusCode).send({ error: code, message, details: {} });
  });

  const query = (statement, values) => pool.query({ ...statement, values });

  /** Returns the row of the caller, whose role has these actions. */
  async function authorize(request, actions, statement, values = []) {
    const [scheme, token] = request.headers.authorization?.split(" ") ?? [];
    if (scheme !== "Bearer" || !token) {
      throw refusal(401, "unauthenticated", "a bearer token is required");
    }
    const { rows } = await query(statement, [sha256(token), ...values]);
    if (rows.length === 0) throw refusal(401, "unauthenticated", "the token is not valid");
    const [caller] = rows;
    for (const action of actions) {
      if (!ACTIONS[caller.role].includes(action)) {
        throw refusal(403, "forbidden", `the role ${caller.role} lacks ${action}`);
      }
    }
    return caller;
  }

  app.patch("/v1/memories/bulk", { schema: bulkUpdateSchema }, async (request, reply) => {
    const { memoryIds, audienceTag, sensitivityLabel, reviewStatus, sourceId } = request.body;
    const key = request.headers["idempotency-key"];
    const values = [audienceTag, sensitivityLabel, reviewStatus, sourceId];
    const change = values.map((value) => value ?? null);
    const fingerprint = sha256(JSON.stringify([memoryIds, change]));
    const actions = [];
    if (audienceTag || sensitivityLabel || sourceId) actions.push("memory:update");
    if (reviewStatus) actions.push("memory:review");

    const find = () => authorize(request, actions, statements.authenticateUpdate, [key]);
    const replay = (stored) => {
      if (!stored.fingerprint.equals(fingerprint)) {
        throw refusal(422, "idempotency_key_reused", "the key was used for another request");
      }
      reply.header("idempotent-replayed", "true");
      return bulkResult(stored.operation_id, true, stored);
    };

    reply.type("application/json");
    const caller = await find();
    if (caller.fingerprint) return replay(caller);
    const operation = uuid7();
    try {
      const { rows } = await query(statements.bulkUpdate, [
        memoryIds,
        caller.org_id,
        caller.workspace_ids,
        caller.member_id,
        key,
        operation,
        ...change,
        ACTIONS[caller.role].includes("memory:declassify"),
        fingerprint,
      ]);
      return bulkResult(operation, false, rows[0]);
    } catch (error) {
      const isReplay = error.code === UNIQUE_VIOLATION && error.table === "idempotency_keys";
      if (!isReplay) throw error;
      return replay(await find());
    }
  });

  const path = "/v1/workspaces/:id/dashboard-summary";
  app.get(path, { schema: dashboardSchema }, async (request) => {
    const { id } = request.params;
    const caller = await authorize(request, ["dashboard:read"], statements.authenticate);
    const isInScope = !caller.workspace_ids || caller.workspace_ids.includes(id);
    const values = [id, caller.org_id, caller.member_id];
    const { rows } = isInScope ? await query(statements.dashboard, values) : { rows: [] };
    if (rows.length === 0) throw refusal(404, "not_found", "there is no such workspace");
    return summary(rows[0]);
  });

  return app;
}

/** Returns an error with the status and the code of its response. */
function refusal(statusCode, code, message) {
  return Object.assign(new Error(message), { statusCode, code });
}

/** Returns a UUID of version 7. */
function uuid7() {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = 0x70 | (bytes[6] & 0x0f);
  bytes[8] = 0x80 | (bytes[8] & 0x3f);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** Returns a bulk result, whose items are JSON already. */
function bulkResult(operation, replayed, { succeeded, failed, results }) {
  const counts = JSON.stringify({ requested: succeeded + failed, succeeded, failed });
  const head = `{"operationId":"${operation}","replayed":${replayed},"summary":${counts}`;
  return `${head},"results":${results}}`;
}

/** Returns the dashboard summary of a row. */
function summary(row) {
  const step = (tier) => (step_id, label, cta_label, completed) => ({
    step_id,
    label,
    cta_label,
    completed,
    required: tier === "required",
    tier,
    workspace_slug: row.slug,
  });
  const [required, suggested] = [step("required"), step("suggested")];
  const hasMemories = row.memory_count > 0;
  const isReviewed = hasMemories && row.pending_count === 0;
  return {
    workspace: row,
    review_backlog_count: row.pending_count,
    first_value_checklist: {
      required: [
        required("connect_source", "Connect a source", "Connect", row.connectors.length > 0),
        required("ingest_first_memory", "Bring in the first memory", "Import", hasMemories),
        required("create_mcp_key", "Create an MCP key", "Create key", row.mcp_keys.length > 0),
      ],
      suggested: [
        suggested("invite_teammate", "Invite a teammate", "Invite", row.user_count > 1),
        suggested("ask_first_question", "Ask the first question", "Ask", row.has_chat),
        suggested("add_webhook", "Add a webhook", "Add webhook", row.webhook_count > 0),
        suggested("clear_review_backlog", "Clear the review backlog", "Review", isReviewed),
      ],
    },
    connector_health: row.connectors,
    mcp_keys: row.mcp_keys,
    recent_chats: row.chats,
  };
}
