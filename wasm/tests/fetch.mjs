// Tests of requests to the service, in Node.js over the memory store.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { acme, memories, request } from "./support/acme.mjs";

const BODY_BYTES_MAX = 1024 * 1024;

test("fetch returns the headers of the API", async () => {
  const { service, workspace, token } = await acme();
  const path = `/v1/workspaces/${workspace.id}/dashboard-summary`;
  const response = await service.fetch(request(path, { token }));

  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "application/json");
  assert.match(response.headers.get("request-id"), /^[0-9a-f-]{36}$/);
  const etag = response.headers.get("etag");
  assert.equal((await response.json()).workspace.slug, "product");

  const again = await service.fetch(request(path, { token, headers: { "if-none-match": etag } }));
  assert.equal(again.status, 304);
  assert.equal(await again.text(), "");
  assert.notEqual(again.headers.get("request-id"), response.headers.get("request-id"));
});

test("a HEAD response has the length but no body", async () => {
  const { service, workspace, token } = await acme();
  const path = `/v1/workspaces/${workspace.id}/dashboard-summary`;
  const body = await (await service.fetch(request(path, { token }))).text();
  const response = await service.fetch(request(path, { token, method: "HEAD" }));
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-length"), String(body.length));
  assert.equal(await response.text(), "");
});

test("fetch replays a bulk update with the same key", async () => {
  const context = await acme();
  const ids = await memories(context, 3);
  const update = () =>
    context.service.fetch(
      request("/v1/memories/bulk", {
        token: context.token,
        method: "PATCH",
        headers: { "idempotency-key": "one", "content-type": "application/json" },
        body: JSON.stringify({ memoryIds: ids, sensitivityLabel: "restricted" }),
      }),
    );
  const [first, second] = [await update(), await update()];
  assert.equal(first.headers.get("idempotent-replayed"), null);
  assert.equal(second.headers.get("idempotent-replayed"), "true");
  const [fresh, replayed] = [await first.json(), await second.json()];
  assert.deepEqual(fresh.summary, { requested: 3, succeeded: 3, failed: 0 });
  assert.deepEqual(replayed, { ...fresh, replayed: true });
});

test("the audit log has the address that the host tells in the header it names", async () => {
  const headers = { "content-type": "application/json", "cf-connecting-ip": "2001:db8::7" };
  const body = JSON.stringify({ name: "Handbook", kind: "wiki" });
  for (const [options, address] of [[{}, null], [{ clientAddressHeader: "CF-Connecting-IP" }, "2001:db8::7"]]) {
    const { service, token } = await acme(undefined, options);
    const response = await service.fetch(request("/v1/sources", { token, method: "POST", headers, body }));
    assert.equal(response.status, 201);
    const { data } = await service.listAuditEntries(token, { action: "source.create" });
    assert.equal(data[0].client_address, address);
    assert.equal(data[0].request_id, response.headers.get("request-id"));
  }
});

test("fetch accepts a session cookie and returns an empty 204", async () => {
  const { service, session } = await acme();
  const role = {
    name: "Readers",
    slug: "readers",
    base_role: "viewer",
    description: "",
    actions: { allow: [], deny: [] },
  };
  const ask = (path, init) =>
    service.fetch(
      request(path, {
        ...init,
        headers: { cookie: `service_session=${session}`, ...init.headers },
      }),
    );
  const make = (headers) =>
    ask("/v1/orgs/acme/custom-roles", {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(role),
    });
  const elsewhere = await make({ "sec-fetch-site": "same-site", origin: "https://other.example.com" });
  assert.equal(elsewhere.status, 403);
  const made = await make();
  assert.equal(made.status, 201);
  const { id } = (await made.json()).data;
  const deleted = await ask(`/v1/orgs/acme/custom-roles/${id}`, { method: "DELETE" });
  assert.equal(deleted.status, 204);
  assert.equal(deleted.body, null);
});

test("error responses have the statuses of the server", async () => {
  const { service, token } = await acme();
  const ask = (path, init) => service.fetch(request(path, init));

  const nobody = await ask("/v1/sources");
  assert.equal(nobody.status, 401);
  assert.equal(nobody.headers.get("www-authenticate"), 'Bearer realm="knowledge"');
  assert.equal((await nobody.json()).error, "unauthenticated");

  assert.equal((await ask("/v1/nothing", { token })).status, 404);
  assert.equal((await ask("/admin/v1/orgs", { token })).status, 404);
  const method = await ask("/v1/sources", { token, method: "DELETE" });
  assert.equal(method.status, 405);
  assert.equal(method.headers.get("allow"), "GET, HEAD, POST");
  const text = { token, method: "POST", headers: { "content-type": "text/plain" }, body: "{}" };
  assert.equal((await ask("/v1/sources", text)).status, 415);
  const json = { ...text, headers: { "content-type": "application/json" } };
  const invalid = await ask("/v1/sources", json);
  assert.equal(invalid.status, 400);
  assert.deepEqual(
    (await invalid.json()).details.fields.map(({ path, code }) => [path, code]),
    [
      ["name", "required"],
      ["kind", "required"],
    ],
  );
});

/** Creates a body that is generated as it is read, and counts the bytes. */
function stream(bytes, { failsAt = Infinity } = {}) {
  const sent = { bytes: 0 };
  const body = new ReadableStream({
    pull(controller) {
      if (sent.bytes >= failsAt) return controller.error(new Error("the connection is gone"));
      if (sent.bytes >= bytes) return controller.close();
      const chunk = new Uint8Array(64 * 1024).fill(0x20);
      sent.bytes += chunk.length;
      controller.enqueue(chunk);
    },
  });
  return { body, sent };
}

test("fetch stops reading a body that is too large", async () => {
  const { service, token } = await acme();
  const { body, sent } = stream(100 * BODY_BYTES_MAX);
  const init = { token, method: "POST", body, duplex: "half", headers: { "content-type": "application/json" } };
  const response = await service.fetch(request("/v1/sources", init));
  assert.equal(response.status, 413);
  assert.deepEqual(await response.json().then(({ error, details }) => [error, details]), [
    "payload_too_large",
    { bytes_max: BODY_BYTES_MAX },
  ]);
  assert.ok(sent.bytes <= BODY_BYTES_MAX + 4 * 64 * 1024, `${sent.bytes} bytes were read`);
});

test("fetch does not read a body declared as too large", async () => {
  const { service, token } = await acme();
  const { body, sent } = stream(100 * BODY_BYTES_MAX);
  const headers = { "content-type": "application/json", "content-length": String(2 * BODY_BYTES_MAX) };
  const init = { token, method: "POST", body, duplex: "half", headers };
  const response = await service.fetch(request("/v1/sources", init));
  assert.equal(response.status, 413);
  assert.ok(sent.bytes <= 2 * 64 * 1024, `${sent.bytes} bytes were read`);
});

test("a body of small chunks holds no more than its bytes", async () => {
  const { service, token } = await acme();
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  const CHUNKS = 8_000;
  const text = JSON.stringify({ name: "Handbook", kind: "wiki" }).padEnd(CHUNKS);
  let sent = 0;
  let heldBytes = 0;
  const body = new ReadableStream({
    async pull(controller) {
      // Deno returns a chunk of one byte as a view of its whole read buffer.
      const buffer = new Uint8Array(64 * 1024);
      buffer[0] = text.charCodeAt(sent++);
      controller.enqueue(buffer.subarray(0, 1));
      if (sent % 1_000 === 0) {
        // By then earlier chunks have been released.
        await new Promise(setImmediate);
        collect();
        heldBytes = Math.max(heldBytes, process.memoryUsage().arrayBuffers - before);
      }
      if (sent === CHUNKS) controller.close();
    },
  });
  collect();
  const before = process.memoryUsage().arrayBuffers;
  const init = { token, method: "POST", body, duplex: "half", headers: { "content-type": "application/json" } };
  const response = await service.fetch(request("/v1/sources", init));
  assert.equal(response.status, 201);
  assert.equal((await response.json()).name, "Handbook");
  // All buffers together are 500 MiB. The engine frees collected ones with a delay.
  assert.ok(heldBytes < 64 * 1024 * 1024, `${heldBytes} bytes were held`);
});

test("fetch rejects invalid HTTP in the format of the API", async () => {
  const { service, token, workspace } = await acme();
  const long = "a".repeat(70_000);
  const path = await service.fetch(request(`/v1/${long}`, { token }));
  assert.equal(path.status, 400);
  assert.match(path.headers.get("request-id"), /^[0-9a-f-]{36}$/);
  assert.deepEqual(
    await path.json().then(({ error, details }) => [error, details.fields.map(({ path }) => path)]),
    ["invalid_request", ["path"]],
  );
  // This operation reports errors without a body.
  const query = await service.fetch(request(`/v1/workspaces/${workspace.id}/dashboard-summary?${long}`, { token }));
  assert.deepEqual([query.status, query.headers.get("error-code"), await query.text()], [400, "invalid_request", ""]);

  const url = "https://knowledge.example/v1/sources";
  const ask = async (parts) => {
    const response = await service.fetch({ method: "GET", url, headers: new Map(), body: null, ...parts });
    assert.match(response.headers.get("request-id"), /^[0-9a-f-]{36}$/);
    return [response.status, (await response.json()).details.fields[0].path];
  };
  assert.deepEqual(await ask({ headers: new Map([["x-bell", "\x07"]]) }), [400, "x-bell"]);
  assert.deepEqual(await ask({ method: "G E T" }), [400, "method"]);
});

test("fetch rejects a body that ends early", async () => {
  const { service, token } = await acme();
  const { body } = stream(BODY_BYTES_MAX, { failsAt: 128 * 1024 });
  const init = { token, method: "POST", body, duplex: "half", headers: { "content-type": "application/json" } };
  const response = await service.fetch(request("/v1/sources", init));
  assert.equal(response.status, 400);
  assert.equal((await response.json()).details.fields[0].path, "body");
});

test("fetch applies the limits of the options", async () => {
  const { service, token } = await acme(undefined, { limits: { bodyBytesMax: 100 } });
  const init = { token, method: "POST", body: " ".repeat(101), headers: { "content-type": "application/json" } };
  const response = await service.fetch(request("/v1/sources", init));
  assert.equal(response.status, 413);
});
