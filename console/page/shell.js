// The screens, the frame around the one that is shown, and the form before it.

import { href } from "./router.js";
import { AccountScreen } from "./screens/account.js";
import { AuditScreen } from "./screens/audit.js";
import { DashboardScreen } from "./screens/dashboard.js";
import { ImportScreen } from "./screens/import.js";
import { KeysScreen } from "./screens/keys.js";
import { MembersScreen } from "./screens/members.js";
import { MemoriesScreen } from "./screens/memories.js";
import { ReviewScreen } from "./screens/review.js";
import { RolesScreen } from "./screens/roles.js";
import { WebhooksScreen } from "./screens/webhooks.js";
import { textOf } from "./ui/actions.js";
import { html, nothing } from "./ui/lit.js";
import { icon } from "./ui/marks.js";
import { textField } from "./ui/parts.js";

/**
 * @import { Action } from "../../wasm/pkg/operations.js"
 * @import { Context, Screen } from "./context.js"
 * @import { ApiError } from "./api/error.js"
 * @import { Content } from "./ui/lit.js"
 * @import { IconName } from "./ui/marks.js"
 */

/**
 * A screen in the navigation.
 * @typedef {object} ScreenEntry
 * @property {string} title
 * @property {IconName} symbol
 * @property {"Workspace" | "Organisation" | "You"} group
 * @property {Action} [needs] Action without which it is not offered.
 * @property {new (context: Context) => Screen} Screen
 */

export const FIRST_SCREEN = "dashboard";

/** Screens by name, in the order of the navigation. @type {Record<string, ScreenEntry>} */
export const SCREENS = {
  dashboard: {
    title: "Dashboard",
    symbol: "dashboard",
    group: "Workspace",
    needs: "dashboard:read",
    Screen: DashboardScreen,
  },
  memories: { title: "Memories", symbol: "memories", group: "Workspace", Screen: MemoriesScreen },
  review: { title: "Review", symbol: "review", group: "Workspace", needs: "memory:review", Screen: ReviewScreen },
  import: { title: "Import", symbol: "import", group: "Workspace", needs: "memory:create", Screen: ImportScreen },
  webhooks: {
    title: "Webhooks",
    symbol: "webhooks",
    group: "Workspace",
    needs: "webhook:manage",
    Screen: WebhooksScreen,
  },
  keys: { title: "MCP keys", symbol: "key", group: "Workspace", needs: "dashboard:read", Screen: KeysScreen },
  members: { title: "Members", symbol: "members", group: "Organisation", needs: "role:read", Screen: MembersScreen },
  roles: { title: "Roles", symbol: "roles", group: "Organisation", needs: "role:read", Screen: RolesScreen },
  audit: { title: "Audit log", symbol: "audit", group: "Organisation", needs: "audit:read", Screen: AuditScreen },
  account: { title: "Account", symbol: "key", group: "You", Screen: AccountScreen },
};

/** @typedef {[name: string, screen: ScreenEntry]} Entry */

const LINK_LENGTH_MAX = 2_048;
const GROUPS = /** @type {const} */ (["Workspace", "Organisation", "You"]);

/**
 * Shows the page around a screen.
 * @param {object} page
 * @param {Context} page.context
 * @param {string} page.shown Name of the screen.
 * @param {Content} page.content
 * @param {boolean} page.isMenuOpen True if the navigation is shown where there is no room for it.
 * @param {() => void} page.toggleMenu
 * @param {(() => void) | null} page.signOut
 */
export function shell({ context, shown, content, isMenuOpen, toggleMenu, signOut }) {
  const { workspace, access, member } = context;
  const isShown = (/** @type {Entry} */ [, { group, needs }]) =>
    access.holds(needs) && (group !== "You" || member !== null);
  const link = (/** @type {Entry} */ [name, { title, symbol }]) => html`
    <li>
      <a href=${href({ workspace: workspace.slug, screen: name })} aria-current=${name === shown ? "page" : nothing}>
        ${icon(symbol)}${title}
      </a>
    </li>
  `;
  const group = (/** @type {string} */ heading) => {
    const screens = Object.entries(SCREENS).filter((entry) => entry[1].group === heading && isShown(entry));
    return screens.length > 0
      ? html`<h2>${heading}</h2>
          <ul>
            ${screens.map(link)}
          </ul>`
      : nothing;
  };
  return html`
    <a class="skip" href="#content" @click=${skipToContent}>Skip to the content</a>
    <div class="frame">
      <header class="side ${isMenuOpen ? "open" : ""}">
        <div class="brand">
          ${icon("brand")}<span>Knowledge</span>
          <button
            type="button"
            class="quiet square menu"
            aria-expanded=${isMenuOpen}
            aria-controls="menu"
            aria-label="Menu"
            @click=${toggleMenu}
          >
            ${icon("menu")}
          </button>
        </div>
        <div class="side-body" id="menu">
          ${workspaceChoice(context, shown)}
          <nav aria-label="Screens">${GROUPS.map(group)}</nav>
          ${signOut ? html`<button type="button" class="quiet" @click=${signOut}>Sign out</button>` : html`<p class="faint">Offline: the service runs in this page.</p>`}
        </div>
      </header>
      <main id="content">${content}</main>
    </div>
  `;
}

/**
 * @param {Context} context
 * @param {string} shown
 */
function workspaceChoice({ workspace, workspaces }, shown) {
  const onChange = (/** @type {Event} */ event) => {
    const { value } = /** @type {HTMLSelectElement} */ (event.currentTarget);
    location.hash = href({ workspace: value, screen: shown });
  };
  return html`
    <label class="workspace">
      <span>Workspace</span>
      <select @change=${onChange}>
        ${workspaces.map(({ slug, name }) => html`<option value=${slug} .selected=${slug === workspace.slug}>${name}</option>`)}
      </select>
    </label>
  `;
}

/** @param {Event} event */
function skipToContent(event) {
  event.preventDefault();
  document.querySelector("h1")?.focus();
}

/**
 * Asks for a sign-in link, or leads to a provider.
 * @param {object} view
 * @param {boolean} view.isSignedOut True if the member was signed in before.
 * @param {ApiError | null} view.error
 * @param {string} view.provider
 * @param {(link: string) => void} view.onSubmit
 */
export function signInView({ isSignedOut, error, provider, onSubmit }) {
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    onSubmit(textOf(new FormData(/** @type {HTMLFormElement} */ (event.currentTarget)), "link"));
  };
  return html`
    <main class="alone">
      <form class="sign-in" @submit=${submit}>
        <h1 class="brand">${icon("brand")}Knowledge console</h1>
        <p class="lead">${isSignedOut ? "You are signed out." : "Ask your operator for a link."}</p>
        ${textField({
          name: "link",
          label: "Sign-in link",
          type: "password",
          lengthMax: LINK_LENGTH_MAX,
          hint: "It works once.",
          problem: error ? "This link was used, has expired or is not complete." : "",
        })}
        <button class="primary">Sign in</button>
        ${provider && html`<a href="auth/oidc/start?return_to=${encodeURIComponent(location.hash)}">Sign in with ${provider}</a>`}
      </form>
    </main>
  `;
}

/**
 * Asks whether to sign in with a link, which is used up then.
 * @param {string | null} name Name of the member who is signed in.
 * @param {(isUsed: boolean) => void} decide
 */
export const linkView = (name, decide) => html`
  <main class="alone">
    <div class="sign-in">
      <h1 class="brand">${icon("brand")}${name === null ? "Knowledge console" : `You are signed in as ${name}`}</h1>
      <p class="lead">${name === null ? "Your link signs you in, once." : "Sign in with this link instead?"}</p>
      <button class="primary" @click=${() => decide(true)}>Sign in</button>
      ${name !== null && html`<button @click=${() => decide(false)}>Cancel</button>`}
    </div>
  </main>
`;
