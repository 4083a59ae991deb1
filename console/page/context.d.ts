// What a screen works with.

import type { Workspace } from "../../wasm/pkg/operations.js";
import type { Identity } from "./api/client.js";
import type { AccountOperations, Operations, OrganizationOperations } from "./api/operations.js";
import type { Access, Directory } from "./directory.js";
import type { Route } from "./router.js";
import type { Content } from "./ui/lit.js";
import type { Dialogs } from "./ui/overlays.js";

/** The workspace that is open, and what its screens use. */
export interface Context {
  operations: Operations;
  organization: OrganizationOperations;
  account: AccountOperations;
  /** The member who is signed in; `null` where nobody signs in. */
  member: Identity["member"] | null;
  workspace: Workspace;
  workspaces: Workspace[];
  access: Access;
  directory: Directory;
  dialogs: Dialogs;
  /** Shows the page as it is now. */
  refresh: () => void;
  announce: (text: string) => void;
}

/** A screen. */
export interface Screen {
  /** Shows an address: on arrival, and when its filters change. */
  open: (route: Route) => void;
  render: () => Content;
}
