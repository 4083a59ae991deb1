// Tests of what the console computes itself, without a page.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Client } from "../page/api/client.js";
import { ApiError, fieldProblem } from "../page/api/error.js";
import { backlogs } from "../page/models/activity.js";
import { coverageOf } from "../page/models/labels.js";
import { BulkRun, preview } from "../page/models/bulk.js";
import { endingText } from "../page/models/endings.js";
import { Access } from "../page/directory.js";
import { batchesOf, readLines, withoutRejected } from "../page/models/import-file.js";
import { digest, sha256 } from "../page/models/digest.js";
import { actionsOf } from "../page/models/vocabulary.js";
import { href, parseRoute } from "../page/router.js";
import { nearTime } from "../page/ui/format.js";

/** @import { ActivityDay, BulkUpdate, CustomRole, MemberDetails, MemorySummary } from "../../wasm/pkg/operations.js" */
/** @import { ApiRequest, Identity } from "../page/api/client.js" */
/** @import { Directory } from "../page/directory.js" */

/**
 * @param {string} id
 * @param {Partial<MemorySummary>} labels
 */
const memory = (id, labels) =>
  /** @type {MemorySummary} */ ({
    id,
    sensitivityLabel: "internal",
    reviewStatus: "pending",
    audienceTag: "org:acme",
    sourceId: "s",
    ...labels,
  });

/**
 * Returns what a member may do in the workspace `w`.
 * @param {Partial<Identity>} identity
 * @param {MemberDetails["workspace_roles"] | null} [workspaceRoles]
 * @param {CustomRole[]} [roles]
 */
const accessOf = (identity, workspaceRoles = [], roles = []) =>
  new Access(
    /** @type {Identity} */ ({ role: "member", actions: [], ...identity }),
    "w",
    workspaceRoles,
    /** @type {Directory} */ ({ roles }),
  );
/** What an owner may do. */
const ALL = new Access(null, "w", null, /** @type {Directory} */ ({ roles: /** @type {CustomRole[]} */ ([]) }));

test("hash without the browser's is the same", async () => {
  for (let length = 0; length < 200; length++) {
    const bytes = Uint8Array.from({ length }, (_, index) => (index * 37 + length) % 256);
    assert.deepEqual(digest(bytes), await sha256(bytes), `${length} bytes`);
  }
});

/**
 * Sends a request that a proxy answers in turn, and returns the number of attempts and the outcome.
 * @param {Response[]} answers
 */
async function sentTo(answers) {
  let attempts = 0;
  /** @type {number[]} */
  const waits = [];
  const connection = { wait: async (/** @type {number} */ ms) => void waits.push(ms), settle() {} };
  const transport = async () => /** @type {Response} */ (answers[attempts++]?.clone());
  const client = new Client(transport, /** @type {any} */ (connection), () => {});
  const outcome = await client.send("GET", "/v1/workspaces").catch((/** @type {ApiError} */ error) => error);
  return { attempts, waits, outcome };
}

test("retry after a date waits until then", async () => {
  const at = (/** @type {number} */ ms) => ({ "retry-after": new Date(Date.now() + ms).toUTCString() });
  const json = { "content-type": "application/json" };
  const good = new Response("{}", { headers: json });
  const soon = new Response(null, { status: 503, headers: at(9_000) });
  const { attempts, waits } = await sentTo([soon, good]);
  assert.equal(attempts, 2);
  assert.ok((waits[0] ?? 0) > 6_000 && (waits[0] ?? 0) <= 9_000, `${waits}`);
  const late = await sentTo([new Response(null, { status: 503, headers: at(3_600_000) }), good]);
  assert.equal(late.attempts, 1);
  for (const value of ["Sun, 06 Nov 1994 08:49:37 GMT", "soon"]) {
    const past = await sentTo([new Response(null, { status: 503, headers: { "retry-after": value } }), good]);
    assert.deepEqual([past.attempts, past.waits], [2, [500]]);
  }
});

test("page of a proxy is not taken for an answer", async () => {
  const page = new Response("<html>", { headers: { "content-type": "text/html" } });
  const { attempts, outcome } = await sentTo([page]);
  assert.equal(attempts, 1);
  assert.ok(outcome instanceof ApiError);
  assert.deepEqual([outcome.code, outcome.message], ["foreign", "an answer with status 200 is not from this server"]);
});

test("route survives being written and parsed", () => {
  const address = href({
    workspace: "operations",
    screen: "memories",
    item: "",
    query: { audienceTag: "team:a", sourceId: "" },
  });
  assert.equal(address, "#/operations/memories?audienceTag=team%3Aa");
  const { workspace, screen, item, query } = parseRoute(address);
  assert.deepEqual([workspace, screen, item, query.get("audienceTag")], ["operations", "memories", "", "team:a"]);
  assert.equal(parseRoute("").screen, "");
});

test("preview counts changing, unchanged and lowered memories", () => {
  const memories = [
    memory("1", {}),
    memory("2", { sensitivityLabel: "public" }),
    memory("3", { sensitivityLabel: "restricted" }),
  ];
  const { changing, unchanged, lowered } = preview(memories, { sensitivityLabel: "public" }, ALL);
  assert.deepEqual(
    changing.map(({ id }) => id),
    ["1", "3"],
  );
  assert.deepEqual([unchanged, lowered], [1, 2]);
});

test("preview leaves out what cannot be read when it is approved or rejected", () => {
  const memories = [memory("1", {}), memory("2", { title: null }), memory("3", { reviewStatus: "approved" })];
  const { changing, unchanged, refused } = preview(memories, { reviewStatus: "approved" }, ALL);
  assert.deepEqual(
    changing.map(({ id }) => id),
    ["1"],
  );
  assert.deepEqual([unchanged, refused], [1, 1]);
  assert.equal(preview(memories, { reviewStatus: "pending" }, ALL).refused, 0);
});

test("preview leaves out what may not be lowered", () => {
  const access = accessOf({ actions: ["memory:update"] });
  const memories = [memory("1", {}), memory("2", { sensitivityLabel: "restricted" })];
  const { changing, refused, lowered } = preview(memories, { sensitivityLabel: "confidential" }, access);
  assert.deepEqual(
    changing.map(({ id }) => id),
    ["1"],
  );
  assert.deepEqual([refused, lowered], [1, 1]);
});

test("roles permit what the reference says", () => {
  const reference = readFileSync(new URL("../../docs/reference.md", import.meta.url), "utf8");
  const [, table = ""] = reference.split("<!-- table built-in roles -->");
  const [head = "", , ...rows] = table.split("<!-- end -->")[0]?.trim().split("\n") ?? [];
  const cells = (/** @type {string} */ row) => row.split("|").map((cell) => cell.trim());
  const [, , ...roles] = cells(head);
  for (const [index, role] of roles.filter((role) => role !== "").entries()) {
    const permitted = rows.map(cells).filter((row) => row[index + 2] === "yes");
    const actions = permitted.map(([, action = ""]) => action.replaceAll("`", ""));
    assert.deepEqual([...(actionsOf(role, []) ?? [])].toSorted(), actions.toSorted(), role);
  }
});

test("role counts in the workspace in which it replaces the other", () => {
  const role = /** @type {CustomRole} */ ({
    id: "r",
    base_role: "member",
    is_active: false,
    actions: { allow: ["member:manage"], deny: ["memory:review"] },
  });
  const there = { workspace_id: "w", role: "r" };
  const admin = accessOf({ role: "admin", actions: [...(actionsOf("admin", []) ?? [])] }, [], [role]);
  assert.ok(admin.holds("member:manage") && admin.covers("r") && !admin.covers("owner"));
  // Making the workspace private would shut the administrator out.
  assert.ok(!admin.controls);

  const inactive = accessOf({ role: "admin", actions: [...(actionsOf("admin", []) ?? [])] }, [there], [role]);
  assert.ok(inactive.holds("memory:create") && !inactive.holds("memory:review") && !inactive.controls);
  assert.ok(inactive.holds("role:manage"), "it counts in the organisation");
  role.is_active = true;
  const active = accessOf({ actions: [...(actionsOf("viewer", []) ?? [])] }, [there], [role]);
  assert.ok(active.controls && !active.holds("member:manage"));
  assert.ok(active.hasRole("r") && !active.covers("r") && active.covers("viewer"));
});

test("action that is not known to be missing is offered until it is refused", () => {
  const access = accessOf({ actions: ["role:read"] }, null);
  assert.ok(access.holds("webhook:manage") && !access.holds("audit:read"));
  access.note(new ApiError({ status: 403, code: "forbidden", message: "", details: {} }));
  assert.ok(access.holds("webhook:manage"));
  access.note(new ApiError({ status: 403, code: "forbidden", message: "", details: { permission: "webhook:manage" } }));
  assert.ok(!access.holds("webhook:manage"));
});

test("audience label of another team or person does not cover the caller", () => {
  const access = accessOf({ member: { id: "m", handle: "maya", name: "M", kind: "user", teams: ["sales"] } });
  const labels = ["team:sales", "team:platform", "user:maya", "user:noor", "workspace:w", "org:acme"];
  assert.deepEqual(
    labels.filter((label) => !access.isCoveredBy(label)),
    ["team:platform", "user:noor"],
  );
  assert.ok(labels.every((label) => ALL.isCoveredBy(label)));
});

test("program decides on nothing that it added", () => {
  const member = { id: "m", handle: "m", name: "M", teams: [] };
  const program = accessOf({ member: { ...member, kind: "service_account" } });
  const person = accessOf({ member: { ...member, kind: "user" } });
  const decided = [program, person].map((access) => [
    access.decidesOn({ title: "Own", createdBy: "m" }),
    access.decidesOn({ title: "Of others", createdBy: "n" }),
    access.decidesOn({ title: null, createdBy: "n" }),
  ]);
  assert.deepEqual(decided, [
    [false, true, false],
    [true, true, false],
  ]);
});

/** Returns operations that accept every bulk update but for the first `failures`, and record them. */
function recorder({ failures = 0 } = {}) {
  /** @type {{ update: BulkUpdate, key: string }[]} */
  const calls = [];
  let left = failures;
  const operations = {
    async bulkUpdateMemories(/** @type {BulkUpdate} */ update, /** @type {string} */ key) {
      calls.push({ update, key });
      left -= 1;
      if (left >= 0) throw new Error("cut");
      const results = update.memoryIds.map((memoryId) => ({ memoryId, ok: memoryId !== "refused" }));
      return { results, labels_without_members: [] };
    },
  };
  return { calls, operations: /** @type {any} */ (operations) };
}

test("bulk run splits at 1,000 memories and repeats a failed call", async () => {
  const memories = Array.from({ length: 1_500 }, (_, index) => memory(String(index), {}));
  const run = new BulkRun([{ memories, change: { reviewStatus: "approved" } }]);
  const { calls, operations } = recorder({ failures: 1 });
  await assert.rejects(
    run.run(operations, () => {}),
    /cut/,
  );
  assert.equal(run.isDone, false);
  await run.run(operations, () => {});
  assert.deepEqual(
    calls.map(({ update }) => update.memoryIds.length),
    [1_000, 1_000, 500],
  );
  assert.equal(calls[0]?.key, calls[1]?.key);
  assert.notEqual(calls[1]?.key, calls[2]?.key);
  assert.equal(run.results.length, 1_500);
});

test("undo restores what succeeded, with keys of its own", async () => {
  const memories = [memory("1", {}), memory("2", { sensitivityLabel: "public" }), memory("refused", {})];
  const run = new BulkRun([{ memories, change: { sensitivityLabel: "restricted" } }]);
  const { calls, operations } = recorder();
  await run.run(operations, () => {});
  await run.undo().run(operations, () => {});
  assert.deepEqual(
    calls.map(({ update }) => update),
    [
      { memoryIds: ["1", "2", "refused"], sensitivityLabel: "restricted" },
      { memoryIds: ["1"], sensitivityLabel: "internal" },
      { memoryIds: ["2"], sensitivityLabel: "public" },
    ],
  );
  assert.equal(new Set(calls.map(({ key }) => key)).size, 3);
});

test("backlog of each day follows from that of now", () => {
  const days = [0, 1, -1].map((backlog_change) => /** @type {ActivityDay} */ ({ backlog_change }));
  assert.deepEqual(backlogs(days, 4), [4, 5, 4]);
  // What was reviewed between the two requests never makes it negative.
  assert.deepEqual(backlogs(days, 0), [0, 1, 0]);
});

test("import keys lines without a source key as the command does", async () => {
  const lines = await readLines(
    '{"title":"a","content":"bc"}\n\n{"title":"a","content":"bc"}\n{"title":"ä"}\nnope\n[]\n' +
      '{"title":"a","content":"bc","audience_tag":"user:maya"}',
  );
  assert.deepEqual(
    lines.map(({ number, problem }) => [number, problem]),
    [
      [1, ""],
      [3, "has the key of line 1"],
      [4, "content is required"],
      [5, "is not valid JSON"],
      [6, "must be a JSON object"],
      [7, ""],
    ],
  );
  // The SHA-256 of eight bytes of length, "a" and "bc"; before it, eight of length and the label.
  assert.equal(lines[0]?.memory?.source_key, "sha256:e98bc483cc6af9ccf82bc23e481a128c12818251d9d359a7b560dcabfd7909d6");
  assert.equal(lines[5]?.memory?.source_key, "sha256:afbd7d1c81cda2d9bd9b26c58d7ccb826d13d3276fa3c47d3c5c4ec7bff8268e");
});

test("import names lines whose title or label is not valid", async () => {
  const lines = await readLines(
    ['"title":" "', '"title":"t","audience_tag":"sales"', '"title":"t","audience_tag":"team:sales"']
      .map((fields) => `{${fields},"content":"c"}`)
      .join("\n"),
  );
  assert.deepEqual(
    lines.map(({ problem }) => problem),
    ["title is required", "audience_tag must be such as team:sales", ""],
  );
});

test("import leaves out the lines that the service rejects", () => {
  const batch = [1, 2, 3].map((number) => ({
    number,
    problem: "",
    memory: { title: "t", content: "c", source_key: String(number) },
  }));
  const rejection = (/** @type {string} */ path) =>
    new ApiError({
      status: 400,
      code: "invalid_request",
      message: "no",
      details: { fields: [{ path, code: "invalid_value", message: "must be shorter" }] },
    });
  const left = withoutRejected(batch, rejection("memories[1].title"));
  assert.deepEqual(
    left.map(({ number }) => number),
    [1, 3],
  );
  assert.deepEqual([batch[1]?.memory, batch[1]?.problem], [null, "title must be shorter"]);
  for (const error of [rejection("source_id"), rejection("memories[9].title"), new TypeError("cut")])
    assert.throws(() => withoutRejected(left, error), error);
});

test("import batches stay below the bounds of a request", () => {
  const line = (/** @type {number} */ number, /** @type {number} */ bytes) => ({
    number,
    problem: "",
    memory: { title: "t", content: "x".repeat(bytes), source_key: String(number) },
  });
  const small = Array.from({ length: 250 }, (_, index) => line(index, 10));
  assert.deepEqual(
    batchesOf(small).map(({ length }) => length),
    [100, 100, 50],
  );
  const large = Array.from({ length: 60 }, (_, index) => line(index, 32_000));
  assert.deepEqual(
    batchesOf(large).map(({ length }) => length),
    [31, 29],
  );
});

test("times near now are relative, others are dates", () => {
  const now = Date.parse("2026-03-20T12:00:00.000Z");
  assert.equal(nearTime(new Date(now - 90_000), now), "1 minute ago");
  assert.equal(nearTime(new Date(now - 5_000), now), "now");
  assert.equal(nearTime(new Date(now + 3 * 60 * 60 * 1_000), now), "in 3 hours");
  assert.equal(nearTime(new Date(now - 33 * 60 * 60 * 1_000), now), "1 day ago");
  assert.equal(nearTime(new Date("2026-01-02T12:00:00.000Z"), now), "2 Jan 2026");
});

/**
 * Returns a client whose transport answers in turn; `null` is a lost response.
 * @param {(Response | null)[]} answers
 */
function clientOf(answers) {
  /** @type {ApiRequest[]} */
  const requests = [];
  const connection = { wait: async () => {}, settle() {} };
  const transport = async (/** @type {ApiRequest} */ request) => {
    requests.push(request);
    const answer = answers.shift();
    if (!answer) throw new TypeError("cut");
    return answer;
  };
  return { requests, client: new Client(transport, /** @type {any} */ (connection), () => {}) };
}

test("client repeats what is safe, with the same key", async () => {
  const { client, requests } = clientOf([null, new Response("{}")]);
  await client.send("PATCH", "/v1/memories/bulk", { body: {}, idempotencyKey: "k" });
  assert.deepEqual(
    requests.map(({ headers }) => headers.get("idempotency-key")),
    ["k", "k"],
  );
});

test("client does not repeat a creation whose response was lost", async () => {
  const { client, requests } = clientOf([null]);
  await assert.rejects(client.send("POST", "/v1/sources", { body: {} }), { code: "network_unknown" });
  assert.equal(requests.length, 1);
});

test("client does not repeat a change with a condition, which it would not meet again", async () => {
  const { client, requests } = clientOf([null]);
  const change = client.send("PATCH", "/v1/memories/m", { body: {}, ifMatch: '"1"' });
  await assert.rejects(change, { code: "network_unknown" });
  assert.equal(requests.length, 1);
});

test("client creates with the key of an earlier attempt that may have succeeded", async () => {
  const { client, requests } = clientOf([null, null, null, null, null, new Response("{}"), new Response("{}")]);
  const create = (/** @type {string} */ name) => client.create("/v1/sources", { name });
  await assert.rejects(create("Wiki"));
  await create("Wiki");
  await create("Wiki");
  const keys = requests.map(({ headers }) => headers.get("idempotency-key"));
  assert.equal(new Set(keys.slice(0, 6)).size, 1);
  assert.notEqual(keys[5], keys[6]);
});

test("client takes a repeated deletion that finds nothing as done", async () => {
  const { client } = clientOf([null, new Response("", { status: 404 })]);
  await client.send("DELETE", "/v1/memories/m");
  const other = clientOf([new Response("", { status: 404, headers: { "error-code": "not_found" } })]);
  await assert.rejects(other.client.send("DELETE", "/v1/memories/m"), { code: "not_found" });
});

test("client reads errors from the body and from headers", async () => {
  const fields = [{ path: "actions.allow[0]", code: "invalid_value", message: "must be an action" }];
  const body = JSON.stringify({ error: "invalid_request", message: "no", details: { fields } });
  const { client } = clientOf([
    new Response(body, { status: 400, headers: { "content-type": "application/json" } }),
    new Response("", { status: 400, headers: { "error-code": "invalid_request", "error-message": "url is required" } }),
  ]);
  const error = await client.send("POST", "/v1/sources", { body: {} }).catch((cause) => cause);
  assert.equal(fieldProblem(error, "actions"), "must be an action");
  await assert.rejects(client.send("POST", "/v1/sources", { body: {} }), {
    code: "invalid_request",
    message: "url is required",
  });
});

test("label of a workspace says whom it covers", () => {
  const open = coverageOf({ slug: "support", access: "open" });
  assert.equal(open, "The workspace is open: workspace:support covers every member of the organisation.");
  const closed = coverageOf({ slug: "board", access: "private" });
  assert.equal(closed, "The workspace is private: workspace:board covers members with a role in it, and owners.");
});

test("ending says when and why", () => {
  assert.equal(endingText(null, null), null);
  const missing = endingText("permission_missing", null);
  assert.equal(
    missing,
    "Its member lacks the permission or cannot see this workspace. It works again once that changes.",
  );
  const removed = endingText("member_removed", "2026-03-20T12:00:00.000Z");
  assert.match(removed ?? "", /^Ended 20 Mar 2026, .*\. Its member was removed\./);
});
