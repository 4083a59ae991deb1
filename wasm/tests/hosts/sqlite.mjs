// Runs the conformance suite over SQLite, in Deno or Node.js, and prints the report. The argument
// is the directory of the databases.

import { join } from "node:path";

import { named } from "../../pkg-testing/harnesses.js";
import { SqliteStore } from "../../pkg-testing/stores/sqlite.js";
import { conformance } from "../../pkg-testing/testing.js";

await import(globalThis.Deno ? "../../pkg-testing/web.js" : "../../pkg-testing/node.js");

const directory = process.argv[2];
const harness = named(
  (path) => new SqliteStore(path),
  (number) => join(directory, `${number}.db`),
);
console.log(JSON.stringify(await conformance(harness)));
