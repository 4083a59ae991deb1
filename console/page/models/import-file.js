// Files of JSON lines: their memories, and what is wrong with a line.

import { ApiError } from "../api/error.js";
import { sha256 } from "./digest.js";
import { AUDIENCE_PATTERN, SENSITIVITY_LABELS } from "./vocabulary.js";

/** @import { NewMemory } from "../../../wasm/pkg/operations.js" */

const TITLE_CHARACTERS_MAX = 128;
const CONTENT_BYTES_MAX = 32 * 1_024;
const SOURCE_KEY_CHARACTERS_MAX = 512;
/** Bounds of one batch; the body has room for its other fields. */
const BATCH_MEMORIES_MAX = 100;
const BATCH_BYTES_MAX = 1_000_000;
const FIELDS = new Set(["title", "content", "source_key", "audience_tag", "sensitivity_label"]);

const AUDIENCE = new RegExp(`^${AUDIENCE_PATTERN}$`);

const encoder = new TextEncoder();

/** @typedef {NewMemory & { source_key: string }} KeyedMemory */
/**
 * A line of a file: its memory, or what is wrong with it.
 * @typedef {object} Line
 * @property {number} number Number of the line, from 1.
 * @property {KeyedMemory | null} memory
 * @property {string} problem Empty if the line is valid.
 */

/**
 * Reads the lines of a file; blank ones are left out.
 * @param {string} text
 * @returns {Promise<Line[]>}
 */
export async function readLines(text) {
  /** @type {Map<string, number>} */
  const keys = new Map();
  /** @type {Line[]} */
  const lines = [];
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === "") continue;
    const number = index + 1;
    const { memory, problem } = parseLine(line);
    if (memory === null) {
      lines.push({ number, memory: null, problem });
      continue;
    }
    const keyed = { ...memory, source_key: memory.source_key ?? (await keyOf(memory)) };
    const first = keys.get(keyed.source_key);
    if (first === undefined) lines.push({ number, memory: keyed, problem: "" });
    else lines.push({ number, memory: null, problem: `has the key of line ${first}` });
    keys.set(keyed.source_key, first ?? number);
  }
  return lines;
}

/**
 * Groups lines into batches that one request can hold.
 * @param {Line[]} lines Valid lines.
 * @returns {Line[][]}
 */
export function batchesOf(lines) {
  /** @type {Line[][]} */
  const batches = [];
  let bytes = Infinity;
  for (const line of lines) {
    const lineBytes = encoder.encode(JSON.stringify(line.memory)).length + 1;
    const batch = batches.at(-1);
    if (batch && batch.length < BATCH_MEMORIES_MAX && bytes + lineBytes <= BATCH_BYTES_MAX) {
      batch.push(line);
      bytes += lineBytes;
    } else {
      batches.push([line]);
      bytes = lineBytes;
    }
  }
  return batches;
}

/**
 * Marks the lines of a batch that its rejection names, and returns the others.
 * @param {Line[]} batch
 * @param {unknown} error Thrown again if it names no line.
 */
export function withoutRejected(batch, error) {
  for (const { path, message } of (error instanceof ApiError && error.details.fields) || []) {
    const [, index, field] = /^memories\[(\d+)]\.?(.*)/.exec(path) ?? [];
    const line = batch[Number(index)];
    if (line?.memory) Object.assign(line, { memory: null, problem: `${field} ${message}` });
  }
  const left = batch.filter(({ memory }) => memory !== null);
  if (left.length === batch.length) throw error;
  return left;
}

/**
 * Parses a line as a memory.
 * @param {string} line
 * @returns {{ memory: NewMemory | null, problem: string }}
 */
function parseLine(line) {
  let value;
  try {
    value = JSON.parse(line);
  } catch {
    return { memory: null, problem: "is not valid JSON" };
  }
  const problem = problemOf(value);
  return { memory: problem === "" ? value : null, problem };
}

/**
 * Returns what is wrong with a value as a memory. The service checks it again.
 * @param {unknown} value
 */
function problemOf(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "must be a JSON object";
  const fields = /** @type {Record<string, unknown>} */ (value);
  const unknown = Object.keys(fields).find((name) => !FIELDS.has(name));
  if (unknown !== undefined) return `has the unknown field ${unknown}`;
  const { title, content, source_key, audience_tag, sensitivity_label } = fields;
  const notText = Object.keys(fields).find((name) => typeof fields[name] !== "string");
  if (notText !== undefined) return `${notText} must be a text`;
  const hasTitle = String(title ?? "").trim() !== "";
  if (!hasTitle || !content) return `${hasTitle ? "content" : "title"} is required`;
  if ([...String(title)].length > TITLE_CHARACTERS_MAX)
    return `title must have at most ${TITLE_CHARACTERS_MAX} characters`;
  if (encoder.encode(String(content)).length > CONTENT_BYTES_MAX)
    return `content must have at most ${CONTENT_BYTES_MAX} bytes`;
  if ([...String(source_key ?? "")].length > SOURCE_KEY_CHARACTERS_MAX)
    return `source_key must have at most ${SOURCE_KEY_CHARACTERS_MAX} characters`;
  if (!AUDIENCE.test(String(audience_tag ?? "org:a"))) return "audience_tag must be such as team:sales";
  const isLabel = SENSITIVITY_LABELS.some((label) => label === (sensitivity_label ?? label));
  return isLabel ? "" : `sensitivity_label must be one of ${SENSITIVITY_LABELS.join(", ")}`;
}

/**
 * Derives a source key from the audience label, if there is one, the title and the content, as
 * `knowledge import` does, so that a file can be imported again without effect.
 * @param {NewMemory} memory
 */
async function keyOf({ title, content, audience_tag }) {
  const parts = audience_tag === undefined ? [title] : [audience_tag, title];
  // The lengths separate the parts.
  const separated = parts.flatMap((part) => {
    const bytes = encoder.encode(part);
    const length = new Uint8Array(8);
    new DataView(length.buffer).setBigUint64(0, BigInt(bytes.length));
    return [length, bytes];
  });
  const bytes = new Uint8Array(await new Blob([...separated, content]).arrayBuffer());
  const digest = await sha256(bytes);
  return `sha256:${[...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
