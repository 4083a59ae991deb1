// A volatile store in memory.

import { addTo } from "./counter.js";

// Keys are kept as strings of one character per byte, which JavaScript can compare and look up.
const CHARS_PER_CALL = 8192;

function toText(key) {
  if (key.length <= CHARS_PER_CALL) return String.fromCharCode(...key);
  return Array.from(key, (byte) => String.fromCharCode(byte)).join("");
}

function toBytes(text) {
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
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

/** A store in an ordered list. Its calls are synchronous and thus never overlap. */
export class MemoryStore {
  #entries = new Map();
  #keys = [];
  #version = 0;

  read(reads) {
    return reads.map((read) => (read.type === "keys" ? this.#get(read) : this.#scan(read)));
  }

  #get({ keys }) {
    return keys.map((key) => this.#entries.get(toText(key)) ?? null);
  }

  #scan({ range: { start, end }, limit, isReverse }) {
    const from = place(this.#keys, toText(start));
    const to = end ? place(this.#keys, toText(end)) : this.#keys.length;
    const found = isReverse
      ? this.#keys.slice(Math.max(from, to - limit), to).reverse()
      : this.#keys.slice(from, Math.min(to, from + limit));
    return found.map((text) => ({ key: toBytes(text), ...this.#entries.get(text) }));
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
    const made = [];
    const gone = new Set();
    for (const [text, value] of writes) {
      if (value === undefined) {
        if (this.#entries.delete(text)) gone.add(text);
      } else {
        if (!this.#entries.has(text)) made.push(text);
        this.#entries.set(text, { value, version });
      }
    }
    this.#reorder(made, gone);
    return version;
  }

  /** Updates the list of keys: few changes in place, many in one pass. */
  #reorder(made, gone) {
    if (made.length + gone.size > 16) {
      made.sort((a, b) => (a < b ? -1 : 1));
      const merged = [];
      let next = 0;
      for (const key of this.#keys) {
        while (next < made.length && made[next] < key) merged.push(made[next++]);
        if (!gone.has(key)) merged.push(key);
      }
      this.#keys = merged.concat(made.slice(next));
      return;
    }
    for (const key of gone) this.#keys.splice(place(this.#keys, key), 1);
    for (const key of made) this.#keys.splice(place(this.#keys, key), 0, key);
  }
}
