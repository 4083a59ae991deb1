// A volatile store in memory.

import { addTo } from "./counter.js";
import { REVISION } from "./revision.js";

// Keys are kept as strings of one character per byte, which JavaScript can compare and look up.
const CHARS_PER_CALL = 8192;

function toText(key) {
  if (key.length <= CHARS_PER_CALL) return String.fromCharCode.apply(null, key);
  return Array.from(key, (byte) => String.fromCharCode(byte)).join("");
}

function toBytes(text) {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** Returns the index of the first key that is not before `text`. */
function place(keys, text) {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (keys[middle] < text) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Merges two ordered lists without common keys. */
function merge(keys, others) {
  const merged = [];
  let next = 0;
  for (const key of keys) {
    while (next < others.length && others[next] < key) merged.push(others[next++]);
    merged.push(key);
  }
  return merged.concat(others.slice(next));
}

/** Maximum number of keys that are moved in the ordered list one by one. */
const MOVES_MAX = 16;

/** A store in a map and an ordered list. Its calls are synchronous and thus never overlap. */
export class MemoryStore {
  #entries = new Map();
  /** The keys in order, except for those of `#moved`. */
  #keys = [];
  /** The keys that were created or deleted since the last read of a range. */
  #moved = new Set();
  #version = 0;

  read(reads) {
    return reads.map((read) => (read.type === "keys" ? this.#get(read) : this.#scan(read)));
  }

  #get({ keys }) {
    return keys.map((key) => this.#entries.get(toText(key)) ?? null);
  }

  #scan({ range: { start, end }, limit, isReverse }) {
    const keys = this.#order();
    const from = place(keys, toText(start));
    const to = end ? place(keys, toText(end)) : keys.length;
    const found = isReverse
      ? keys.slice(Math.max(from, to - limit), to).reverse()
      : keys.slice(from, Math.min(to, from + limit));
    return found.map((text) => ({ key: toBytes(text), ...this.#entries.get(text) }));
  }

  /**
   * Returns the revision, by which the module keeps a copy; `undefined` if a method is replaced,
   * whose callers expect that it is called.
   */
  [REVISION]() {
    const { read, commit } = MemoryStore.prototype;
    return this.read === read && this.commit === commit ? this.#version : undefined;
  }

  commit(checks, mutations) {
    const holds = ({ key, version }) =>
      (this.#entries.get(toText(key))?.version ?? null) === version;
    if (!checks.every(holds)) return null;
    // Everything that can fail precedes the first change.
    const writes = mutations.map(({ type, key, value, delta }) => {
      const text = toText(key);
      if (type === "put") return [text, value];
      if (type === "delete") return [text, undefined];
      return [text, addTo(this.#entries.get(text)?.value, delta)];
    });
    const version = ++this.#version;
    for (const [text, value] of writes) {
      if (this.#entries.has(text) !== (value !== undefined)) this.#moved.add(text);
      if (value === undefined) this.#entries.delete(text);
      else this.#entries.set(text, { value, version });
    }
    return version;
  }

  /** Returns all keys in order: few changes are made in place, many in one pass. */
  #order() {
    const moved = this.#moved;
    if (moved.size > MOVES_MAX) {
      const unmoved = this.#keys.filter((key) => !moved.has(key));
      const present = [...moved].filter((key) => this.#entries.has(key));
      this.#keys = merge(unmoved, present.sort());
    } else {
      for (const key of moved) this.#move(key);
    }
    moved.clear();
    return this.#keys;
  }

  /** Adds a key to the ordered list or removes it, as it is stored or not. */
  #move(key) {
    const at = place(this.#keys, key);
    const isListed = this.#keys[at] === key;
    const isStored = this.#entries.has(key);
    if (isListed && !isStored) this.#keys.splice(at, 1);
    if (!isListed && isStored) this.#keys.splice(at, 0, key);
  }
}
