// Whom the audience label of a workspace covers.

/** @import { Workspace } from "../../../wasm/pkg/operations.js" */

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
