import type { Check, Found, Mutation, Read, Store } from "../store.js";

/** The required part of `DurableObjectStorage`; the object's class must have SQLite storage. */
export interface SqlStorageOwner {
  readonly sql: {
    exec(query: string, ...bindings: any[]): { toArray(): any[] };
  };
  transactionSync<T>(closure: () => T): T;
  sync(): Promise<void>;
}

/** A store in the database of one Durable Object, its `ctx.storage`. */
export class DurableObjectStore implements Store {
  constructor(storage: SqlStorageOwner);
  read(reads: Read[]): Found[];
  commit(checks: Check[], mutations: Mutation[]): Promise<number | null>;
}
