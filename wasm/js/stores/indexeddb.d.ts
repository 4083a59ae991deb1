import type { Check, Found, Mutation, Read, Store } from "../store.js";

/**
 * A store in a browser. Pages of one origin that have it open at the same time share it. After a commit of which nobody knows
 * whether it was applied (`unknown`), and once the browser has closed the database (its data was cleared), every call is
 * refused as `unavailable` until it is opened again.
 */
export class IndexedDbStore implements Store {
  private constructor();
  /** Opens a database by its name; makes it where there is none. */
  static open(name: string): Promise<IndexedDbStore>;
  read(reads: Read[]): Promise<Found[]>;
  commit(checks: Check[], mutations: Mutation[]): Promise<number | null>;
  close(): void;
}
