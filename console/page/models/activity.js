// Activity of the last weeks, counted from the audit log.

import { readAll } from "../api/list.js";
import { DAY_MS } from "../ui/format.js";

/**
 * @import { AuditEntry } from "../../../wasm/pkg/operations.js"
 * @import { Operations } from "../api/operations.js"
 */

export const ACTIVITY_DAYS = 28;
/** Number of entries that are read; earlier days stay unknown. */
const ENTRIES_MAX = 12_000;

/**
 * Counts of one day.
 * @typedef {object} Day
 * @property {Date} date Its beginning, in UTC.
 * @property {boolean} isKnown False while its entries have not all been read.
 * @property {number} added Memories that were added.
 * @property {number} changed Memories whose labels, review or text changed.
 * @property {number} administration Changes of anything else.
 * @property {number} backlog Change of the number of memories that await review.
 */

/** The last days of a workspace, the oldest first. */
export class Activity {
  /** @type {Day[]} */
  days;
  #workspace;

  /**
   * @param {string} workspace
   * @param {number} nowMs
   */
  constructor(workspace, nowMs) {
    this.#workspace = workspace;
    const today = Math.floor(nowMs / DAY_MS);
    this.days = Array.from({ length: ACTIVITY_DAYS }, (_, index) => ({
      date: new Date((today - ACTIVITY_DAYS + 1 + index) * DAY_MS),
      isKnown: false,
      added: 0,
      changed: 0,
      administration: 0,
      backlog: 0,
    }));
  }

  /**
   * Reads the audit log from its end, as far as the days and the number of entries reach.
   * @param {Operations} operations
   * @param {() => void} onProgress
   */
  async load(operations, onProgress) {
    const since = this.days[0]?.date.toISOString();
    let read = 0;
    await readAll(
      (page) => operations.listAuditEntries({ ...page, since }),
      (entries) => {
        for (const entry of entries) this.add(entry);
        read += entries.length;
        const oldest = entries.at(-1);
        if (oldest) this.#markKnownAfter(oldest.at);
        onProgress();
        return read < ENTRIES_MAX;
      },
    );
    if (read < ENTRIES_MAX) this.#markKnownAfter("");
    onProgress();
  }

  /**
   * Counts an entry. Memories of other workspaces are left out.
   * @param {AuditEntry} entry
   */
  add({ at, action, outcome, resource, before, after }) {
    const day = this.days.find(({ date }) => date.getTime() === Math.floor(Date.parse(at) / DAY_MS) * DAY_MS);
    if (!day || outcome !== "ok" || action === "memory.read") return;
    if (resource.kind !== "memory") {
      day.administration += 1;
      return;
    }
    const [was, is] = [stateOf(before), stateOf(after)];
    if ((is ?? was)?.workspace_id !== this.#workspace) return;
    if (was === null) day.added += 1;
    else day.changed += 1;
    day.backlog += Number(is?.review === "pending") - Number(was?.review === "pending");
  }

  /**
   * Returns the backlog at the end of each day, from that of now; `null` for days before known ones.
   * @param {number} backlogNow
   */
  backlogs(backlogNow) {
    let backlog = backlogNow;
    const backlogs = this.days.toReversed().map(({ isKnown, backlog: change }) => {
      if (!isKnown) return null;
      const atEnd = backlog;
      backlog -= change;
      // Entries that arrived between the two requests are counted in one of them only.
      return Math.max(0, atEnd);
    });
    return backlogs.toReversed();
  }

  /**
   * Notes that all entries after a time have been read.
   * @param {string} at
   */
  #markKnownAfter(at) {
    for (const day of this.days) day.isKnown ||= day.date.toISOString() > at;
  }
}

/**
 * Returns the state of a memory in an entry.
 * @param {unknown} state
 */
const stateOf = (state) => /** @type {{ workspace_id: string, review: string } | null} */ (state);
