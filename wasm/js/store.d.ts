/** A value, or a promise of it. */
export type Awaitable<T> = T | Promise<T>;

/** A stored value with its version. */
export interface Entry {
  /** The bytes as written; those of a counter are decimal digits. */
  value: Uint8Array;
  /** The version of the commit that wrote the value: a whole number from 1 to 2^53 - 1. */
  version: number;
}

/** An entry of a range, with its key. */
export interface KeyEntry extends Entry {
  key: Uint8Array;
}

/** The keys from `start` (inclusive) to `end` (exclusive); without an `end`, to the last key. */
export interface KeyRange {
  start: Uint8Array;
  end?: Uint8Array;
}

/**
 * One part of a `read`. It is never empty: there is at least one key, `start` is before `end`, and
 * `limit` is at least 1.
 *
 * - `keys`: some keys. A key may occur more than once.
 * - `range`: the first `limit` entries of a range in byte order of their keys, or the last ones in
 *   reverse order if `isReverse`. `limit` is a whole number up to 2^32 - 1, which means all
 *   entries: it may be far greater than the number of entries in the store.
 */
export type Read =
  | { type: "keys"; keys: Uint8Array[] }
  | { type: "range"; range: KeyRange; limit: number; isReverse: boolean };

/**
 * The result of one `Read`.
 *
 * - For `keys`: one item per key, in the order of the keys; `null` for an absent key.
 * - For `range`: the entries of the range, in the requested direction. Fewer than `limit` only if
 *   the range holds no more.
 */
export type Found = Array<Entry | null> | KeyEntry[];

/** A condition of a commit: the key still has this version, or (`null`) is still absent. */
export interface Check {
  key: Uint8Array;
  version: number | null;
}

/**
 * One change of a commit. `add` adds to a signed 64-bit counter, which begins at 0 and is stored as
 * decimal digits; the whole commit fails as `invalid` if the value is not a counter or the sum
 * exceeds 64 bits.
 */
export type Mutation =
  | { type: "put"; key: Uint8Array; value: Uint8Array }
  | { type: "delete"; key: Uint8Array }
  | { type: "add"; key: Uint8Array; delta: bigint };

/**
 * An ordered, versioned, transactional byte store: the whole interface of a backend. Arguments are
 * copies, which the store may keep.
 *
 * A backend promises:
 *
 * - **Order.** Keys are ordered byte by byte.
 * - **Snapshot.** All reads of one `read` see the store at one point in time, keys and ranges
 *   alike.
 * - **Atomicity.** The mutations of a commit become visible together or not at all.
 * - **Durability.** When `commit` has returned a version, the change survives a crash and a loss of
 *   power; before that no reader sees it.
 * - **Versions.** Every put, delete and add changes the version of its key; a version is never
 *   reused for a key, not even after a delete or when the store is opened again.
 * - **Fail stop.** After a write or a sync has failed, the store rejects every call as
 *   `unavailable` until it is opened again.
 * - **Limits.** Keys have up to 512 bytes (the bounds of a range one more), values up to 64 KiB, a
 *   commit up to 16,384 mutations and 8 MiB. No key is changed twice in a commit.
 *
 * Failures are thrown as `StoreError`. A result that does not match its reads is treated as
 * `corrupt`.
 */
export interface Store {
  /**
   * Reads keys and ranges, in any mixture, at one point in time; returns one `Found` per `Read`, in
   * the same order. Two calls may see different points in time.
   */
  read(reads: Read[]): Awaitable<Found[]>;

  /**
   * Applies all mutations if every check holds, and none otherwise. Returns the version of the
   * entries written, or `null` if a check does not hold. Settles once the change is durable.
   */
  commit(checks: Check[], mutations: Mutation[]): Awaitable<number | null>;
}
