// JSON schemas: Fastify validates requests and writes responses by functions compiled from them.

const string = { type: "string" };
const nullable = { type: "string", nullable: true };
const boolean = { type: "boolean" };
const integer = { type: "integer" };
const uuid = { type: "string", format: "uuid" };
const object = (properties) => ({ type: "object", properties });
const list = (items) => ({ type: "array", items });

const step = object({
  step_id: string,
  label: string,
  cta_label: string,
  completed: boolean,
  required: boolean,
  tier: string,
  workspace_slug: string,
});

export const dashboardSchema = {
  params: { type: "object", properties: { id: uuid }, required: ["id"] },
  response: {
    200: object({
      workspace: object({
        id: string,
        name: string,
        slug: string,
        audience: string,
        last_ingest_at: { type: "string", format: "date-time", nullable: true },
      }),
      review_backlog_count: integer,
      first_value_checklist: object({ required: list(step), suggested: list(step) }),
      connector_health: list(
        object({
          service_account_id: string,
          kind: string,
          account_label: string,
          scope: string,
          workspace_slug: string,
          status: string,
          last_sync: nullable,
          last_error: nullable,
          last_success_at: nullable,
          next_sync_at: nullable,
          error_count_24h: integer,
        }),
      ),
      mcp_keys: list(
        object({
          id: string,
          workspaceId: string,
          name: string,
          client: string,
          audience: list(string),
          lastUsedAt: nullable,
          rotatesAt: nullable,
          state: string,
          endedReason: nullable,
          endedAt: nullable,
        }),
      ),
      recent_chats: list(
        object({ session_id: string, title: string, last_message_at: string, snippet: string }),
      ),
    }),
  },
};

export const bulkUpdateSchema = {
  headers: {
    type: "object",
    properties: { "idempotency-key": { type: "string", minLength: 1, maxLength: 255 } },
    required: ["idempotency-key"],
  },
  body: {
    type: "object",
    properties: {
      memoryIds: { ...list(uuid), minItems: 1, maxItems: 1000, uniqueItems: true },
      audienceTag: { type: "string", pattern: "^[a-z]+:[^\\s]+$", maxLength: 128 },
      sensitivityLabel: {
        type: "string",
        enum: ["public", "internal", "confidential", "restricted"],
      },
      reviewStatus: { type: "string", enum: ["pending", "approved", "rejected"] },
      sourceId: uuid,
    },
    required: ["memoryIds"],
    minProperties: 2,
    additionalProperties: false,
  },
};
