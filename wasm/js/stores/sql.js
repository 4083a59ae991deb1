// Tables and statements of the stores over SQLite.

import { addTo } from "./counter.js";

/**
 * Statements that create the tables unless they exist. The version precedes the value, because a
 * column after a large value is reached only through its overflow pages. The one row of `version`
 * outlives every entry, so that no version is reused.
 */
export const TABLES = [
  "CREATE TABLE IF NOT EXISTS entry (key BLOB PRIMARY KEY, version INTEGER NOT NULL, value BLOB NOT NULL) WITHOUT ROWID",
  "CREATE TABLE IF NOT EXISTS version (id INTEGER PRIMARY KEY CHECK (id = 1), last INTEGER NOT NULL)",
  "INSERT OR IGNORE INTO version (id, last) VALUES (1, 0)",
];

const GET = "SELECT version, value FROM entry WHERE key = ?";
const GET_VERSION = "SELECT version FROM entry WHERE key = ?";
const PUT =
  "INSERT INTO entry (key, version, value) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET version = excluded.version, value = excluded.value";
const DELETE = "DELETE FROM entry WHERE key = ?";
const NEXT_VERSION = "UPDATE version SET last = last + 1 WHERE id = 1 RETURNING last";

function scanStatement(hasEnd, isReverse) {
  const end = hasEnd ? "AND key < ? " : "";
  const order = isReverse ? "DESC" : "ASC";
  return `SELECT key, version, value FROM entry WHERE key >= ? ${end}ORDER BY key ${order} LIMIT ?`;
}

/** Converts bytes to a view; engines return a view or a buffer. */
function bytes(value) {
  return value instanceof Uint8Array ? value : new Uint8Array(value);
}

function entry(row) {
  return row ? { value: bytes(row.value), version: Number(row.version) } : null;
}

function get(all, { keys }) {
  return keys.map((key) => entry(all(GET, key)[0]));
}

function scan(all, { range: { start, end }, limit, isReverse }) {
  const bounds = end ? [start, end] : [start];
  const rows = all(scanStatement(end !== undefined, isReverse), ...bounds, limit);
  return rows.map((row) => ({ key: bytes(row.key), ...entry(row) }));
}

/**
 * Performs reads. It must run in a transaction of the caller, or where nothing else can run between
 * statements. `all` runs a statement and returns its rows.
 */
export function answer(all, reads) {
  return reads.map((read) => (read.type === "keys" ? get(all, read) : scan(all, read)));
}

/**
 * Applies a commit in a transaction of the caller; returns the version, or `null` if a check does
 * not hold.
 */
export function apply(all, checks, mutations) {
  for (const { key, version } of checks) {
    const row = all(GET_VERSION, key)[0];
    if ((row ? Number(row.version) : null) !== version) return null;
  }
  const version = Number(all(NEXT_VERSION)[0].last);
  for (const { type, key, value, delta } of mutations) {
    if (type === "put") all(PUT, key, version, value);
    else if (type === "delete") all(DELETE, key);
    else all(PUT, key, version, addTo(entry(all(GET, key)[0])?.value, delta));
  }
  return version;
}
