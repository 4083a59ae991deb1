import type { Awaitable, Check, Found, Mutation, Read, Store } from "../store.js";

/**
 * A store in one SQLite database, over `node:sqlite`, which several processes can share. A call
 * that finds the database locked waits asynchronously for up to 5 s and then fails as
 * `unavailable`. Other calls are synchronous and block the thread; a commit blocks it until it is
 * on the disk.
 */
export class SqliteStore implements Store {
  /**
   * Opens the database at a path, or `:memory:`; creates it if it does not exist. Blocks for up to
   * 5 s while another process has it locked. Throws a `StoreError` on failure.
   */
  constructor(path: string);
  read(reads: Read[]): Awaitable<Found[]>;
  commit(checks: Check[], mutations: Mutation[]): Awaitable<number | null>;
  close(): void;
}
