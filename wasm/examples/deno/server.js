// The workspace knowledge service in Deno, over SQLite:
//
//   deno run --allow-net=127.0.0.1 --allow-read --allow-write --allow-env server.js
//
// SEALING_KEY has 32 random bytes in base64; DATABASE is a path, PORT a number. The first start makes an organisation and
// prints a token of its owner.

import { KnowledgeService } from "knowledge-wasm";
import { SqliteStore } from "knowledge-wasm/stores/sqlite";

const SECOND_MS = 1_000;
/** How often what is due is looked for. */
const ROUND_INTERVAL_MS = 5 * SECOND_MS;
const FIRST_TOKEN_SECONDS = 24 * 60 * 60;

const hostname = "127.0.0.1";
const store = new SqliteStore(Deno.env.get("DATABASE") ?? "knowledge.db");
const port = Number(Deno.env.get("PORT") ?? 8787);
const service = await KnowledgeService.open(store, {
  sealingKey: Deno.env.get("SEALING_KEY"),
  publicUrl: `http://${hostname}:${port}`,
});

const { provision } = service;
if ((await provision.organizations({ limit: 1 })).data.length === 0) {
  const owner = { handle: "maya", name: "Maya" };
  await provision.createOrganization({ slug: "acme", name: "Acme", owner });
  const workspace = await provision.createWorkspace("acme", { slug: "product", name: "Product" });
  const { secret } = await provision.issueCredential("acme", {
    member: owner.handle,
    kind: "bearer",
    name: "first",
    expires_in_seconds: FIRST_TOKEN_SECONDS,
  });
  console.log(JSON.stringify({ token: secret, workspace: workspace.id }));
}

/** Sweeps and delivers until nothing is due, then waits. A failure is for the next round. */
async function rounds() {
  try {
    while ((await service.maintain()).hasMore);
    while ((await service.dispatch(fetch)).hasMore);
  } catch (error) {
    console.error(error);
  }
  setTimeout(rounds, ROUND_INTERVAL_MS);
}

const server = Deno.serve(
  {
    hostname,
    port,
    onListen: ({ port }) => console.log(JSON.stringify({ listening: `http://${hostname}:${port}` })),
  },
  (request) => service.fetch(request),
);
rounds();
await server.finished;
