import type { Check, Found, Mutation, Read, Store } from "../store.js";

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
  read(reads: Read[]): Found[];
  commit(checks: Check[], mutations: Mutation[]): Promise<number | null>;
}
