import type { Check, Entry, KeyEntry, KeyRange, Mutation, Store } from "../store.js";

/** A store in one SQLite database, over `node:sqlite`. Processes that have it open at the same time share it. */
export class SqliteStore implements Store {
  /** Opens the database at a path, or `:memory:`; makes it where there is none. */
  constructor(path: string);
  get(keys: Uint8Array[]): Array<Entry | null>;
  scan(range: KeyRange, limit: number, isReverse: boolean): KeyEntry[];
  commit(checks: Check[], mutations: Mutation[]): number | null;
  close(): void;
}
