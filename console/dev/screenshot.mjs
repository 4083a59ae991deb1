// Saves a picture of the dashboard of a demo as docs/console.png: node dev/screenshot.mjs

import { fileURLToPath } from "node:url";

import { launch, openPage, settled, signIn } from "../tests/support/browser.mjs";
import { startDemo } from "../tests/support/demo.mjs";

const PICTURE = fileURLToPath(new URL("../../docs/console.png", import.meta.url));
const MEMORIES = 10_000;

const demo = await startDemo(MEMORIES);
const browser = await launch();
const { page, close } = await openPage(browser);
await signIn(page, demo.link());
await settled(page);
await page.screenshot({ path: PICTURE });
await close();
await browser.close();
await demo.stop();
console.log(PICTURE);
