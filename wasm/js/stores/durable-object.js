// A store in a Durable Object, over its SQLite database.

import { StoreError } from "../error.js";
import { TABLES, answer, apply } from "./sql.js";

/** Returns the kind of an error by its message, which ends with SQLite's name for the error. */
function kindOf({ message }) {
  if (/SQLITE_FULL/.test(message)) return "full";
  return /SQLITE_(CORRUPT|NOTADB)/.test(message) ? "corrupt" : "unavailable";
}

/** A store in the database of one Durable Object, its `ctx.storage`. */
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
      // Output gates hold back the object's responses until its writes are durable; waiting makes
      // the commit durable for a caller inside the object too.
      await this.#storage.sync();
    } catch (error) {
      this.#failure = new StoreError("unavailable", "a commit failed; restart the object");
      throw new StoreError("unknown", error.message, { cause: error });
    }
    return version;
  }

  // The statements of one call are synchronous, so nothing else of the object runs between them:
  // all reads of a call see one point in time without a transaction.
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
