// Bodies that the service accepts compile, and bodies that it rejects do not. This file is compiled
// and not run: the compiler reports each `@ts-expect-error` before a line without an error.

import createClient from "openapi-fetch";
import type { components, operations, paths } from "./knowledge.js";

type Schemas = components["schemas"];

const client = createClient<paths>();
const id = "01890a5d-ac96-774b-bcce-b302099a8057";
const params = { path: { id } };
const header = { "Idempotency-Key": "key" };

const update: Schemas["BulkUpdate"][] = [
  { memoryIds: [id], audienceTag: "org:acme" },
  { memoryIds: [id], sourceId: id, reviewStatus: "approved" },
  // @ts-expect-error: an attribute has to be set
  { memoryIds: [id] },
  // @ts-expect-error: there is no such label
  { memoryIds: [id], sensitivityLabel: "secret" },
  // @ts-expect-error: there is no such field
  { memoryIds: [id], reviewStatus: "approved", title: "Refunds" },
  // @ts-expect-error: `memoryIds` is required
  { audienceTag: "org:acme" },
  // @ts-expect-error: `null` is not accepted
  { memoryIds: [id], audienceTag: "org:acme", sourceId: null },
];

const report: Schemas["SyncReportRequest"][] = [
  { outcome: "success" },
  { outcome: "failure", error: "the token expired", is_authentication: true },
  // @ts-expect-error: a failure has a reason
  { outcome: "failure" },
  // @ts-expect-error: a success has none
  { outcome: "success", error: "the token expired" },
  // @ts-expect-error: only a failure can be one of authentication
  { outcome: "success", is_authentication: false },
  // @ts-expect-error: there is no such outcome
  { outcome: "partial" },
];

const erasure: Schemas["NewErasure"][] = [
  { sourceId: id, sourceKeyPrefix: "refunds", anyPrefix: true },
  { sourceId: id },
  { memberId: id },
  { memoryIds: [id] },
  // @ts-expect-error: it has to name something
  {},
  // @ts-expect-error: only keys of a source have a prefix
  { sourceKeyPrefix: "refunds" },
];

// @ts-expect-error: the idempotency key is required
void client.PATCH("/v1/memories/bulk", { body: { memoryIds: [id], reviewStatus: "approved" } });
void client.PATCH("/v1/memories/bulk", {
  params: { header },
  // @ts-expect-error: an attribute has to be set
  body: { memoryIds: [id] },
});
void client.POST("/v1/workspaces/{id}/webhooks", {
  params,
  // @ts-expect-error: there is no such event
  body: { event_type: "chunk.split", url: "https://example.com/" },
});
void client.POST("/v1/workspaces/{id}/inbound-webhooks", {
  params,
  // @ts-expect-error: the name is required
  body: {},
});
void client.POST("/v1/citation-subscriptions", {
  // @ts-expect-error: the recall is required
  body: { webhook_url: "https://example.com/" },
});
void client.PATCH("/v1/orgs/{orgSlug}/custom-roles/{roleId}", {
  params: { path: { orgSlug: "acme", roleId: id } },
  // @ts-expect-error: there is no such action
  body: { actions: { allow: ["memory:paint"], deny: [] } },
});
void client.POST("/v1/workspaces/{id}/webhooks/{webhookId}/ping", {
  params: { path: { id, webhookId: id } },
  // @ts-expect-error: the body is empty
  body: { url: "https://example.com/" },
});

/** Reads what only one of the two kinds of items has. */
export function read(item: Schemas["BulkItem"]): string {
  // @ts-expect-error: only a success has a memory
  void item.memory.id;
  // @ts-expect-error: only a failure has an error
  if (item.ok) return item.error.code;
  return item.error.message;
}

type Refusal = operations["createWebhook"]["responses"][403]["headers"]["Error-Code"];
export const codes: Refusal[] = [
  "forbidden",
  "quota_exceeded",
  // @ts-expect-error: it has another status
  "not_found",
];

export { erasure, report, update };
