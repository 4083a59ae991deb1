// Start of the page, over the network or over the service inside the page.

import { networkTransport } from "./api/client.js";
import { App } from "./app.js";
import { Session } from "./session.js";

const packageAddress = /** @type {HTMLMetaElement} */ (document.querySelector("meta[name=knowledge-package]")).content;
const app = new App(
  /** @type {HTMLElement} */ (document.getElementById("page")),
  /** @type {HTMLDialogElement} */ (document.getElementById("dialog")),
);

/** @param {Session} session */
function signIn(session) {
  const { organization } = session;
  app.start({ transport: networkTransport(session), organization, signOut: () => signOut(session) });
}

/** @param {Session | null} session */
function signOut(session) {
  session?.end();
  app.askToSignIn((credentials) => signIn(Session.start(credentials)));
}

async function main() {
  if (packageAddress === "") {
    const session = Session.restore();
    if (session) signIn(session);
    else signOut(null);
    return;
  }
  const { openOffline } = await import("./api/offline.js");
  const { transport, organization } = await openOffline(new URL(packageAddress, location.href).href);
  app.start({ transport, organization, signOut: null });
}

main().catch((error) => app.fail(error));
