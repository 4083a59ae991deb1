// Encoding of what crosses the boundary. `wasm/src/wire.rs` is the other half for stores and
// documents the format.

import { StoreError } from "./error.js";
import { held } from "./module.js";
import { REVISION } from "./stores/revision.js";

const KEYS = 0;
const RANGE_REVERSE = 2;
const PUT = 0;
const DELETE = 1;
const NUMBER_BYTES = 8;
const LENGTH_BYTES = 4;

/** Decoder of a call from the module's memory: every part is a copy, which a store may keep. */
class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.offset = 0;
  }

  byte() {
    return this.bytes[this.offset++];
  }

  length() {
    const length = this.view.getUint32(this.offset, true);
    this.offset += LENGTH_BYTES;
    return length;
  }

  part() {
    const start = this.offset + LENGTH_BYTES;
    this.offset = start + this.view.getUint32(this.offset, true);
    return this.bytes.slice(start, this.offset);
  }

  number() {
    const number = this.view.getFloat64(this.offset, true);
    this.offset += NUMBER_BYTES;
    return number;
  }

  delta() {
    const delta = this.view.getBigInt64(this.offset, true);
    this.offset += NUMBER_BYTES;
    return delta;
  }

  list(read) {
    const items = [];
    for (let left = this.length(); left > 0; left--) items.push(read());
    return items;
  }

  parts() {
    return this.list(() => this.part());
  }
}

/** Encoder of a result, into a buffer of exactly its size. */
class Writer {
  constructor(size) {
    this.bytes = new Uint8Array(size);
    this.view = new DataView(this.bytes.buffer);
    this.offset = 0;
  }

  length(length) {
    this.view.setUint32(this.offset, length, true);
    this.offset += LENGTH_BYTES;
  }

  part(bytes) {
    this.length(bytes.length);
    this.bytes.set(bytes, this.offset);
    this.offset += bytes.length;
  }

  number(number) {
    this.view.setFloat64(this.offset, number, true);
    this.offset += NUMBER_BYTES;
  }

  /**
   * Writes the version and the value of an entry. An invalid version becomes NaN, which the module
   * rejects: 0 would mean that there is no entry.
   */
  entry({ version, value }) {
    this.number(typeof version === "number" && version !== 0 ? version : NaN);
    this.part(value);
  }
}

/** Returns true if this is a `Uint8Array`, of any realm. */
export function isBytes(value) {
  return ArrayBuffer.isView(value) && value[Symbol.toStringTag] === "Uint8Array";
}

/** Splits the header lines of a message into pairs. */
export function* headerPairs(lines) {
  const parts = lines.split("\n");
  for (let at = 0; at + 1 < parts.length; at += 2) yield [parts[at], parts[at + 1]];
}

/** Creates the error for a result that does not match its reads. */
function corrupt(message) {
  return new StoreError("corrupt", message);
}

/** Returns the length of bytes from a store. Other arrays would be copied as if they were bytes. */
function lengthOf(bytes) {
  if (isBytes(bytes)) return bytes.length;
  throw corrupt("the store returned a key or a value that is not a Uint8Array");
}

function sizeOfEntry(entry) {
  return NUMBER_BYTES + LENGTH_BYTES + lengthOf(entry?.value);
}

function isSame(key, other) {
  return key.length === lengthOf(other) && key.every((byte, at) => byte === other[at]);
}

function sizeOfKeys(keys, found) {
  if (found.length !== keys.length) {
    const numbers = `${found.length} entries for ${keys.length} keys`;
    throw corrupt(`the store returned ${numbers}; return one entry per key, null for an absent key`);
  }
  let size = 0;
  keys.forEach((key, place) => {
    const entry = found[place] ?? null;
    // Only an entry of a range names its key: this one belongs to another read.
    if (entry?.key !== undefined && !isSame(key, entry.key)) {
      throw corrupt("the store returned the entry of another key");
    }
    size += entry === null ? NUMBER_BYTES : sizeOfEntry(entry);
  });
  return size;
}

function sizeOfRange(found) {
  let size = LENGTH_BYTES;
  for (const entry of found) size += LENGTH_BYTES + lengthOf(entry?.key) + sizeOfEntry(entry);
  return size;
}

/** Checks that a result matches its reads, and returns its encoded length in bytes. */
function sizeOfFound(reads, found) {
  const form = "return an array with one result per read, in order";
  if (!Array.isArray(found)) throw corrupt(`the store did not return an array; ${form}`);
  if (found.length !== reads.length) {
    throw corrupt(`the store returned ${found.length} results for ${reads.length} reads; ${form}`);
  }
  let size = 0;
  reads.forEach(({ type, keys }, place) => {
    if (!Array.isArray(found[place])) throw corrupt(`the store did not return an array for a read of type ${type}`);
    size += type === "keys" ? sizeOfKeys(keys, found[place]) : sizeOfRange(found[place]);
  });
  return size;
}

function packFound(reads, found) {
  const writer = new Writer(sizeOfFound(reads, found));
  reads.forEach(({ type }, place) => {
    const entries = found[place];
    if (type === "range") writer.length(entries.length);
    for (const entry of entries) {
      if (type === "range") writer.part(entry.key);
      if (entry) writer.entry(entry);
      else writer.number(0);
    }
  });
  return writer.bytes;
}

function readRead(reader) {
  const kind = reader.byte();
  if (kind === KEYS) return { type: "keys", keys: reader.parts() };
  const [start, end] = reader.parts();
  return { type: "range", range: { start, end }, limit: reader.length(), isReverse: kind === RANGE_REVERSE };
}

function readMutation(reader) {
  const kind = reader.byte();
  const key = reader.part();
  if (kind === PUT) return { type: "put", key, value: reader.part() };
  if (kind === DELETE) return { type: "delete", key };
  return { type: "add", key, delta: reader.delta() };
}

/** Continues with a result, synchronously unless it is a promise. */
function then(answer, next) {
  return typeof answer?.then === "function" ? held(Promise.resolve(answer).then(next)) : next(answer);
}

/** The numbers of stores that can be mirrored. */
const numbers = new WeakMap();
let lastNumber = 0;

/** Returns the number by which the module knows a store, whichever services use it. */
function numberOf(store) {
  if (typeof store[REVISION] !== "function") return undefined;
  if (!numbers.has(store)) numbers.set(store, ++lastNumber);
  return numbers.get(store);
}

/** Adapter between the module and a store. */
export class StoreBridge {
  constructor(store) {
    this.store = store;
    this.number = numberOf(store);
  }

  revision() {
    return this.store[REVISION]() ?? NaN;
  }

  read(bytes) {
    const reader = new Reader(bytes);
    const reads = reader.list(() => readRead(reader));
    return then(this.store.read(reads), (found) => packFound(reads, found));
  }

  commit(bytes) {
    const reader = new Reader(bytes);
    const checks = reader.list(() => ({ key: reader.part(), version: reader.number() || null }));
    const mutations = reader.list(() => readMutation(reader));
    return then(this.store.commit(checks, mutations), (version) => version ?? null);
  }
}
