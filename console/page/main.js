// Start of the page, over the network or the service inside the page.

import { networkTransport, Session } from "./api/client.js";
import { ApiError } from "./api/error.js";
import { App } from "./app.js";

/** Secret of a sign-in link, in a link or alone. */
const SECRET = /wkl_[\w-]+/;

const packageAddress = /** @type {HTMLMetaElement} */ (document.querySelector("meta[name=knowledge-package]")).content;

// Before the listener of the page, for which a link is no address.
addEventListener("hashchange", (event) => {
  const link = takeLink(event.oldURL);
  if (link === null) return;
  event.stopImmediatePropagation();
  enter(link);
});

const app = new App(
  /** @type {HTMLElement} */ (document.getElementById("page")),
  /** @type {HTMLDialogElement} */ (document.getElementById("dialog")),
);

/**
 * Opens the page for a member, or asks who it is.
 * @param {() => Promise<Session | null>} open
 */
async function signIn(open) {
  app.showInstead();
  try {
    const session = await open();
    if (session === null) askToSignIn(null);
    else start(session);
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) askToSignIn(error);
    else app.fail(error, () => signIn(open));
  }
}

/**
 * Opens the page for the member of this browser, or for the one of a link that was followed. A click
 * uses the link: programs that examine mail open links and run scripts, and others can make a
 * member follow a link of theirs, which replaces nobody unasked.
 * @param {string | null} link
 */
const enter = (link) =>
  signIn(async () => {
    const session = await Session.restore();
    if (link === null) return session;
    if (!(await app.askToUseLink(session?.identity.member.name ?? null))) return session;
    await session?.end();
    return Session.start(link);
  });

/** @param {Session} session */
function start(session) {
  app.start({
    transport: networkTransport(session),
    organization: session.identity.organization.slug,
    identity: session.identity,
    leave: () => askToSignIn(null),
    signOut: () => askToSignOut(session),
  });
}

/**
 * Signs the member out, who decides before whether what the session created ends too.
 * @param {Session} session
 */
async function askToSignOut(session) {
  const created = await session.creations();
  if (created.length === 0) await signOut(session, false);
  else app.askToSignOut(created, (withCreated) => signOut(session, withCreated));
}

/**
 * @param {Session} session
 * @param {boolean} withCreated
 */
async function signOut(session, withCreated) {
  try {
    await session.end(withCreated);
    askToSignIn(null);
  } catch (error) {
    app.fail(error, () => signOut(session, withCreated));
  }
}

/** @param {ApiError | null} error */
function askToSignIn(error) {
  app.askToSignIn(error, Session.provider(), (text) => signIn(() => Session.start(secretOf(text))));
}

/**
 * Returns the secret of the sign-in link that was followed, or `null`.
 * @param {string} [address] Address in its place: neither the history nor a bookmark keeps it.
 */
function takeLink(address = location.pathname) {
  if (!location.hash.startsWith("#/login/")) return null;
  const secret = secretOf(location.hash);
  history.replaceState(null, "", address);
  return secret;
}

/**
 * Returns the secret in a text that a member has entered, or the text if there is none.
 * @param {string} text
 */
const secretOf = (text) => SECRET.exec(text)?.[0] ?? text;

async function main() {
  if (packageAddress !== "") {
    const { openOffline } = await import("./api/offline.js");
    const { transport, organization } = await openOffline(new URL(packageAddress, location.href).href);
    app.start({ transport, organization, identity: null, leave() {}, signOut: null });
    return;
  }
  await enter(takeLink());
}

main().catch((error) => app.fail(error));
