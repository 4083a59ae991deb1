// A store in a file, over `node:sqlite`: for Deno and for Node.js from 22.13.

import { DatabaseSync } from "node:sqlite";

import { StoreError } from "../error.js";
import { TABLES, answer, apply } from "./sql.js";

/** SQLite's codes for a lock of another connection, for damage, for a full disk and for what is no database. */
const SQLITE_BUSY = 5;
const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_NOTADB = 26;
/** How long a call waits for another connection that has the database locked, in milliseconds. */
const BUSY_TIMEOUT_MS = 5_000;
/** How long it waits at most between two attempts, in milliseconds. */
const BUSY_PAUSE_MS_MAX = 50;
/** The journals whose commits are durable or need not be: a database in memory has its own. */
const JOURNAL_MODES = ["wal", "memory"];

function codeOf(error) {
  // The lowest byte is the code, what is above tells more.
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

/** A store in one SQLite database. A commit has been written through to the disk when it is answered. */
export class SqliteStore {
  #database;
  #statements = new Map();
  #failure;

  /** Opens the database at a path, or `:memory:`; makes it where there is none. */
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
    const run = (sql) => this.#database.prepare(sql).all();
    run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    const [{ journal_mode: mode }] = run("PRAGMA journal_mode = WAL");
    if (!JOURNAL_MODES.includes(mode)) {
      throw new StoreError("unavailable", `SQLite: there can be no write-ahead log, but a journal in the mode ${mode}`);
    }
    run("PRAGMA synchronous = FULL");
    // For macOS, where a disk that is asked for less writes when it likes.
    run("PRAGMA fullfsync = 1");
    for (const statement of TABLES) run(statement);
    // From here on nothing waits inside SQLite, where nothing else can run meanwhile.
    run("PRAGMA busy_timeout = 0");
  }

  read(reads) {
    // The first statement fixes what all of them see.
    return this.#transact("BEGIN", () => answer(this.#all, reads));
  }

  commit(checks, mutations) {
    // From the beginning, so that what is checked is still so when it is written.
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

  /** What a transaction comes to: at once, or later where another connection has the database locked. */
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

  // Not by `exec`: in Deno its errors have no code.
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
      // It may be on the disk, or not: nothing is read from here on that could turn out otherwise.
      this.#failure = new StoreError("unavailable", "a commit failed; open the store again");
      throw new StoreError("unknown", `SQLite: ${error.message}`, { cause: error });
    }
  }

  #rollBack() {
    try {
      this.#all("ROLLBACK");
    } catch {
      // Some failures have rolled back already; any other shows at the next BEGIN.
    }
  }
}
