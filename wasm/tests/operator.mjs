// Tests of requests to the operator API, which a deployment forwards after authentication.

import assert from "node:assert/strict";
import { test } from "node:test";

import { BASE, acme } from "./support/acme.mjs";

/** Creates a request to the operator API, with an optional body in JSON. */
function asked(method, path, body) {
  const headers = { "content-type": "application/json" };
  return new Request(BASE + path, { method, headers, body: body && JSON.stringify(body) });
}

test("provision.fetch returns the results of the methods", async () => {
  const { service } = await acme();
  const { provision } = service;
  const listed = await provision.fetch(asked("GET", "/admin/v1/orgs"));
  assert.equal(listed.status, 200);
  assert.ok(listed.headers.get("request-id"));
  assert.deepEqual(await listed.json(), await provision.organizations());

  const wanted = { member: "maya", kind: "session", name: "browser", expires_in_seconds: 60 };
  const issued = await provision.fetch(asked("POST", "/admin/v1/orgs/acme/credentials", wanted));
  assert.equal(issued.status, 201);
  const { secret } = await issued.json();
  assert.deepEqual((await service.listCustomRoles(secret, { orgSlug: "acme" })).data, []);
});

test("provision.fetch rejects requests as the public API does", async () => {
  const { service } = await acme();
  const { provision } = service;
  const slug = { slug: "acme", name: "Acme", owner: { handle: "maya", name: "Maya" } };
  const taken = await provision.fetch(asked("POST", "/admin/v1/orgs", slug));
  assert.equal(taken.status, 409);
  const large = await provision.fetch(asked("POST", "/admin/v1/orgs", { name: "x".repeat(2 ** 24) }));
  assert.equal(large.status, 413);
  assert.equal((await large.json()).error, "payload_too_large");
  assert.equal((await provision.fetch(asked("GET", "/v1/sources"))).status, 404);
  // The public API does not include the operator API.
  assert.equal((await service.fetch(asked("GET", "/admin/v1/orgs"))).status, 404);
});
