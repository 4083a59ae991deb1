// Concurrent bulk updates of a deployment with few idempotency keys, across crashes.

import assert from "node:assert/strict";
import { request } from "node:http";
import { json } from "node:stream/consumers";

import { memories, organization } from "./deployed.mjs";

const KEYS = 100;
const CALLS_PER_KEY = 10;

/** Outcome of the calls with one idempotency key. */
class Outcome {
  operations = new Set();
  fresh = 0;
  lost = 0;

  get isAcknowledged() {
    return this.operations.size > 0;
  }
}

/** Returns the updated memories; asserts that the counter agrees with them. */
async function reviewed({ ask }, { workspace, token }) {
  const { data } = await ask("GET", `/v1/workspaces/${workspace.id}/memories?limit=200`, token);
  const summary = await ask("GET", `/v1/workspaces/${workspace.id}/dashboard-summary`, token);
  const isDone = ({ reviewStatus, sensitivityLabel }) => reviewStatus === "approved" && sensitivityLabel === "restricted";
  const isUntouched = ({ reviewStatus, sensitivityLabel }) => reviewStatus === "pending" && sensitivityLabel === "internal";
  assert.ok(data.every((memory) => isDone(memory) || isUntouched(memory)), "an update is applied as a whole");
  const done = new Set(data.filter(isDone).map(({ id }) => id));
  assert.equal(summary.review_backlog_count, data.length - done.size, "the counter agrees with the memories");
  return done;
}

async function auditedOperations({ ask }, { token }) {
  const entries = [];
  let cursor = "";
  do {
    const page = await ask("GET", `/v1/audit-log?action=memory.bulk_update&limit=200${cursor}`, token);
    entries.push(...page.data);
    cursor = page.next_cursor && `&cursor=${page.next_cursor}`;
  } while (cursor);
  return entries.map((entry) => entry.operation_id);
}

/**
 * Sends an update, and waits for the response as long as the connection exists. `fetch` stops
 * connecting after ten seconds, too early for many connections on a busy machine.
 */
function patch(url, token, idempotencyKey, update) {
  const headers = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
    "idempotency-key": idempotencyKey,
  };
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: "PATCH", headers, agent: false }, async (response) => {
      try {
        resolve({ status: response.statusCode, body: await json(response) });
      } catch (error) {
        reject(error);
      }
    });
    sent.on("error", reject);
    sent.end(JSON.stringify(update));
  });
}

/**
 * Makes all calls concurrently, with one memory per key, and kills the deployment at the given
 * numbers of acknowledged keys. Asserts that acknowledged updates survive each restart, and that in
 * the end each key was applied once. The deployment must be running and have `kill` and `start`.
 */
export async function updateAll(deployed, crashesAt = []) {
  const acme = await organization(deployed.ask, "acme");
  const ids = await memories(deployed.ask, acme, KEYS);
  const outcomes = ids.map(() => new Outcome());
  const acknowledged = () => ids.filter((_, key) => outcomes[key].isAcknowledged);
  let crashes = 0;
  /** Number of updates that survived a crash without having been acknowledged. */
  let unacknowledged = 0;
  let unanswered = KEYS * CALLS_PER_KEY;
  let isRestarting = false;
  let restarted;

  async function crash() {
    crashes += 1;
    isRestarting = true;
    const before = acknowledged();
    assert.ok(before.length < KEYS && unanswered > 0, "other calls are under way");
    await deployed.kill();
    await deployed.start();
    const done = await reviewed(deployed, acme);
    assert.ok(before.every((id) => done.has(id)), "acknowledged updates survived");
    unacknowledged += done.size - acknowledged().length;
    isRestarting = false;
  }

  function send(key) {
    const update = { memoryIds: [ids[key]], sensitivityLabel: "restricted", reviewStatus: "approved" };
    return patch(`${deployed.url}/v1/memories/bulk`, acme.token, `key-${key}`, update);
  }

  async function call(key) {
    for (;;) {
      // Another crash may begin during this wait.
      while (isRestarting) await restarted;
      const crashesBefore = crashes;
      let answer;
      try {
        answer = await send(key);
      } catch (error) {
        // Only a crash may lose a response.
        if (crashes === crashesBefore) throw error;
        outcomes[key].lost += 1;
        continue;
      }
      const { status, body } = answer;
      assert.equal(status, 200, JSON.stringify(body));
      assert.deepEqual([body.summary.succeeded, body.summary.failed], [1, 0]);
      outcomes[key].operations.add(body.operationId);
      outcomes[key].fresh += body.replayed ? 0 : 1;
      unanswered -= 1;
      if (!isRestarting && acknowledged().length >= crashesAt[crashes]) restarted = crash();
      return;
    }
  }

  const calls = Array.from({ length: KEYS * CALLS_PER_KEY }, (_, number) => call(Math.floor(number / CALLS_PER_KEY)));
  await Promise.all(calls);
  // The last responses may have been on their way when the last crash began.
  await restarted;

  assert.equal((await reviewed(deployed, acme)).size, KEYS, "every update was applied");
  assert.ok(outcomes.every(({ operations }) => operations.size === 1), "each key has one operation");
  const operations = await auditedOperations(deployed, acme);
  assert.equal(operations.length, KEYS, "each memory was updated once");
  assert.deepEqual(new Set(operations), new Set(outcomes.flatMap(({ operations }) => [...operations])));
  const acknowledgedFirst = outcomes.filter(({ fresh }) => fresh === 1);
  // A key without a first response must have lost it in a crash.
  const lostFirst = outcomes.filter(({ fresh, lost }) => fresh === 0 && lost > 0);
  assert.equal(acknowledgedFirst.length + lostFirst.length, KEYS);
  return { crashes, unacknowledged, outcomes };
}
