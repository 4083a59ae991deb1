/** What a method gives: at once, or later. */
export type Awaitable<T> = T | Promise<T>;

/** What stands under a key. */
export interface Entry {
  /** The bytes as they were put; of a counter its decimal digits. */
  value: Uint8Array;
  /** The version of the commit that wrote it: a whole number from 1 to 2^53 - 1. */
  version: number;
}

/** An entry that was found, with its key. */
export interface KeyEntry extends Entry {
  key: Uint8Array;
}

/** The keys from `start` (inside) to `end` (outside); without an `end`, to the last key there is. */
export interface KeyRange {
  start: Uint8Array;
  end?: Uint8Array;
}

/** A condition of a commit: the key still stands at this version, or (`null`) is still absent. */
export interface Check {
  key: Uint8Array;
  version: number | null;
}

/**
 * One change of a commit. `add` adds to a signed 64-bit counter, which begins at 0 and is stored as decimal digits; a
 * commit fails as `invalid`, as a whole, where the value is no counter or the sum leaves 64 bits.
 */
export type Mutation =
  | { type: "put"; key: Uint8Array; value: Uint8Array }
  | { type: "delete"; key: Uint8Array }
  | { type: "add"; key: Uint8Array; delta: bigint };

/**
 * An ordered, versioned, transactional byte store: all that a backend has to be. What a method is given is a copy, which
 * the store may keep.
 *
 * What a backend promises:
 *
 * - **Order.** Keys are ordered byte by byte.
 * - **Atomicity.** The mutations of a commit become visible together or not at all, to `get` and `scan` alike.
 * - **Durability.** When `commit` has given a version, the change survives a crash and a loss of power; before that no
 *   reader sees it.
 * - **Versions.** Every put, delete and add changes the version of its key; one is never used twice for a key, also not
 *   after a delete or when the store is opened again.
 * - **Fail stop.** After a write or a sync has failed, the store refuses every call as `unavailable` until it is opened
 *   again.
 * - **Limits.** Keys have up to 512 bytes (the bounds of a scan one more), values up to 64 KiB, a commit up to 4,096
 *   mutations and 8 MiB. No key is changed twice in a commit.
 *
 * Failures are thrown as `StoreError`.
 */
export interface Store {
  /** Reads keys at one point in time: one place for each key, in the order asked for, `null` where nothing stands. */
  get(keys: Uint8Array[]): Awaitable<Array<Entry | null>>;

  /**
   * Reads the first `limit` entries of a range, from its end where `isReverse`, at one point in time. Fewer come back
   * only where the range holds no more.
   */
  scan(range: KeyRange, limit: number, isReverse: boolean): Awaitable<KeyEntry[]>;

  /**
   * Applies all mutations if every check holds, and none otherwise: the version that the entries written carry, or
   * `null` where a check does not hold. Settles once the change is durable.
   */
  commit(checks: Check[], mutations: Mutation[]): Awaitable<number | null>;
}
