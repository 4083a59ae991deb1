// Why a key, a webhook or a subscription has ended, in words.

/** @import { EndedReason } from "../../../wasm/pkg/operations.js" */

/** @type {Record<EndedReason, string>} */
const REASONS = {
  permission_missing: "Its member lacks the permission. It works again once the member has it.",
  credential_revoked: "The scoped token that created it was revoked. Rotate the secret to take it over.",
  credential_expired: "The scoped token that created it has expired. Rotate the secret to take it over.",
  ended_with_credential: "It was ended with the credential that created it. Rotate the secret to take it over.",
  member_removed: "Its member was removed. Rotate the secret to take it over.",
};

/**
 * Explains why something has ended or is suspended; `null` if it is not.
 * @param {EndedReason | null} reason
 */
export const endingText = (reason) => (reason === null ? null : (REASONS[reason] ?? reason));
