// A store in a file, over `node:sqlite`: for Deno and for Node.js from 22.13.

import { DatabaseSync } from "node:sqlite";

import { StoreError } from "../error.js";
import { TABLES, apply, get, scan } from "./sql.js";

/** SQLite's code for a full disk, or a database that has reached its limit. */
const SQLITE_FULL = 13;
const SQLITE_BUSY = 5;
const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;
/** How long a commit waits for one of another process, in milliseconds. */
const BUSY_TIMEOUT_MS = 5_000;

function storeError(error) {
  if (error instanceof StoreError) return error;
  // The lowest byte is the code, what is above tells more.
  const code = (error.errcode ?? 0) & 0xff;
  const kinds = { [SQLITE_FULL]: "full", [SQLITE_CORRUPT]: "corrupt", [SQLITE_NOTADB]: "corrupt" };
  return new StoreError(kinds[code] ?? "unavailable", `SQLite: ${error.message}`, { cause: error });
}

/** A store in one SQLite database. A commit has been written through to the disk when it returns. */
export class SqliteStore {
  #database;
  #statements = new Map();
  #failure;

  /** Opens the database at a path, or `:memory:`; makes it where there is none. */
  constructor(path) {
    this.#database = new DatabaseSync(path);
    this.#database.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    this.#database.exec("PRAGMA journal_mode = WAL");
    this.#database.exec("PRAGMA synchronous = FULL");
    for (const statement of TABLES) this.#database.exec(statement);
  }

  get(keys) {
    return this.#transaction("BEGIN", () => get(this.#all, keys));
  }

  scan(range, limit, isReverse) {
    return this.#transaction("BEGIN", () => scan(this.#all, range, limit, isReverse));
  }

  commit(checks, mutations) {
    // From the beginning, so that what is checked is still so when it is written.
    return this.#transaction("BEGIN IMMEDIATE", () => apply(this.#all, checks, mutations));
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

  #transaction(begin, work) {
    if (this.#failure) throw this.#failure;
    try {
      this.#database.exec(begin);
    } catch (error) {
      throw storeError(error);
    }
    let done;
    try {
      done = work();
    } catch (error) {
      this.#rollBack();
      throw storeError(error);
    }
    try {
      this.#database.exec("COMMIT");
      return done;
    } catch (error) {
      if ((error.errcode & 0xff) === SQLITE_BUSY) {
        this.#rollBack();
        throw storeError(error);
      }
      // It may be on the disk, or not: nothing is read from here on that could turn out otherwise.
      this.#failure = new StoreError("unavailable", "a commit failed; open the store again");
      const kind = begin === "BEGIN" ? "unavailable" : "unknown";
      throw new StoreError(kind, `SQLite: ${error.message}`, { cause: error });
    }
  }

  #rollBack() {
    try {
      this.#database.exec("ROLLBACK");
    } catch {
      // Some failures have rolled back already; any other shows at the next BEGIN.
    }
  }
}
