// The page: who is signed in, which workspace is open, and which screen is shown.

import { Client, Connection } from "./api/client.js";
import { ApiError } from "./api/error.js";
import { readAll } from "./api/list.js";
import { AccountOperations, Operations, OrganizationOperations } from "./api/operations.js";
import { Access, Directory } from "./directory.js";
import { href, parseRoute } from "./router.js";
import { creations } from "./screens/account.js";
import { FIRST_SCREEN, SCREENS, linkView, shell, signInView } from "./shell.js";
import { openForm } from "./ui/actions.js";
import { html, render } from "./ui/lit.js";
import { Dialogs, Notices } from "./ui/overlays.js";
import { empty, loading, problem } from "./ui/parts.js";

/**
 * @import { Workspace } from "../../wasm/pkg/operations.js"
 * @import { Identity } from "./api/client.js"
 * @import { Created } from "./api/operations.js"
 * @import { Context, Screen } from "./context.js"
 * @import { Content } from "./ui/lit.js"
 */

/**
 * A member who uses the page.
 * @typedef {object} SignedIn
 * @property {import("./api/client.js").Transport} transport
 * @property {string} organization Slug of the organisation.
 * @property {Identity | null} identity `null` where nobody signs in.
 * @property {() => void} leave Called when the session has ended.
 * @property {(() => void) | null} signOut `null` where nobody signs in.
 */

export class App {
  #root;
  #dialogs;
  #notices = new Notices(() => this.#refresh());
  #connection = new Connection(() => this.#refresh());
  /** @type {SignedIn | null} */
  #signedIn = null;
  /** @type {Workspace[]} */
  #workspaces = [];
  /** @type {Context | null} */
  #context = null;
  /** @type {{ name: string, screen: Screen } | null} */
  #shown = null;
  #isMenuOpen = false;
  /** Content of the page while no screen can be shown. @type {() => Content} */
  #standIn = loading;
  #isRefreshing = false;

  /**
   * @param {HTMLElement} root
   * @param {HTMLDialogElement} dialog
   */
  constructor(root, dialog) {
    this.#root = root;
    this.#dialogs = new Dialogs(dialog);
    addEventListener("hashchange", () => this.#route());
    this.#refresh();
  }

  /**
   * Asks for a sign-in link, or leads to a provider.
   * @param {ApiError | null} error
   * @param {Promise<string>} naming
   * @param {(link: string) => void} onSubmit
   */
  askToSignIn(error, naming, onSubmit) {
    const isSignedOut = this.#signedIn !== null;
    let provider = "";
    this.showInstead(() => signInView({ isSignedOut, error, provider, onSubmit }));
    naming.then((name) => {
      provider = name;
      this.#refresh();
    });
    document.title = "Sign in · Knowledge console";
  }

  /**
   * Asks whether to sign in with a link.
   * @param {string | null} name Name of the member who is signed in, whom the link would replace.
   * @returns {Promise<boolean>}
   */
  askToUseLink(name) {
    return new Promise((resolve) => this.showInstead(() => linkView(name, resolve)));
  }

  /**
   * Shows what the session created, and asks whether that ends too.
   * @param {Created[]} created
   * @param {(withCreated: boolean) => Promise<void>} signOut
   */
  askToSignOut(created, signOut) {
    // The session may have ended meanwhile.
    if (this.#context === null) return;
    openForm(this.#context, {
      title: "Sign out?",
      submit: "Sign out",
      fields: () =>
        html`<p>This session ends at once.</p>
          ${creations(created)}`,
      run: (data) => signOut(data.has("with_created")),
    });
  }

  /**
   * Opens the page for a member.
   * @param {SignedIn} signedIn
   */
  async start(signedIn) {
    this.showInstead();
    this.#signedIn = signedIn;
    try {
      const operations = new Operations(this.#client(signedIn));
      /** @type {Workspace[]} */
      const workspaces = [];
      await readAll(
        (page) => operations.listWorkspaces(page),
        (items) => {
          workspaces.push(...items);
          return true;
        },
      );
      if (signedIn !== this.#signedIn) return;
      this.#workspaces = workspaces;
      await this.#route();
    } catch (error) {
      if (signedIn === this.#signedIn) this.fail(error);
    }
  }

  /**
   * Shows that the page cannot be opened.
   * @param {unknown} cause
   * @param {() => void} [retry]
   */
  fail(cause, retry = () => location.reload()) {
    const message = cause instanceof Error ? cause.message : String(cause);
    const error = cause instanceof ApiError ? cause : new ApiError({ status: 0, code: "unknown", message });
    this.showInstead(() => html`<main class="alone">${problem(error, retry)}</main>`);
  }

  /**
   * Forgets everything of the member who was signed in, and shows something else.
   * @param {() => Content} [standIn]
   */
  showInstead(standIn = loading) {
    this.#signedIn = null;
    this.#workspaces = [];
    this.#context = null;
    this.#shown = null;
    this.#standIn = standIn;
    this.#dialogs.discard();
    this.#notices.clear();
    this.#refresh();
  }

  /** @param {SignedIn} signedIn */
  #client(signedIn) {
    // What a member left running would go on with the cookie of the next one.
    /** @type {import("./api/client.js").Transport} */
    const transport = async (request) =>
      signedIn === this.#signedIn ? signedIn.transport(request) : new Response(null, { status: 401 });
    const onSignedOut = () => {
      if (signedIn === this.#signedIn) signedIn.leave();
    };
    return new Client(transport, this.#connection, onSignedOut);
  }

  /** Shows the screen of the address. */
  async #route() {
    if (this.#signedIn === null) return;
    const { hash } = location;
    const route = parseRoute(hash);
    const workspace = this.#workspaces.find(({ slug }) => slug === route.workspace);
    const entry = SCREENS[route.screen];
    if (!workspace || !entry) {
      this.#redirect(workspace ?? this.#workspaces[0], entry ? route.screen : FIRST_SCREEN);
      return;
    }
    const context = this.#context?.workspace === workspace ? this.#context : await this.#openWorkspace(workspace);
    // The address changed meanwhile, or the member left.
    if (location.hash !== hash || context === null) return;
    const isNew = context !== this.#context || this.#shown?.name !== route.screen;
    this.#context = context;
    if (isNew) {
      this.#dialogs.close();
      this.#shown = { name: route.screen, screen: this.#create(context, route.screen) };
      this.#isMenuOpen = false;
      document.title = `${entry.title} · ${workspace.name}`;
    }
    this.#shown?.screen.open(route);
    this.#render();
    if (isNew) this.#root.querySelector("h1")?.focus();
  }

  /**
   * @param {Workspace | undefined} workspace
   * @param {string} screen
   */
  #redirect(workspace, screen) {
    if (workspace) {
      location.replace(href({ workspace: workspace.slug, screen }));
      return;
    }
    const view = {
      symbol: /** @type {const} */ ("memories"),
      title: "No workspace",
      text: "Ask an administrator of your organisation to give you access to one.",
    };
    this.#standIn = () => html`<main class="alone">${empty(view)}</main>`;
    this.#refresh();
  }

  /**
   * Opens a workspace; returns `null` if the member leaves meanwhile.
   * @param {Workspace} workspace
   * @returns {Promise<Context | null>}
   */
  async #openWorkspace(workspace) {
    const signedIn = this.#signedIn;
    if (signedIn === null) return null;
    const { identity } = signedIn;
    const client = this.#client(signedIn);
    const operations = new Operations(client);
    const organization = new OrganizationOperations(client, signedIn.organization);
    const directory = new Directory(operations, organization);
    const [roles] = await Promise.all([identity && directory.workspaceRolesOf(identity.member.id), directory.load()]);
    if (signedIn !== this.#signedIn) return null;
    return {
      operations,
      organization,
      account: new AccountOperations(client),
      member: identity?.member ?? null,
      workspace,
      workspaces: this.#workspaces,
      access: new Access(identity, workspace.id, roles, directory),
      directory,
      dialogs: this.#dialogs,
      refresh: () => this.#refresh(),
      announce: (text) => this.#notices.announce(text),
    };
  }

  /**
   * Creates a screen; one that the caller may not see explains why.
   * @param {Context} context
   * @param {string} name
   * @returns {Screen}
   */
  #create(context, name) {
    const entry = SCREENS[name];
    if (entry && context.access.holds(entry.needs)) return new entry.Screen(context);
    const message = `missing permission ${entry?.needs}`;
    const error = new ApiError({ status: 403, code: "forbidden", message });
    return {
      open() {},
      render: () =>
        html`<h1 tabindex="-1">${entry?.title}</h1>
          ${problem(error)}`,
    };
  }

  /** Shows the page as it is now, once for all changes that are made together. */
  #refresh() {
    if (this.#isRefreshing) return;
    this.#isRefreshing = true;
    queueMicrotask(() => {
      this.#isRefreshing = false;
      this.#render();
      this.#dialogs.refresh();
    });
  }

  #render() {
    const [signedIn, context, shown] = [this.#signedIn, this.#context, this.#shown];
    const content =
      signedIn && context && shown
        ? shell({
            context,
            shown: shown.name,
            content: shown.screen.render(),
            isMenuOpen: this.#isMenuOpen,
            toggleMenu: () => {
              this.#isMenuOpen = !this.#isMenuOpen;
              this.#refresh();
            },
            signOut: signedIn.signOut,
          })
        : this.#standIn();
    render(html`${this.#connectionView()} ${content} ${this.#notices.render()}`, this.#root);
  }

  #connectionView() {
    return html`
      <div class="connection" role="status">
        ${
          this.#connection.isLost
            ? html`<p>
                The server cannot be reached. Trying again, nothing is lost.
                <button type="button" @click=${() => this.#connection.retryNow()}>Try now</button>
              </p>`
            : ""
        }
      </div>
    `;
  }
}
