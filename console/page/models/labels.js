// Audience labels of a workspace: whom its own covers, and those to choose from.

import { ApiError } from "../api/error.js";

/**
 * @import { Workspace, WorkspaceLabel } from "../../../wasm/pkg/operations.js"
 * @import { Operations } from "../api/operations.js"
 */

/**
 * Reads the audience labels of a workspace; none if the caller may not read them.
 * @param {Operations} operations
 * @param {string} workspace
 * @returns {Promise<WorkspaceLabel[]>}
 */
export async function readLabels(operations, workspace) {
  try {
    return (await operations.listLabels(workspace)).data;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return [];
  }
}

/**
 * Names the people of a workspace.
 * @param {Pick<Workspace, "access">} workspace
 */
export const peopleOf = ({ access }) =>
  access === "private" ? "members with a role in it, and owners" : "every member of the organisation";

/**
 * Says whom the label of a workspace covers.
 * @param {Pick<Workspace, "access" | "slug">} workspace
 */
export const coverageOf = (workspace) =>
  `The workspace is ${workspace.access}: workspace:${workspace.slug} covers ${peopleOf(workspace)}.`;
