// Makes the first requests of the guide with the generated client, and checks what they return.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { env } from "node:process";
import createClient from "openapi-fetch";
import type { components, paths, webhooks } from "./knowledge.js";

type Schemas = components["schemas"];

function variable(name: string): string {
  const value = env[name];
  assert(value, `${name} is not set`);
  return value;
}

const baseUrl = variable("URL");
const [workspace, orgSlug] = [variable("WORKSPACE"), variable("ORG")];
const [memory, recall] = [variable("MEMORY"), variable("RECALL")];
const client = createClient<paths>({
  baseUrl,
  headers: { Authorization: `Bearer ${variable("TOKEN")}` },
});
const sessionClient = createClient<paths>({
  baseUrl,
  headers: { Cookie: `service_session=${variable("SESSION")}` },
});

/** Returns the text of an item, whose `ok` says whether it has a memory or an error. */
function outcome(item: Schemas["BulkItem"]): string {
  return item.ok ? item.memory.audienceTag : item.error.code;
}

async function updateMemories(): Promise<void> {
  const unknown = "00000000-0000-0000-0000-000000000000";
  const header = { "Idempotency-Key": randomUUID() };
  const body: Schemas["BulkUpdate"] = { memoryIds: [memory, unknown], audienceTag: "org:acme" };
  const first = await client.PATCH("/v1/memories/bulk", { params: { header }, body });
  assert(first.data, JSON.stringify(first.error));
  assert.deepEqual(first.data.results.map(outcome), ["org:acme", "not_found"]);
  const replay = await client.PATCH("/v1/memories/bulk", { params: { header }, body });
  assert.equal(replay.data?.replayed, true);
  assert.equal(replay.data.operationId, first.data.operationId);

  // A refusal has a body, whose `error` says which details there are.
  const other: Schemas["BulkUpdate"] = { memoryIds: [], reviewStatus: "approved" };
  const refused = await client.PATCH("/v1/memories/bulk", { params: { header }, body: other });
  assert.equal(refused.response.status, 400);
  assert(refused.error?.error === "invalid_request");
  assert.deepEqual(refused.error.details.fields.map(({ path }) => path), ["memoryIds"]);
}

async function readDashboard(): Promise<void> {
  const path = { id: workspace };
  const { data } = await client.GET("/v1/workspaces/{id}/dashboard-summary", { params: { path } });
  assert(data);
  assert.equal(data.workspace.id, workspace);
  const steps = [...data.first_value_checklist.required, ...data.first_value_checklist.suggested];
  assert(steps.every(({ completed }) => typeof completed === "boolean"));
}

async function manageRoles(): Promise<void> {
  const params = { path: { orgSlug } };
  const role: Schemas["NewCustomRole"] = {
    name: "Typed in TypeScript",
    slug: "typed-in-typescript",
    base_role: "viewer",
  };
  const created = await sessionClient.POST("/v1/orgs/{orgSlug}/custom-roles", { params, body: role });
  assert(created.data, JSON.stringify(created.error));
  const one = { params: { path: { orgSlug, roleId: created.data.data.id } } };
  const updated = await sessionClient.PATCH("/v1/orgs/{orgSlug}/custom-roles/{roleId}", {
    ...one,
    body: { actions: { allow: ["memory:review"], deny: [] } },
  });
  assert.deepEqual(updated.data?.data.actions.allow, ["memory:review"]);
  const listed = await sessionClient.GET("/v1/orgs/{orgSlug}/custom-roles", { params });
  assert(listed.data?.data.some(({ slug }) => slug === updated.data?.data.slug));
  const path = "/v1/orgs/{orgSlug}/custom-roles/{roleId}";
  const deleted = await sessionClient.DELETE(path, { ...one, body: { reassign_to: "viewer" } });
  assert.equal(deleted.response.status, 204);
  const missing = await sessionClient.DELETE(path, { ...one, body: {} });
  assert(missing.error?.error === "not_found", JSON.stringify(missing));
}

/** Codes of the refusals of an operation that come in a header, without a body. */
type HeaderCode<Responses> = {
  [Status in keyof Responses]: Responses[Status] extends { headers: { "Error-Code": infer Code } }
    ? Code
    : never;
}[keyof Responses];

async function register(): Promise<void> {
  const params = { path: { id: workspace } };
  const subscription = await client.POST("/v1/citation-subscriptions", {
    body: { recall_id: recall, webhook_url: "https://example.com/citations" },
  });
  assert(subscription.data?.signing_secret?.startsWith("whsec_"), subscription.response.statusText);
  const webhook = await client.POST("/v1/workspaces/{id}/webhooks", {
    params,
    body: { event_type: "chunk.created", url: "https://example.com/chunks" },
  });
  assert.equal(webhook.data?.event_type, "chunk.created");
  const inbound = await client.POST("/v1/workspaces/{id}/inbound-webhooks", {
    params,
    body: { name: "Typed in TypeScript" },
  });
  assert.equal(inbound.data?.name, "Typed in TypeScript");

  // A refusal has no body: the status and `Error-Code` say what is wrong.
  const refused = await client.POST("/v1/workspaces/{id}/webhooks", {
    params,
    body: { event_type: "chunk.created", url: "ftp://example.com/" },
  });
  assert.equal(refused.data, undefined);
  assert.equal(refused.error, undefined);
  assert.equal(refused.response.status, 400);
  type Code = HeaderCode<paths["/v1/workspaces/{id}/webhooks"]["post"]["responses"]>;
  const code: Code = "invalid_request";
  assert.equal(refused.response.headers.get("Error-Code"), code);
}

/** Body of a delivery. */
type WebhookEvent =
  webhooks[keyof webhooks]["post"]["requestBody"]["content"]["application/json"];

/** Returns the number of memories that an event names; its `type` says which data there are. */
function count(event: WebhookEvent): number {
  switch (event.type) {
    case "chunk.created":
    case "chunk.deleted":
    case "memory.updated":
    case "citation.changed":
      return event.data.memory_ids.length;
    case "ingest.completed":
      return event.data.created + event.data.updated;
    case "ingest.failed":
    case "connector.status_changed":
    case "webhook.ping":
      return 0;
    default:
      return event satisfies never;
  }
}

/** Reads the example of each delivery in the document. */
async function readEvents(): Promise<void> {
  const response = await fetch(`${baseUrl}/openapi.json`);
  const document = (await response.json()) as { webhooks: Record<string, any> };
  const examples = Object.values(document.webhooks).map(
    ({ post }) => post.requestBody.content["application/json"].example as WebhookEvent,
  );
  assert(examples.some((event) => count(event) > 0));
  assert(examples.every((event) => count(event) >= 0));
}

await updateMemories();
await readDashboard();
await manageRoles();
await register();
await readEvents();
console.log("ok: the requests of the guide and the events, in TypeScript");
