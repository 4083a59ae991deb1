// A store in a Durable Object, over its SQLite database.

import { StoreError } from "../error.js";
import { TABLES, answer, apply } from "./sql.js";

/** The message is all that the runtime gives: it ends with SQLite's name for the error. */
function kindOf({ message }) {
  if (/SQLITE_FULL/.test(message)) return "full";
  return /SQLITE_(CORRUPT|NOTADB)/.test(message) ? "corrupt" : "unavailable";
}

/** The database of one Durable Object: of `ctx.storage`. */
export class DurableObjectStore {
  #storage;
  #failure;

  constructor(storage) {
    this.#storage = storage;
    this.#working(() =>
      storage.transactionSync(() => {
        for (const statement of TABLES) storage.sql.exec(statement);
      }),
    );
  }

  read(reads) {
    return this.#working(() => answer(this.#all, reads));
  }

  async commit(checks, mutations) {
    const version = this.#working(() =>
      this.#storage.transactionSync(() => apply(this.#all, checks, mutations)),
    );
    try {
      // Nothing leaves the object before what it read and wrote is durable (output gates); waiting makes this commit so
      // for its caller too.
      await this.#storage.sync();
    } catch (error) {
      this.#failure = new StoreError("unavailable", "a commit failed; the object has to start again");
      throw new StoreError("unknown", error.message, { cause: error });
    }
    return version;
  }

  // Nothing else of the object runs between the statements of one call, because they are synchronous: all reads of a call
  // see one point in time without a transaction.
  #working(work) {
    if (this.#failure) throw this.#failure;
    try {
      return work();
    } catch (error) {
      if (error instanceof StoreError) throw error;
      throw new StoreError(kindOf(error), error.message, { cause: error });
    }
  }

  #all = (statement, ...values) => this.#storage.sql.exec(statement, ...values).toArray();
}
