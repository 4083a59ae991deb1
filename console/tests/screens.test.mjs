// Tests of each screen: accessible, within its window and its policy, in all widths and schemes.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";

import { findViolations, openPage, overflows, settled, signIn } from "./support/browser.mjs";
import { WORKSPACE } from "./support/demo.mjs";
import { useSite } from "./support/site.mjs";

/** Directory for pictures of the screens, for people to look at; none are taken without it. */
const PICTURES = process.env.CONSOLE_PICTURES;
const WIDTHS = [360, 768, 1280, 1920];
const SCHEMES = /** @type {const} */ (["light", "dark"]);
const SCREENS = [
  "dashboard",
  "memories",
  "review",
  "import",
  "webhooks",
  "keys",
  "members",
  "roles",
  "audit",
  "account",
];

const site = useSite();

before(() => {
  if (PICTURES) mkdirSync(PICTURES, { recursive: true });
});

/**
 * Returns what is wrong with a page once it has settled.
 * @param {import("playwright-core").Page} page
 * @param {string} name
 */
async function problemsOf(page, name) {
  const violations = await findViolations(page);
  if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}.png`) });
  if (await overflows(page)) violations.push("wider than its window");
  return violations.map((violation) => `${name}: ${violation}`);
}

for (const width of WIDTHS) {
  for (const scheme of SCHEMES) {
    test(`screens are accessible at ${width} px, ${scheme}`, async () => {
      const { page, close } = await openPage(site.current.browser, { width, scheme });
      /** @type {string[]} */
      const problems = [];
      await page.goto(site.current.url);
      problems.push(...(await problemsOf(page, `${width}-${scheme}-sign-in`)));
      await signIn(page, site.current.demo.link());
      for (const screen of SCREENS) {
        await page.goto(`${site.current.url}#/${WORKSPACE}/${screen}`);
        problems.push(...(await problemsOf(page, `${width}-${scheme}-${screen}`)));
      }
      await page.goto(`${site.current.url}#/${WORKSPACE}/memories`);
      await settled(page);
      await page.locator("tbody a").first().click();
      await page.locator(".memory").waitFor();
      problems.push(...(await problemsOf(page, `${width}-${scheme}-memory`)));
      await page.keyboard.press("Escape");
      await page.getByLabel("Select all that are shown").check();
      problems.push(...(await problemsOf(page, `${width}-${scheme}-selection`)));
      await page.getByRole("button", { name: "Relabel" }).click();
      await page.getByRole("dialog").getByLabel("Sensitivity").selectOption("restricted");
      problems.push(...(await problemsOf(page, `${width}-${scheme}-relabel`)));
      assert.deepEqual(problems, []);
      await close();
    });
  }
}
