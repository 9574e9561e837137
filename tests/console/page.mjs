// The console in Debian's Chromium: one page, with what every look at a screen checks.

import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const ASSETS = "functions/status/assets/console";
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const [WIDE, NARROW] = [{ width: 1280, height: 800 }, { width: 360, height: 740 }];
// A picture is for a page that people read over slow lines, too.
const LARGEST_PICTURE = 200_000;

// A module of the console without imports.
export const module = (name) => import(`data:text/javascript,${encodeURIComponent(readFileSync(`${ASSETS}/${name}`, "utf8"))}`);
export const source = (name) => readFileSync(`${ASSETS}/${name}`, "utf8");

const { TEXTS } = await module("texts.js");

// A text of the console in English.
export function say(key, values = {}) {
  return TEXTS[key][0].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

export async function open(api, storage) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
    ],
  });
  const context = await browser.newContext({ viewport: WIDE, locale: "en-US", colorScheme: "light", reducedMotion: "reduce" });
  // Debian's machines are slower than the default expects.
  context.setDefaultTimeout(60_000);
  await context.addInitScript(() => {
    globalThis.violations = [];
    document.addEventListener("securitypolicyviolation", (event) => globalThis.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`));
  });
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("request", (request) => {
    const isOurs = [api, storage].some((origin) => request.url().startsWith(`${origin}/`)) || /^(blob|data):/.test(request.url());
    if (!isOurs) faults.push(`asks ${request.url()}`);
  });
  return { browser, console: new Console(page, api, faults) };
}

class Console {
  constructor(page, api, faults) {
    Object.assign(this, { page, api, faults });
  }

  button(name) {
    return this.page.getByRole("button", { name, exact: true });
  }

  heading(name) {
    return this.page.getByRole("heading", { name, exact: true });
  }

  // The value beside a name, or one of this text once it is there.
  figure(name, text) {
    const only = (expected) => new RegExp(`^\\s*${expected.replace(/[^\w ]/g, "\\$&")}\\s*$`);
    const { page } = this;
    const values = page.locator("main dl > div").filter({ has: page.locator("dt", { hasText: only(name) }) }).locator("dd");
    return (text === undefined ? values : values.filter({ hasText: only(text) })).first();
  }

  async signIn(key) {
    await this.page.goto(`${this.api}/console`);
    await this.page.getByLabel(say("entry.key")).fill(key);
    await this.button(say("entry.do")).click();
  }

  async enter(key) {
    await this.signIn(key);
    await this.heading(say("nav.today")).waitFor();
  }

  // Goes to a screen as a link would, which keeps the key.
  async visit(hash, heading) {
    await this.page.evaluate((to) => (location.hash = to), hash);
    await this.heading(heading).waitFor();
  }

  async saved(button) {
    const [download] = await Promise.all([this.page.waitForEvent("download"), button.click()]);
    return readFileSync(await download.path(), "utf8");
  }

  // Fails if the policy refused something, or an error was not caught.
  async sound() {
    const violations = await this.page.evaluate(() => globalThis.violations);
    assert.deepEqual([...this.faults, ...violations], []);
  }

  async axe(where) {
    await this.sound();
    await this.page.evaluate(`${AXE}; undefined`);
    const { violations } = await this.page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    const found = violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html} ${node.failureSummary}`));
    assert.deepEqual(found, [], where);
    // What axe itself may have tried is no fault of the page.
    await this.page.evaluate(() => (globalThis.violations.length = 0));
  }

  // Looks at a screen in both themes and as a telephone shows it.
  async look(name) {
    const { page } = this;
    for (const colorScheme of ["dark", "light"]) {
      await page.emulateMedia({ colorScheme });
      await this.axe(`${name}, ${colorScheme}`);
    }
    await page.setViewportSize(NARROW);
    const [content, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
    assert.ok(content <= seen, `${name} scrolls sideways: ${content} of ${seen}`);
    await this.axe(`${name}, narrow`);
    await page.setViewportSize(WIDE);
  }

  // Writes a picture for the documentation, if pictures are asked for.
  async picture(name, { narrow = false, dark = false } = {}) {
    if (!process.env.UPDATE_PICTURES) return;
    const { page } = this;
    await page.emulateMedia({ colorScheme: dark ? "dark" : "light" });
    await page.setViewportSize(narrow ? NARROW : WIDE);
    await page.evaluate(() => globalThis.scrollTo(0, 0));
    const path = `docs/images/console-${name}.png`;
    await page.screenshot({ path, animations: "disabled" });
    assert.ok(statSync(path).size < LARGEST_PICTURE, path);
    await page.setViewportSize(WIDE);
    await page.emulateMedia({ colorScheme: "light" });
  }

  focused() {
    return this.page.evaluate(() => document.activeElement.textContent.trim());
  }

  // Presses a key until the focus is on an element of that text.
  async press(key, name) {
    for (let pressed = 0; pressed < 400; pressed += 1) {
      await this.page.keyboard.press(key);
      if ((await this.focused()) === name) return;
    }
    assert.fail(`${key} never comes to ${name}`);
  }
}
