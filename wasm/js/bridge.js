// What crosses the boundary, read and written. A store is asked in bytes: `wasm/src/wire.rs` is the other half, and says what
// stands where.

import { StoreError } from "./error.js";
import { held } from "./module.js";

const PUT = 0;
const DELETE = 1;
const NUMBER_BYTES = 8;
const LENGTH_BYTES = 4;

/** Reads what the module wrote, from its memory: every part is a copy, which a store may keep. */
class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.offset = 0;
  }

  get isAtEnd() {
    return this.offset === this.bytes.length;
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
    return Array.from({ length: this.length() }, read);
  }
}

/** Writes an answer into a buffer of the size that it needs. */
class Writer {
  constructor(size) {
    this.bytes = new Uint8Array(size);
    this.view = new DataView(this.bytes.buffer);
    this.offset = 0;
  }

  part(bytes) {
    this.view.setUint32(this.offset, bytes.length, true);
    this.bytes.set(bytes, this.offset + LENGTH_BYTES);
    this.offset += LENGTH_BYTES + bytes.length;
  }

  number(number) {
    this.view.setFloat64(this.offset, number, true);
    this.offset += NUMBER_BYTES;
  }
}

/** Whether this is a `Uint8Array`, of whatever realm. */
export function isBytes(value) {
  return ArrayBuffer.isView(value) && value[Symbol.toStringTag] === "Uint8Array";
}

/** The header lines of a message as pairs. */
export function* headerPairs(lines) {
  const parts = lines.split("\n");
  for (let at = 0; at + 1 < parts.length; at += 2) yield [parts[at], parts[at + 1]];
}

/** How long bytes are that a store gave. Anything else that has a length would be copied as if it were bytes. */
function lengthOf(bytes) {
  if (isBytes(bytes)) return bytes.length;
  throw new StoreError("corrupt", "the store answered with a key or a value that is no Uint8Array");
}

function packEntries(entries) {
  let size = 0;
  for (const entry of entries) {
    size += NUMBER_BYTES;
    if (entry) size += LENGTH_BYTES + lengthOf(entry.value);
  }
  const writer = new Writer(size);
  for (const entry of entries) {
    writer.number(entry ? entry.version : 0);
    if (entry) writer.part(entry.value);
  }
  return writer.bytes;
}

function packFound(found) {
  let size = 0;
  for (const { key, value } of found) {
    size += 2 * LENGTH_BYTES + NUMBER_BYTES + lengthOf(key) + lengthOf(value);
  }
  const writer = new Writer(size);
  for (const { key, value, version } of found) {
    writer.part(key);
    writer.number(version);
    writer.part(value);
  }
  return writer.bytes;
}

function readMutation(reader) {
  const kind = reader.byte();
  const key = reader.part();
  if (kind === PUT) return { type: "put", key, value: reader.part() };
  if (kind === DELETE) return { type: "delete", key };
  return { type: "add", key, delta: reader.delta() };
}

/** Goes on with an answer when it is there, at once if it is there at once. */
function then(answer, next) {
  return typeof answer?.then === "function" ? held(Promise.resolve(answer).then(next)) : next(answer);
}

/** Stands between the module and a store with the three methods. */
export class StoreBridge {
  constructor(store) {
    this.store = store;
  }

  get(bytes) {
    const reader = new Reader(bytes);
    const keys = [];
    while (!reader.isAtEnd) keys.push(reader.part());
    return then(this.store.get(keys), packEntries);
  }

  scan(start, end, limit, isReverse) {
    const range = { start: start.slice(), end: end?.slice() };
    return then(this.store.scan(range, limit, isReverse), packFound);
  }

  commit(bytes) {
    const reader = new Reader(bytes);
    const checks = reader.list(() => ({ key: reader.part(), version: reader.number() || null }));
    const mutations = reader.list(() => readMutation(reader));
    return then(this.store.commit(checks, mutations), (version) => version ?? null);
  }
}
