// What roles permit, as the reference says.

import { ACTIONS } from "./vocabulary.js";

/** @import { Action, CustomRole } from "../../../wasm/pkg/operations.js" */

/** @type {readonly Action[]} */
const VIEWER = ["memory:read", "dashboard:read", "recall:create", "role:read"];
/** @type {readonly Action[]} */
const MEMBER = [
  ...VIEWER,
  "memory:create",
  "memory:update",
  "memory:review",
  "connector:report",
  "chat:write",
  "citation_subscription:manage",
];
/** @type {Record<string, readonly Action[]>} */
const BUILT_IN = { viewer: VIEWER, member: MEMBER, admin: ACTIONS, owner: ACTIONS };

/**
 * Returns the actions that a role permits; `null` if the page does not know the role.
 * @param {string} id
 * @param {readonly CustomRole[]} customRoles
 * @param {boolean} [isActive] True for what a custom role permits once it is active.
 * @returns {readonly Action[] | null}
 */
export function actionsOf(id, customRoles, isActive) {
  const role = customRoles.find((role) => role.id === id);
  if (!role) return BUILT_IN[id] ?? null;
  const { allow, deny } = role.actions;
  const added = isActive || role.is_active ? allow : [];
  return [...(BUILT_IN[role.base_role] ?? []), ...added].filter((action) => !deny.includes(action));
}
