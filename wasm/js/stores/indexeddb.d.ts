import type { Check, Found, Mutation, Read, Store } from "../store.js";

/**
 * A store in a browser, shared by the pages of one origin. After a commit with an indeterminate
 * outcome (`unknown`), and after the browser has closed the database (its data was cleared), every
 * call fails as `unavailable` until the store is opened again.
 */
export class IndexedDbStore implements Store {
  private constructor();
  /** Opens a database by name; creates it if it does not exist. */
  static open(name: string): Promise<IndexedDbStore>;
  read(reads: Read[]): Promise<Found[]>;
  commit(checks: Check[], mutations: Mutation[]): Promise<number | null>;
  close(): void;
}
