// A store in a browser, over IndexedDB.

import { StoreError } from "../error.js";
import { addTo } from "./counter.js";

const ENTRIES = "entries";
const VERSIONS = "versions";
const LAST = "last";

/** Runs `work` in a transaction, and resolves to the result that it sets once that is complete. */
function transact(database, mode, work) {
  return new Promise((resolve, reject) => {
    let transaction;
    try {
      transaction = database.transaction([ENTRIES, VERSIONS], mode, { durability: "strict" });
    } catch (error) {
      // The connection is closed.
      reject(new StoreError("unavailable", error.message, { cause: error }));
      return;
    }
    let answer;
    let refusal;
    let isWritten = false;
    transaction.oncomplete = () => resolve(answer);
    // A transaction that is aborted before its last write was requested has changed nothing. After
    // that it may already have been on its way to the disk.
    transaction.onabort = () => {
      const error = transaction.error;
      const unnamed = isWritten ? "unknown" : "unavailable";
      const kind = error?.name === "QuotaExceededError" ? "full" : unnamed;
      const message = error?.message || "the transaction was aborted";
      reject(refusal ?? new StoreError(kind, `IndexedDB: ${message}`, { cause: error }));
    };
    work({
      entries: transaction.objectStore(ENTRIES),
      versions: transaction.objectStore(VERSIONS),
      answer(value) {
        answer = value;
      },
      written() {
        isWritten = true;
      },
      refuse(error) {
        refusal = error;
        transaction.abort();
      },
    });
  });
}

/** Reads each key and passes the entries on; pending requests keep the transaction open. */
function readAll(entries, keys, next) {
  const found = new Array(keys.length);
  let left = keys.length;
  if (left === 0) next(found);
  keys.forEach((key, place) => {
    entries.get(key).onsuccess = ({ target }) => {
      found[place] = target.result;
      if (--left === 0) next(found);
    };
  });
}

function keyRange({ start, end }) {
  return end ? IDBKeyRange.bound(start, end, false, true) : IDBKeyRange.lowerBound(start);
}

function foundAt(key, entry) {
  return { key: new Uint8Array(key), ...entry };
}

function scanForward(entries, range, limit, next) {
  // Both requests are of one transaction, and so see one point in time.
  const asked = entries.getAllKeys(range, limit);
  entries.getAll(range, limit).onsuccess = ({ target }) => {
    next(target.result.map((entry, place) => foundAt(asked.result[place], entry)));
  };
}

function scanBackward(entries, range, limit, next) {
  const found = [];
  next(found);
  entries.openCursor(range, "prev").onsuccess = ({ target }) => {
    const cursor = target.result;
    if (!cursor) return;
    found.push(foundAt(cursor.key, cursor.value));
    if (found.length < limit) cursor.continue();
  };
}

/** Performs one read; the array passed to `next` is complete once the transaction is. */
function readOne(entries, read, next) {
  if (read.type === "keys") {
    readAll(entries, read.keys, (found) => next(found.map((entry) => entry ?? null)));
  } else {
    const scan = read.isReverse ? scanBackward : scanForward;
    scan(entries, keyRange(read.range), read.limit, next);
  }
}

/** Writes the mutations of a commit whose checks hold. */
function write({ entries, versions, answer, written, refuse }, mutations, last = 0) {
  const version = last + 1;
  const counters = mutations.filter(({ type }) => type === "add");
  const keys = counters.map(({ key }) => key);
  readAll(entries, keys, (found) => {
    let sums;
    try {
      sums = counters.map(({ delta }, place) => addTo(found[place]?.value, delta));
    } catch (error) {
      refuse(error);
      return;
    }
    counters.forEach(({ key }, place) => entries.put({ value: sums[place], version }, key));
    for (const { type, key, value } of mutations) {
      if (type === "put") entries.put({ value, version }, key);
      else if (type === "delete") entries.delete(key);
    }
    versions.put(version, LAST);
    answer(version);
    written();
  });
}

/** A store in one database of the page's origin, shared by its pages. */
export class IndexedDbStore {
  #database;
  #failure;

  constructor(database) {
    this.#database = database;
    database.onclose = () => this.#fail("the browser has closed the database");
  }

  /** Opens a database by name; creates it if it does not exist. */
  static open(name) {
    return new Promise((resolve, reject) => {
      const opening = indexedDB.open(name, 1);
      opening.onupgradeneeded = () => {
        opening.result.createObjectStore(ENTRIES);
        opening.result.createObjectStore(VERSIONS);
      };
      opening.onerror = () =>
        reject(new StoreError("unavailable", opening.error.message, { cause: opening.error }));
      opening.onsuccess = () => {
        const database = opening.result;
        // Another page may delete the database, and must not have to wait for this one.
        database.onversionchange = () => database.close();
        resolve(new IndexedDbStore(database));
      };
    });
  }

  read(reads) {
    // One transaction for all reads, and so one point in time.
    return this.#transact("readonly", ({ entries, answer }) => {
      const found = new Array(reads.length);
      answer(found);
      reads.forEach((read, place) => readOne(entries, read, (answered) => (found[place] = answered)));
    });
  }

  commit(checks, mutations) {
    return this.#transact("readwrite", (transaction) => {
      const { entries, versions, answer } = transaction;
      const keys = checks.map(({ key }) => key);
      readAll(entries, keys, (found) => {
        const holds = ({ version }, place) => (found[place]?.version ?? null) === version;
        if (!checks.every(holds)) {
          answer(null);
          return;
        }
        versions.get(LAST).onsuccess = ({ target }) => write(transaction, mutations, target.result);
      });
    });
  }

  close() {
    this.#fail("the store is closed");
    this.#database.close();
  }

  async #transact(mode, work) {
    if (this.#failure) throw this.#failure;
    try {
      return await transact(this.#database, mode, work);
    } catch (error) {
      // A read could return a value that is not durable, until the outcome is known.
      if (error.kind === "unknown") this.#fail("a commit failed; open the store again");
      throw error;
    }
  }

  #fail(message) {
    this.#failure ??= new StoreError("unavailable", `IndexedDB: ${message}`);
  }
}
