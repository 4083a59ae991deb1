// The workspace knowledge service in Deno, over SQLite. `deno task start` starts it, with these
// environment variables:
//
// - SEALING_KEY: 32 random bytes in base64. A database opens only with its first key.
// - OPERATOR_TOKEN: token of the operator API; without it the API rejects every request.
// - DATABASE: a path; PORT: a number; PUBLIC_URL: the public base URL.
// - WEBHOOKS: permitted targets besides public addresses, such as
//   {"allow": ["127.0.0.0/8"], "allowHttp": true}. A private network must also be removed from the
//   task's --deny-net.

import { createHash, timingSafeEqual } from "node:crypto";

import { KnowledgeService } from "knowledge-wasm";
import { SqliteStore } from "knowledge-wasm/stores/sqlite";

/** Interval between two rounds of maintenance and deliveries, in milliseconds. */
const ROUND_INTERVAL_MS = 5_000;

const { DATABASE = "knowledge.db", OPERATOR_TOKEN, SEALING_KEY, WEBHOOKS = "{}", ...given } = Deno.env.toObject();
const hostname = "127.0.0.1";
const port = Number(given.PORT ?? 8787);
const service = await KnowledgeService.open(new SqliteStore(DATABASE), {
  sealingKey: SEALING_KEY,
  publicUrl: given.PUBLIC_URL ?? `http://${hostname}:${port}`,
  webhooks: JSON.parse(WEBHOOKS),
});

/** Returns true for the operator's token, by comparing digests in constant time. */
function isOperator(request) {
  if (!OPERATOR_TOKEN) return false;
  const digest = (text) => createHash("sha256").update(text).digest();
  const given = request.headers.get("authorization") ?? "";
  return timingSafeEqual(digest(given), digest(`Bearer ${OPERATOR_TOKEN}`));
}

function answer(request) {
  if (!new URL(request.url).pathname.startsWith("/admin/v1/")) return service.fetch(request);
  if (isOperator(request)) return service.provision.fetch(request);
  const body = { error: "unauthenticated", message: "send the operator's token: Authorization: Bearer ..." };
  return Response.json(body, { status: 401, headers: { "www-authenticate": "Bearer" } });
}

/** Repeats `work` until nothing more is due. After a failure the next round continues. */
async function finish(work) {
  try {
    while ((await work()).hasMore);
  } catch (error) {
    console.error(error);
  }
}

async function rounds() {
  await Promise.all([finish(() => service.maintain()), finish(() => service.dispatch(fetch))]);
  setTimeout(rounds, ROUND_INTERVAL_MS);
}

const onListen = ({ port }) => console.log(`http://${hostname}:${port}`);
const server = Deno.serve({ hostname, port, onListen }, answer);
rounds();
await server.finished;
