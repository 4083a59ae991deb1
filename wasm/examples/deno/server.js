// The workspace knowledge service in Deno, over SQLite. `deno task start` starts it; the environment says with what:
//
// - SEALING_KEY: 32 random bytes in base64. A database is opened with the key that it was first opened with.
// - OPERATOR_TOKEN: what the operator's interface is reached with; without one nobody reaches it.
// - DATABASE, a path; PORT, a number; PUBLIC_URL, where the service is reached from outside.
// - WEBHOOKS: where deliveries may go besides public addresses, as in {"allow": ["127.0.0.0/8"], "allowHttp": true}. Of private
//   networks the task's --deny-net has to let go, too.

import { createHash, timingSafeEqual } from "node:crypto";

import { KnowledgeService } from "knowledge-wasm";
import { SqliteStore } from "knowledge-wasm/stores/sqlite";

/** How often what is due is looked for. */
const ROUND_INTERVAL_MS = 5_000;

const { DATABASE = "knowledge.db", OPERATOR_TOKEN, SEALING_KEY, WEBHOOKS = "{}", ...given } = Deno.env.toObject();
const hostname = "127.0.0.1";
const port = Number(given.PORT ?? 8787);
const service = await KnowledgeService.open(new SqliteStore(DATABASE), {
  sealingKey: SEALING_KEY,
  publicUrl: given.PUBLIC_URL ?? `http://${hostname}:${port}`,
  webhooks: JSON.parse(WEBHOOKS),
});

/** Whether the operator asks. The digests have one length, and comparing them takes the same time wherever they differ. */
function isOperator(request) {
  if (!OPERATOR_TOKEN) return false;
  const digest = (text) => createHash("sha256").update(text).digest();
  const given = request.headers.get("authorization") ?? "";
  return timingSafeEqual(digest(given), digest(`Bearer ${OPERATOR_TOKEN}`));
}

function answer(request) {
  if (!new URL(request.url).pathname.startsWith("/admin/v1/")) return service.fetch(request);
  if (isOperator(request)) return service.provision.fetch(request);
  const body = { error: "unauthenticated", message: "the operator's token is needed: Authorization: Bearer ..." };
  return Response.json(body, { status: 401, headers: { "www-authenticate": "Bearer" } });
}

/** Does what is due until nothing is left to do now. What fails is for the next round. */
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
