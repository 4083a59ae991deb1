// Runs in Deno: the conformance suite over SQLite, in a directory of its own. Prints the report.

import "../../pkg-testing/web.js";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { named } from "../../pkg-testing/harnesses.js";
import { SqliteStore } from "../../pkg-testing/stores/sqlite.js";
import { conformance } from "../../pkg-testing/testing.js";

const directory = mkdtempSync(join(tmpdir(), "knowledge-sqlite-"));
const harness = named(
  (path) => new SqliteStore(path),
  (number) => join(directory, `${number}.db`),
);
const report = await conformance(harness);
rmSync(directory, { recursive: true });
console.log(JSON.stringify(report));
