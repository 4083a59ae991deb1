// Audience labels of a workspace, to choose from.

import { ApiError } from "../api/error.js";

/**
 * @import { WorkspaceLabel } from "../../../wasm/pkg/operations.js"
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
