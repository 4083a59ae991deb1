// Activity of the last weeks, which the server counts by day in UTC.

/** @import { ActivityDay } from "../../../wasm/pkg/operations.js" */

export const ACTIVITY_DAYS = 28;

/**
 * Returns the backlog at the end of each day, from that of now.
 * @param {ActivityDay[]} days The oldest first.
 * @param {number} backlogNow
 */
export function backlogs(days, backlogNow) {
  let backlog = backlogNow;
  const backlogs = days.toReversed().map(({ backlog_change: change }) => {
    const atEnd = backlog;
    backlog -= change;
    // What happened between the two requests is counted in one of them only.
    return Math.max(0, atEnd);
  });
  return backlogs.toReversed();
}
