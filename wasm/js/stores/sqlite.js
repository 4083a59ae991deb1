// A store in a file, over `node:sqlite`: for Deno and for Node.js from 22.13.

import { DatabaseSync } from "node:sqlite";

import { StoreError } from "../error.js";
import { TABLES, answer, apply } from "./sql.js";

/** SQLite's codes: locked by another connection, damaged, disk full, not a database. */
const SQLITE_BUSY = 5;
const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_NOTADB = 26;
/** Maximum time that a call waits for another connection's lock, in milliseconds. */
const BUSY_TIMEOUT_MS = 5_000;
/** Maximum pause between two attempts, in milliseconds. */
const BUSY_PAUSE_MS_MAX = 50;
/** Accepted journal modes: the write-ahead log, and that of a database in memory. */
const JOURNAL_MODES = ["wal", "memory"];

function codeOf(error) {
  // The lowest byte is the primary code; the rest extends it.
  return (error.errcode ?? 0) & 0xff;
}

function isBusy({ cause }) {
  return cause !== undefined && codeOf(cause) === SQLITE_BUSY;
}

function storeError(error) {
  if (error instanceof StoreError) return error;
  const kinds = { [SQLITE_FULL]: "full", [SQLITE_CORRUPT]: "corrupt", [SQLITE_NOTADB]: "corrupt" };
  const kind = kinds[codeOf(error)] ?? "unavailable";
  return new StoreError(kind, `SQLite: ${error.message}`, { cause: error });
}

/**
 * Runs a function, again as long as the database is locked. It blocks the thread meanwhile, as
 * SQLite does. SQLite does not wait for a change of the journal mode, whatever its busy timeout.
 */
function whenUnlocked(run) {
  const until = performance.now() + BUSY_TIMEOUT_MS;
  const never = new Int32Array(new SharedArrayBuffer(4));
  for (let pause = 1; ; pause = Math.min(2 * pause, BUSY_PAUSE_MS_MAX)) {
    try {
      return run();
    } catch (error) {
      if (codeOf(error) !== SQLITE_BUSY || performance.now() > until) throw error;
      Atomics.wait(never, 0, 0, pause);
    }
  }
}

/** A store in one SQLite database. A commit is on the disk once it succeeds. */
export class SqliteStore {
  #database;
  #statements = new Map();
  #failure;

  /** Opens the database at a path, or `:memory:`; creates it if it does not exist. */
  constructor(path) {
    try {
      this.#database = new DatabaseSync(path);
      this.#prepare();
    } catch (error) {
      this.#database?.close();
      throw storeError(error);
    }
  }

  #prepare() {
    const run = (sql) => whenUnlocked(() => this.#database.prepare(sql).all());
    run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    const [{ journal_mode: mode }] = run("PRAGMA journal_mode = WAL");
    if (!JOURNAL_MODES.includes(mode)) {
      throw new StoreError("unavailable", `SQLite: the database must support a write-ahead log; its journal mode is ${mode}`);
    }
    run("PRAGMA synchronous = FULL");
    // On macOS only this writes through the disk's cache.
    run("PRAGMA fullfsync = 1");
    for (const statement of TABLES) run(statement);
    // From here on no call waits inside SQLite, which would block the thread.
    run("PRAGMA busy_timeout = 0");
  }

  read(reads) {
    // The first statement fixes the snapshot of all reads.
    return this.#transact("BEGIN", () => answer(this.#all, reads));
  }

  commit(checks, mutations) {
    // The write lock comes first, so that the checks still hold at the write.
    return this.#transact("BEGIN IMMEDIATE", () => apply(this.#all, checks, mutations));
  }

  close() {
    this.#failure ??= new StoreError("unavailable", "the store is closed");
    this.#database.close();
  }

  #all = (sql, ...values) => {
    let statement = this.#statements.get(sql);
    if (!statement) {
      statement = this.#database.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement.all(...values);
  };

  /** Runs a transaction: synchronously, or in later attempts if the database is locked. */
  #transact(begin, work) {
    try {
      return this.#attempt(begin, work);
    } catch (error) {
      if (!isBusy(error)) throw error;
      return this.#attemptLater(begin, work);
    }
  }

  async #attemptLater(begin, work) {
    const until = performance.now() + BUSY_TIMEOUT_MS;
    for (let pause = 1; ; pause = Math.min(2 * pause, BUSY_PAUSE_MS_MAX)) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      try {
        return this.#attempt(begin, work);
      } catch (error) {
        if (!isBusy(error) || performance.now() > until) throw error;
      }
    }
  }

  // Statements do not go through `exec`: in Deno its errors have no code.
  #attempt(begin, work) {
    if (this.#failure) throw this.#failure;
    let done;
    try {
      this.#all(begin);
      done = work();
    } catch (error) {
      this.#rollBack();
      throw storeError(error);
    }
    try {
      this.#all("COMMIT");
      return done;
    } catch (error) {
      this.#rollBack();
      if (begin === "BEGIN" || codeOf(error) === SQLITE_BUSY) throw storeError(error);
      // The commit may be on the disk or not. Until that is known, a read could return a value that
      // is not durable.
      this.#failure = new StoreError("unavailable", "a commit failed; open the store again");
      throw new StoreError("unknown", `SQLite: ${error.message}`, { cause: error });
    }
  }

  #rollBack() {
    try {
      this.#all("ROLLBACK");
    } catch {
      // Some failures have rolled back already; any other fails the next BEGIN.
    }
  }
}
