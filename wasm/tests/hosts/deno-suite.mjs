// Runs in Deno: the service over SQLite, seeded for the HTTP suite of the server. The arguments are the database and the
// file that the fixture is written to; a line is printed when it is there.

import { KnowledgeService } from "../../pkg-testing/web.js";
import { writeFileSync } from "node:fs";

import { SqliteStore } from "../../pkg-testing/stores/sqlite.js";
import { seed } from "../../pkg-testing/testing.js";

const [database, file] = Deno.args;
const listening = Promise.withResolvers();
const opened = Promise.withResolvers();
Deno.serve(
  { hostname: "127.0.0.1", port: 0, onListen: ({ port }) => listening.resolve(`http://127.0.0.1:${port}`) },
  async (request) => (await opened.promise).fetch(request),
);
const url = await listening.promise;
const options = { sealingKey: btoa("k".repeat(32)) };
const store = new SqliteStore(database);
const fixture = await seed(store, JSON.stringify(options));
opened.resolve(await KnowledgeService.open(store, options));
writeFileSync(file, JSON.stringify({ ...fixture, base_url: url }));
console.log("seeded");
