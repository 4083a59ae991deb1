// Tests of deliveries through `fetch`, in Node.js: requests and outcomes.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { KnowledgeService } from "../pkg/node.js";
import { MemoryStore } from "../pkg/stores/memory.js";
import { SEALING_KEY, acme, memories } from "./support/acme.mjs";
import { assertSigned, endpoint } from "./support/deployed.mjs";

const WEBHOOKS = { allow: ["127.0.0.0/8"], allowHttp: true };
const HOUR_MS = 3_600_000;

/** Confirms new endpoints: answers their pings. */
const confirm = (service) => service.dispatch(async () => new Response(null, { status: 204 }));

/** Creates a service with a confirmed webhook for this URL and a pending event. */
async function withEvent(url) {
  const store = new MemoryStore();
  const context = await acme(store, { webhooks: WEBHOOKS });
  const { service, workspace, token } = context;
  const ids = await memories(context, 1);
  const body = { event_type: "memory.updated", url };
  const webhook = await service.createWebhook(token, { id: workspace.id, body });
  await confirm(service);
  await service.bulkUpdate(token, "one", { memoryIds: ids, sensitivityLabel: "restricted" });
  const deliveries = async () => {
    const path = { id: workspace.id, webhookId: webhook.id };
    const { data } = await service.listWebhookDeliveries(token, path);
    return data.filter(({ event_type }) => event_type !== "webhook.ping");
  };
  return { ...context, store, ids, webhook, deliveries };
}

test("dispatch delivers an event once, signed", async (t) => {
  const { received, url } = await endpoint(t);
  const { service, ids, webhook, deliveries } = await withEvent(`${url}/hook`);
  const done = await service.dispatch(fetch);
  assert.deepEqual([done.attempts, done.delivered], [1, 1]);
  assert.equal((await service.dispatch(fetch)).attempts, 0);

  const [request] = received;
  assert.equal(received.length, 1);
  assert.equal(request.path, "/hook");
  assert.equal(request.headers["content-type"], "application/json");
  assert.match(request.headers["user-agent"], /^knowledge\/\d+\.\d+\.\d+$/);
  assertSigned(webhook.signing_secret, request);
  const event = JSON.parse(request.body);
  assert.equal(event.type, "memory.updated");
  assert.deepEqual(event.data.memory_ids, ids);
  const [delivery] = await deliveries();
  assert.deepEqual([delivery.id, delivery.status], [request.headers["webhook-id"], "delivered"]);
});

test("dispatch retries a failed delivery when it is due", async (t) => {
  let status = 503;
  const { received, url } = await endpoint(t, (_, response) => response.writeHead(status).end());
  const { service, deliveries } = await withEvent(url);
  const failed = await service.dispatch(fetch);
  assert.deepEqual([failed.attempts, failed.delivered], [1, 0]);
  assert.ok(failed.nextDue instanceof Date || failed.hasMore);
  status = 200;
  const done = await service.dispatch(fetch, Date.now() + HOUR_MS);
  assert.deepEqual([done.attempts, done.delivered], [1, 1]);
  assert.equal(received[0].headers["webhook-id"], received[1].headers["webhook-id"]);
  const [delivery] = await deliveries();
  assert.deepEqual(delivery.attempts.map(({ status }) => status), [503, 200]);
});

test("dispatch respects its limits", async () => {
  const context = await acme(undefined, { webhooks: WEBHOOKS });
  const { service, workspace, token } = context;
  const [id] = await memories(context, 1);
  for (let number = 0; number < 3; number++) {
    const body = { event_type: "memory.updated", url: `http://127.0.0.1/${number}` };
    await service.createWebhook(token, { id: workspace.id, body });
  }
  await confirm(service);
  for (let number = 0; number < 5; number++) {
    const sensitivityLabel = number % 2 ? "internal" : "restricted";
    await service.bulkUpdate(token, `change-${number}`, { memoryIds: [id], sensitivityLabel });
  }
  let [underWay, most] = [0, 0];
  const fetch = async () => {
    most = Math.max(most, ++underWay);
    await new Promise((resolve) => setTimeout(resolve));
    underWay--;
    return new Response(null, { status: 204 });
  };
  const first = await service.dispatch(fetch, undefined, { atOnceMax: 4, attemptsMax: 10 });
  assert.deepEqual([first.attempts, first.delivered, first.hasMore, most], [10, 10, true, 4]);
  const rest = await service.dispatch(fetch, undefined, { atOnceMax: 1 });
  assert.deepEqual([rest.attempts, rest.hasMore], [5, false]);

  for (const name of ["atOnceMax", "attemptsMax"]) {
    for (const wrong of [0, -1, 1.5, NaN, Infinity, 2 ** 32, "6"]) {
      await assert.rejects(service.dispatch(fetch, undefined, { [name]: wrong }), TypeError, `${name}: ${wrong}`);
    }
  }
});

test("dispatch honours Retry-After", async (t) => {
  const { url } = await endpoint(t, (_, response) => response.writeHead(429, { "retry-after": "9" }).end());
  const { service, deliveries } = await withEvent(url);
  await service.dispatch(fetch);
  const [delivery] = await deliveries();
  const wait = Date.parse(delivery.next_attempt_at) - Date.parse(delivery.attempts[0].at);
  // The schedule itself waits 5 to 6 s, including jitter.
  assert.ok(wait >= 9_000, `it waits ${wait} ms`);
});

/** Returns the delay of the next attempt after this `Retry-After`, in milliseconds. */
async function waitAfter(retryAfter) {
  const { service, deliveries } = await withEvent(await closedAddress());
  await service.dispatch(async () => new Response(null, { status: 429, headers: { "retry-after": retryAfter() } }));
  const [delivery] = await deliveries();
  return Date.parse(delivery.next_attempt_at) - Date.parse(delivery.attempts[0].at);
}

test("dispatch accepts every form of Retry-After", async () => {
  // The parts of `toUTCString`, "Sun, 06 Nov 1994 08:49:37 GMT", ten seconds from now.
  const words = () => new Date(Date.now() + 10_000).toUTCString().split(/[ ,]+/);
  const WEEKDAYS = { Sun: "Sunday", Mon: "Monday", Tue: "Tuesday", Wed: "Wednesday", Thu: "Thursday", Fri: "Friday", Sat: "Saturday" };
  const forms = {
    "leading zeros": () => "0000000000009",
    "more digits than a number has": () => "9".repeat(400),
    "a date": () => new Date(Date.now() + 10_000).toUTCString(),
    "a date of RFC 850": () => {
      const [weekday, day, month, year, time] = words();
      return `${WEEKDAYS[weekday]}, ${day}-${month}-${year.slice(2)} ${time} GMT`;
    },
    "a date of asctime": () => {
      const [weekday, day, month, year, time] = words();
      return `${weekday} ${month} ${String(Number(day)).padStart(2)} ${time} ${year}`;
    },
  };
  // The schedule itself waits 5 to 6 s, including jitter.
  for (const [name, form] of Object.entries(forms)) {
    const wait = await waitAfter(form);
    assert.ok(wait >= 9_000, `${name}: it waits ${wait} ms`);
  }
  for (const nothing of ["soon", "-9", "9.5", "Sun, 31 Foo 9999 23:59:59 GMT", "Sun, 06 Nov 94 08:49:37 GMT"]) {
    const wait = await waitAfter(() => nothing);
    assert.ok(wait < 9_000, `${nothing}: it waits ${wait} ms`);
  }
});

test("a redirect that a custom fetch follows fails the delivery", async (t) => {
  const inside = await endpoint(t);
  const { url } = await endpoint(t, (_, response) => response.writeHead(303, { location: inside.url }).end());
  const { service, deliveries } = await withEvent(url);
  const following = (url, { redirect, ...init }) => fetch(url, init);
  const done = await service.dispatch(following);
  assert.equal(inside.received.length, 1, "the redirect was followed");
  assert.deepEqual([done.attempts, done.delivered], [1, 0]);
  const [delivery] = await deliveries();
  assert.deepEqual(delivery.attempts.map(({ status }) => status), [302]);
  assert.equal(delivery.status, "pending");
});

test("dispatch does not follow a redirect", async (t) => {
  const inside = await endpoint(t);
  const { received, url } = await endpoint(t, (_, response) =>
    response.writeHead(307, { location: inside.url }).end(),
  );
  const { service, deliveries } = await withEvent(url);
  await service.dispatch(fetch);
  assert.deepEqual([received.length, inside.received.length], [1, 0]);
  const [delivery] = await deliveries();
  assert.deepEqual(delivery.attempts.map(({ status }) => status), [307]);
});

test("dispatch reads little of an endless response", async (t) => {
  let written = 0;
  const ended = Promise.withResolvers?.() ?? withResolvers();
  const { url } = await endpoint(t, (_, response) => {
    const chunk = Buffer.alloc(64 * 1024);
    const more = () => {
      while (!response.destroyed && response.write(chunk)) written += chunk.length;
    };
    response.on("drain", more).on("close", ended.resolve);
    more();
  });
  const { service, deliveries } = await withEvent(url);
  await service.dispatch(fetch);
  await ended.promise;
  assert.ok(written < 64 * 1024 * 1024, `${written} bytes were written`);
  assert.equal((await deliveries())[0].status, "delivered");
});

function withResolvers() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}

test("a response that ends early fails the delivery", async (t) => {
  const { url } = await endpoint(t, (_, response) => {
    response.writeHead(200, { "content-length": "100" });
    response.write("half");
    setImmediate(() => response.destroy());
  });
  const { service, deliveries } = await withEvent(url);
  await service.dispatch(fetch);
  const [delivery] = await deliveries();
  assert.equal(delivery.attempts[0].error.code, "answer_broken");
});

/** Returns the URL of a port that was just closed. */
async function closedAddress() {
  const server = createServer();
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return `http://127.0.0.1:${port}`;
}

test("an unreachable endpoint gives connection_failed", async () => {
  const { service, deliveries } = await withEvent(`${await closedAddress()}/hook`);
  await service.dispatch(fetch);
  const [{ attempts }] = await deliveries();
  assert.deepEqual(attempts.map(({ error }) => error.code), ["connection_failed"]);
});

/** Timeout of an exchange. */
const EXCHANGE_MS_MAX = 15_000;

/** Replaces timers by those of the test. */
function clock(t) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  return t.mock.timers;
}

test("dispatch aborts an exchange after its timeout", async (t) => {
  let signal;
  const silent = await endpoint(t, () => {
    time.tick(EXCHANGE_MS_MAX - 1);
    assert.ok(!signal.aborted);
    time.tick(1);
    assert.ok(signal.aborted);
  });
  const { service, deliveries } = await withEvent(silent.url);
  const time = clock(t);
  const done = await service.dispatch((url, init) => {
    ({ signal } = init);
    return fetch(url, init);
  });
  assert.deepEqual([done.attempts, done.delivered, silent.received.length], [1, 0, 1]);
  const [{ attempts }] = await deliveries();
  assert.deepEqual(attempts.map(({ error }) => error.code), ["timed_out"]);
});

test("dispatch aborts a response that does not end in time", async (t) => {
  const { url } = await endpoint(t, (_, response) => response.writeHead(200).write("half"));
  const { service, deliveries } = await withEvent(url);
  const time = clock(t);
  await service.dispatch(async (...exchange) => {
    const response = await fetch(...exchange);
    time.tick(EXCHANGE_MS_MAX);
    return response;
  });
  const [{ attempts }] = await deliveries();
  assert.deepEqual(attempts.map(({ error }) => error.code), ["timed_out"]);
});

test("dispatch does not wait for a fetch that ignores the signal", async (t) => {
  const { service, deliveries } = await withEvent(await closedAddress());
  const time = clock(t);
  const never = new Promise(() => {});
  /** Runs a dispatch pass with a `fetch` that calls back once it hangs, then advances the time. */
  const dispatch = async (silent, now) => {
    let dispatched;
    await new Promise((waits) => {
      dispatched = service.dispatch(() => silent(waits), now);
    });
    time.tick(EXCHANGE_MS_MAX);
    await dispatched;
  };
  await dispatch((waits) => {
    waits();
    return never;
  });
  const answering = (waits) => {
    const pull = () => {
      waits();
      return never;
    };
    return Promise.resolve(new Response(new ReadableStream({ pull }, { highWaterMark: 0 })));
  };
  await dispatch(answering, Date.now() + HOUR_MS);
  const [{ attempts }] = await deliveries();
  assert.deepEqual(attempts.map(({ error }) => error.code), ["timed_out", "timed_out"]);
});

test("createWebhook rejects an address that is not permitted", async (t) => {
  const { url } = await endpoint(t);
  const { service, token, workspace } = await acme();
  const body = { event_type: "memory.updated", url: url.replace("http:", "https:") };
  await assert.rejects(service.createWebhook(token, { id: workspace.id, body }), { status: 400 });
});

test("dispatch rejects an address that is no longer permitted", async (t) => {
  const { received, url } = await endpoint(t);
  const { store, deliveries } = await withEvent(url);
  const webhooks = { ...WEBHOOKS, allow: [] };
  const strict = await KnowledgeService.open(store, { sealingKey: SEALING_KEY, webhooks });
  const done = await strict.dispatch(fetch);
  assert.deepEqual([done.attempts, done.delivered, received.length], [1, 0, 0]);
  const [{ attempts }] = await deliveries();
  assert.deepEqual(attempts.map(({ error }) => error.code), ["address_refused"]);
});
