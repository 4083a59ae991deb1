import type { Check, Found, Mutation, Read, Store } from "../store.js";

/** A volatile store in memory, for tests and trials. */
export class MemoryStore implements Store {
  read(reads: Read[]): Found[];
  commit(checks: Check[], mutations: Mutation[]): number | null;
}
