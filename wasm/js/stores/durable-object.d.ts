import type { Check, Entry, KeyEntry, KeyRange, Mutation, Store } from "../store.js";

/** What the store needs of `DurableObjectStorage`. The object's class has to be one with SQLite storage. */
export interface SqlStorageOwner {
  readonly sql: {
    exec(query: string, ...bindings: any[]): { toArray(): any[] };
  };
  transactionSync<T>(closure: () => T): T;
  sync(): Promise<void>;
}

/** The database of one Durable Object: of `ctx.storage`. */
export class DurableObjectStore implements Store {
  constructor(storage: SqlStorageOwner);
  get(keys: Uint8Array[]): Array<Entry | null>;
  scan(range: KeyRange, limit: number, isReverse: boolean): KeyEntry[];
  commit(checks: Check[], mutations: Mutation[]): Promise<number | null>;
}
