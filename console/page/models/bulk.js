// Bulk updates of memories: what one would change, its calls, their results, and its undoing.

import { newIdempotencyKey } from "../api/client.js";
import { SENSITIVITY_LABELS } from "./vocabulary.js";

/**
 * @import { BulkItem, BulkUpdate, MemorySummary } from "../../../wasm/pkg/operations.js"
 * @import { Operations } from "../api/operations.js"
 * @import { Access } from "../directory.js"
 */

/** Memories of one call; the maximum of the API. */
export const CALL_MEMORIES_MAX = 1_000;

/**
 * Attributes that an update sets.
 * @typedef {Omit<BulkUpdate, "memoryIds" | "dryRun">} Change
 */
/** @typedef {keyof Change} Attribute */

/** @type {readonly Attribute[]} */
const ATTRIBUTES = ["sensitivityLabel", "audienceTag", "sourceId", "reviewStatus"];

/**
 * Memories that an update sets the same attributes of.
 * @typedef {{ memories: MemorySummary[], change: Change }} Part
 */

/**
 * The effect of an update, before it is made.
 * @typedef {object} Preview
 * @property {MemorySummary[]} changing Memories that do not have the attributes yet.
 * @property {number} unchanged Number of those that have them already.
 * @property {number} refused Number of those that the caller may not change so: neither approve or
 *   reject, nor lower the sensitivity of.
 * @property {number} lowered Number of those whose sensitivity would fall.
 */

/**
 * Compares memories with the attributes that an update would set.
 * @param {MemorySummary[]} memories
 * @param {Change} change
 * @param {Pick<Access, "decidesOn" | "holds">} access
 * @returns {Preview}
 */
export function preview(memories, change, access) {
  const set = ATTRIBUTES.filter((attribute) => change[attribute] !== undefined);
  const { sensitivityLabel, reviewStatus } = change;
  const decides = reviewStatus === "approved" || reviewStatus === "rejected";
  const rank = (/** @type {string} */ label) => SENSITIVITY_LABELS.findIndex((other) => other === label);
  const isLowered = (/** @type {MemorySummary} */ memory) =>
    sensitivityLabel !== undefined && rank(memory.sensitivityLabel) > rank(sensitivityLabel);
  const lowers = access.holds("memory:declassify");
  const allowed = memories.filter((memory) => (!decides || access.decidesOn(memory)) && (lowers || !isLowered(memory)));
  const changing = allowed.filter((memory) => set.some((attribute) => memory[attribute] !== change[attribute]));
  return {
    changing,
    unchanged: allowed.length - changing.length,
    refused: memories.length - allowed.length,
    lowered: memories.filter(isLowered).length,
  };
}

/**
 * Asks for the impact of an update on its first memories, which it does not change.
 * @param {Operations} operations
 * @param {MemorySummary[]} memories
 * @param {Change} change
 */
export async function impactOf(operations, memories, change) {
  const memoryIds = memories.slice(0, CALL_MEMORIES_MAX).map(({ id }) => id);
  const update = /** @type {BulkUpdate} */ ({ memoryIds, ...change, dryRun: true });
  const { summary, impact } = await operations.bulkUpdateMemories(update, newIdempotencyKey());
  return { summary, impact };
}

/**
 * A call of a bulk update. Its key stays the same however often the call is sent.
 * @typedef {{ update: BulkUpdate, idempotencyKey: string }} Call
 */

/** A bulk update in one call or several. After a failure it continues with the call that failed. */
export class BulkRun {
  /** Memories by identifier, as they were before. @type {Map<string, MemorySummary>} */
  #before;
  /** Calls that have not been answered. @type {Call[]} */
  #calls;
  #change;
  /** Results of the answered calls. @type {BulkItem[]} */
  results = [];
  /** Audience labels that were set and cover nobody. @type {string[]} */
  labelsWithoutMembers = [];

  /** @param {Part[]} parts */
  constructor(parts) {
    this.#before = new Map(parts.flatMap(({ memories }) => memories.map((memory) => [memory.id, memory])));
    this.#change = Object.assign({}, ...parts.map(({ change }) => change));
    this.#calls = parts.flatMap(callsOf);
  }

  get total() {
    return this.#before.size;
  }

  get isDone() {
    return this.#calls.length === 0;
  }

  get succeeded() {
    return this.results.filter(({ ok }) => ok).length;
  }

  /**
   * Sends the calls that have not been answered, in turn.
   * @param {Operations} operations
   * @param {() => void} onProgress
   */
  async run(operations, onProgress) {
    for (let call = this.#calls[0]; call; call = this.#calls[0]) {
      const { results, labels_without_members } = await operations.bulkUpdateMemories(call.update, call.idempotencyKey);
      this.results = [...this.results, ...results];
      this.labelsWithoutMembers = [...new Set([...this.labelsWithoutMembers, ...labels_without_members])];
      this.#calls.shift();
      onProgress();
    }
  }

  /**
   * Returns the memory of a result as it was before.
   * @param {BulkItem} result
   */
  before({ memoryId }) {
    return this.#before.get(memoryId);
  }

  /** Returns the update that restores what this one has changed, with keys of its own. */
  undo() {
    /** @type {Map<string, Part>} */
    const parts = new Map();
    for (const result of this.results) {
      const memory = this.#before.get(result.memoryId);
      if (!result.ok || !memory) continue;
      const change = previous(memory, this.#change);
      const key = JSON.stringify(change);
      const part = parts.get(key);
      if (part) part.memories.push(memory);
      else parts.set(key, { memories: [memory], change });
    }
    return new BulkRun([...parts.values()]);
  }
}

/**
 * Returns the attributes of a memory that a change sets.
 * @param {MemorySummary} memory
 * @param {Change} change
 * @returns {Change}
 */
function previous(memory, change) {
  const set = ATTRIBUTES.filter((attribute) => change[attribute] !== undefined);
  return Object.fromEntries(set.map((attribute) => [attribute, memory[attribute]]));
}

/**
 * @param {Part} part
 * @returns {Call[]}
 */
function callsOf({ memories, change }) {
  const calls = [];
  for (let start = 0; start < memories.length; start += CALL_MEMORIES_MAX) {
    const memoryIds = memories.slice(start, start + CALL_MEMORIES_MAX).map(({ id }) => id);
    // A change sets at least one attribute.
    const update = /** @type {BulkUpdate} */ ({ memoryIds, ...change });
    calls.push({ update, idempotencyKey: newIdempotencyKey() });
  }
  return calls;
}
