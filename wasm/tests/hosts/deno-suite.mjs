// Serves the package in Deno over SQLite, seeded for the HTTP suite. The arguments are the
// database and the file for the fixture; a line is printed once that is written.
//
// The testing module only seeds: the suite runs against the published package.

import "../../pkg-testing/web.js";
import { writeFileSync } from "node:fs";

import { KnowledgeService } from "../../pkg/web.js";
import { SqliteStore } from "../../pkg/stores/sqlite.js";
import { seed } from "../../pkg-testing/testing.js";
import { DISPATCH_PATH, dispatch } from "./dispatch.mjs";

const [database, file] = Deno.args;
const listening = Promise.withResolvers();
const opened = Promise.withResolvers();
Deno.serve(
  { hostname: "127.0.0.1", port: 0, onListen: ({ port }) => listening.resolve(`http://127.0.0.1:${port}`) },
  async (request) => {
    const service = await opened.promise;
    return new URL(request.url).pathname === DISPATCH_PATH ? dispatch(service, request) : service.fetch(request);
  },
);
const url = await listening.promise;
const options = { sealingKey: btoa("k".repeat(32)) };
const store = new SqliteStore(database);
const fixture = await seed(store, JSON.stringify(options));
opened.resolve(await KnowledgeService.open(store, options));
writeFileSync(file, JSON.stringify({ ...fixture, base_url: url, dispatch_path: DISPATCH_PATH }));
console.log("seeded");
