import type { Check, Found, Mutation, Read, Store } from "../store.js";

/** A store in memory: for tests and trials. Its contents go with it. */
export class MemoryStore implements Store {
  read(reads: Read[]): Found[];
  commit(checks: Check[], mutations: Mutation[]): number | null;
}
