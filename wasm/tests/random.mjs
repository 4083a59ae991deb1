// Tests of the random bytes of the module.

import assert from "node:assert/strict";
import { test } from "node:test";

import { acme } from "./support/acme.mjs";

const SECRETS = 300;
const SECRET_BYTES = 32;

test("random bytes are requested in bulk and used once", async (t) => {
  const { service } = await acme();
  const given = [];
  const original = crypto.getRandomValues.bind(crypto);
  const requested = t.mock.method(crypto, "getRandomValues", (bytes) => {
    original(bytes);
    given.push(Uint8Array.from(bytes));
    return bytes;
  });
  const secrets = [];
  for (let number = 0; number < SECRETS; number++) {
    const credential = { member: "maya", kind: "bearer", name: `${number}`, expires_in_seconds: 60 };
    const { secret } = await service.provision.issueCredential("acme", credential);
    secrets.push(Buffer.from(secret.split("_").slice(2).join("_"), "base64url"));
  }
  const stream = Buffer.concat(given);
  // The first secrets may consist of bytes that were requested earlier.
  const places = secrets.map((secret) => stream.indexOf(secret)).filter((place) => place >= 0);
  assert.ok(places.length > SECRETS / 2);
  assert.ok(secrets.every(({ length }) => length === SECRET_BYTES));
  for (let at = 1; at < places.length; at++) {
    assert.ok(places[at] >= places[at - 1] + SECRET_BYTES, `secret ${at} begins with unused bytes`);
  }
  assert.ok(requested.mock.callCount() < SECRETS / 10);
});
