import type { Awaitable, Check, Found, Mutation, Read, Store } from "../store.js";

/**
 * A store in one SQLite database, over `node:sqlite`. Processes that have it open at the same time share it: a call that meets
 * the database locked by another one waits for up to 5 s, in which others go on, and then fails as `unavailable`. All other
 * calls are answered at once, and block their thread while they are: a commit until it is on the disk.
 */
export class SqliteStore implements Store {
  /**
   * Opens the database at a path, or `:memory:`; makes it where there is none. Blocks for up to 5 s while another process
   * has it locked. Failures are `StoreError`s.
   */
  constructor(path: string);
  read(reads: Read[]): Awaitable<Found[]>;
  commit(checks: Check[], mutations: Mutation[]): Awaitable<number | null>;
  close(): void;
}
