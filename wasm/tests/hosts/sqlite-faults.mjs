// Tests of SqliteStore for `deno test`: other connections to its file, and failures of SQLite.

import assert from "node:assert/strict";
import { readdirSync, readlinkSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";

import { StoreError } from "../../pkg/error.js";
import { SqliteStore } from "../../pkg/stores/sqlite.js";

const KEY = new TextEncoder().encode("key");
const VALUE = new TextEncoder().encode("value");
const PUT = [{ type: "put", key: KEY, value: VALUE }];
const READ = { type: "keys", keys: [KEY] };
const WRITER = join(import.meta.dirname, "sqlite-writer.mjs");
const OPENER = new URL("sqlite-opener.mjs", import.meta.url);

const is = (kind) => (error) => {
  assert.ok(error instanceof StoreError, error);
  assert.equal(error.kind, kind, error.message);
  return true;
};

/** Defines a test with the path of a database that does not exist yet. */
function withFile(name, run) {
  Deno.test(name, async () => {
    const directory = Deno.makeTempDirSync();
    try {
      await run(join(directory, "knowledge.db"));
    } finally {
      Deno.removeSync(directory, { recursive: true });
    }
  });
}

/** Opens a store and another connection to its database; disposing closes both. */
function shared(path) {
  const [store, other] = [new SqliteStore(path), new DatabaseSync(path)];
  return {
    store,
    other,
    [Symbol.dispose]() {
      store.close();
      other.close();
    },
  };
}

withFile("SqliteStore waits for a lock without blocking the thread", async (path) => {
  using both = shared(path);
  const { store, other } = both;
  other.exec("BEGIN IMMEDIATE");
  let isAnswered = false;
  const committing = Promise.resolve(store.commit([], PUT)).finally(() => (isAnswered = true));
  // A read in the meantime returns the previous state.
  assert.deepEqual(await store.read([READ]), [[null]]);
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(isAnswered, false);
  other.exec("COMMIT");
  const version = await committing;
  assert.deepEqual(await store.read([READ]), [[{ value: VALUE, version }]]);
});

withFile("SqliteStore reads one snapshot during other writes", async (path) => {
  using both = shared(path);
  const { store, other } = both;
  const version = await store.commit([], PUT);
  const { prepare } = DatabaseSync.prototype;
  // The other connection writes after every statement that reads an entry.
  let writes = 0;
  DatabaseSync.prototype.prepare = function (sql) {
    const statement = prepare.call(this, sql);
    const { all } = statement;
    statement.all = (...values) => {
      const rows = all.apply(statement, values);
      if (sql.startsWith("SELECT")) other.exec(`UPDATE entry SET version = ${version + ++writes}`);
      return rows;
    };
    return statement;
  };
  try {
    const range = { type: "range", range: { start: KEY }, limit: 1, isReverse: false };
    const found = await store.read([READ, range, { ...range, isReverse: true }, READ]);
    const entry = { value: VALUE, version };
    assert.deepEqual(found, [[entry], [{ key: KEY, ...entry }], [{ key: KEY, ...entry }], [entry]]);
    assert.equal(writes, 4);
    assert.deepEqual(await store.read([READ]), [[{ value: VALUE, version: version + 4 }]]);
  } finally {
    DatabaseSync.prototype.prepare = prepare;
  }
});

withFile("SqliteStore does not apply a commit that timed out", async (path) => {
  using both = shared(path);
  const { store, other } = both;
  other.exec("BEGIN IMMEDIATE");
  await assert.rejects(async () => store.commit([], PUT), is("unavailable"));
  other.exec("COMMIT");
  assert.deepEqual(await store.read([READ]), [[null]]);
  const version = await store.commit([], PUT);
  assert.deepEqual(await store.read([READ]), [[{ value: VALUE, version }]]);
});

withFile("SqliteStore opens a new database several times at once", async (path) => {
  const workers = 3;
  const paths = Array.from({ length: 100 }, (_, round) => `${path}-${round}`);
  const arrived = new Int32Array(new SharedArrayBuffer(4 * paths.length));
  const open = () =>
    new Promise((resolve, reject) => {
      const worker = new Worker(OPENER, { type: "module" });
      worker.onerror = reject;
      worker.onmessage = ({ data: errors }) => {
        worker.terminate();
        resolve(errors);
      };
      worker.postMessage({ arrived, workers, paths });
    });
  const errors = await Promise.all(Array.from({ length: workers }, open));
  assert.deepEqual(errors.flat(), []);
});

withFile("SqliteStore loses no update of two processes", async (path) => {
  const each = 100;
  const write = async () => {
    const args = ["run", "--allow-all", "--no-config", WRITER, path, String(each)];
    const { success } = await new Deno.Command(Deno.execPath(), { args, stderr: "inherit" }).output();
    assert.ok(success);
  };
  await Promise.all([write(), write()]);
  const store = new SqliteStore(path);
  const [[{ value }]] = await store.read([READ]);
  store.close();
  assert.equal(new TextDecoder().decode(value), String(2 * each));
});

withFile("SqliteStore rejects every call after a failed COMMIT", async (path) => {
  using both = shared(path);
  const { store, other } = both;
  // SQLite checks this constraint only at the end of a transaction.
  other.exec("CREATE TABLE parent (id INTEGER PRIMARY KEY)");
  other.exec("CREATE TABLE child (parent REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)");
  other.exec("CREATE TRIGGER orphan AFTER INSERT ON entry BEGIN INSERT INTO child VALUES (1); END");
  await assert.rejects(async () => store.commit([], PUT), is("unknown"));
  await assert.rejects(async () => store.read([READ]), is("unavailable"));
  await assert.rejects(async () => store.commit([], PUT), is("unavailable"));
  other.exec("DROP TRIGGER orphan");
  const again = new SqliteStore(path);
  assert.deepEqual(await again.read([READ]), [[null]]);
  assert.ok(await again.commit([], PUT));
  again.close();
});

withFile("SqliteStore rejects a file that is not a database", (path) => {
  writeFileSync(path, "This has never been a database. ".repeat(256));
  assert.throws(() => new SqliteStore(path), is("corrupt"));
  const files = readdirSync("/proc/self/fd").map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      // The descriptor of this listing.
      return undefined;
    }
  });
  assert.ok(!files.includes(path));
});

withFile("SqliteStore rejects a path in a missing directory", (path) => {
  assert.throws(() => new SqliteStore(join(path, "knowledge.db")), is("unavailable"));
});

Deno.test("SqliteStore rejects a database without a write-ahead log", () => {
  // A temporary database has none.
  assert.throws(() => new SqliteStore(""), (error) => is("unavailable")(error) && /write-ahead/.test(error.message));
});

withFile("SqliteStore writes commits through to the disk", (path) => {
  let connection;
  const { prepare } = DatabaseSync.prototype;
  DatabaseSync.prototype.prepare = function (sql) {
    connection = this;
    return prepare.call(this, sql);
  };
  try {
    const store = new SqliteStore(path);
    const mode = (name) => Object.values(prepare.call(connection, `PRAGMA ${name}`).get())[0];
    assert.deepEqual(["journal_mode", "synchronous", "fullfsync"].map(mode), ["wal", 2, 1]);
    store.close();
  } finally {
    DatabaseSync.prototype.prepare = prepare;
  }
});

withFile("SqliteStore stores the version before the value", (path) => {
  using both = shared(path);
  const columns = both.other.prepare("PRAGMA table_info(entry)").all();
  assert.deepEqual(columns.map(({ name }) => name), ["key", "version", "value"]);
});
