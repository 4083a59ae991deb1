import type { Check, Entry, KeyEntry, KeyRange, Mutation, Store } from "../store.js";

/** A store in memory: for tests and trials. Its contents go with it. */
export class MemoryStore implements Store {
  get(keys: Uint8Array[]): Array<Entry | null>;
  scan(range: KeyRange, limit: number, isReverse: boolean): KeyEntry[];
  commit(checks: Check[], mutations: Mutation[]): number | null;
}
