// Drives the console against the stack that this runs in, as its users do.

import assert from "node:assert/strict";
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { readdirSync } from "node:fs";
import { module, open, say, source } from "./page.mjs";

const [api, storage] = [process.env.API, process.env.AWS_ENDPOINT_URL];
const [ALL, READS] = ["local-dev-key-a", "local-readonly-key"];
const [QUEUE, LOAD_QUEUE] = ["DEV.QUEUE.2", "DEV.QUEUE.3"];
const FINAL = ["COMPLETED", "PARTIAL_FAIL", "FAILED"];

let driven = null;
async function that(name, work) {
  const begun = Date.now();
  try {
    await work();
  } catch (error) {
    await driven?.screenshot({ path: ".local/console-failed.png", fullPage: true }).catch(() => {});
    console.error(`FAILED: ${name}${driven ? " (.local/console-failed.png)" : ""}`);
    throw error;
  }
  console.log(`  ${((Date.now() - begun) / 1000).toFixed(1).padStart(5)} s  ${name}`);
}

// Beside other tests, a queue has their messages too, and there is no time for what takes long.
const alone = process.argv[2] === "beside" ? async () => {} : that;

// What the page does not do is done here.
async function ask(path, body, key = randomUUID()) {
  const response = await fetch(`${api}${path}`, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "x-api-key": ALL, "content-type": "application/json", "idempotency-key": key },
  });
  assert.ok(response.ok, `${path}: ${response.status} ${await response.clone().text()}`);
  return response.json();
}

const at = (queue) => ({ targetRef: "local-rabbit", target: { queue } });

async function empty(queue) {
  while ((await ask("/messages/consume", { ...at(queue), maxMessages: 10_000, waitSeconds: 0 })).count > 0);
}

// A CNPJ that nobody has loaded.
function cnpj() {
  const digits = [...randomBytes(12)].map((byte) => byte % 10);
  for (const first of [5, 6]) {
    const weights = digits.map((_, index) => ((first - index + 7 * 8 - 2) % 8) + 2);
    const sum = digits.reduce((total, digit, index) => total + digit * weights[index], 0) % 11;
    digits.push(sum < 2 ? 0 : 11 - sum);
  }
  return digits.join("");
}

const product = (owner, id, title) => ({ CNPJ: owner, SHOPID: 1, PRODUCTID: String(id), TITLE: title, PRICE: "1.50" });

await that("both languages have every text, and no text is missing", async () => {
  const { TEXTS } = await module("texts.js");
  const places = (text) => [...text.matchAll(/\{\w+\}/g)].map(String).sort();
  for (const [key, texts] of Object.entries(TEXTS)) {
    assert.equal(texts.length, 2, key);
    assert.ok(texts.every((text) => text.trim()), key);
    assert.deepEqual(places(texts[0]), places(texts[1]), key);
  }
  const modules = readdirSync("functions/status/assets/console").filter((name) => name.endsWith(".js") && name !== "texts.js");
  for (const name of modules) {
    for (const [, key] of source(name).matchAll(/\bt\("([^"]+)"/g)) assert.ok(TEXTS[key], `${name} says ${key}`);
  }
});

await that("a file is hashed slice by slice", async () => {
  const { sha256 } = await module("sha256.js");
  for (const size of [0, 3, 55, 56, 63, 64, 1_048_575, 1_048_576, 1_048_577]) {
    const bytes = randomBytes(size);
    const done = [];
    const hash = await sha256(new Blob([bytes]), { progress: (count) => done.push(count) });
    assert.equal(hash, createHash("sha256").update(bytes).digest("hex"), `${size} bytes`);
    assert.equal(done.at(-1), size);
  }
  const stopped = sha256(new Blob(["a"]), { signal: AbortSignal.abort() });
  await assert.rejects(stopped, { name: "AbortError" });
});

const { browser, console: shown } = await open(api, storage);
const { page } = shown;
driven = page;

await that("bodies are indented as they were written", async () => {
  await page.goto(`${api}/console`);
  const [json, xml, bytes, deep, year] = await page.evaluate(async () => {
    const { dump, prettyJson, prettyXml } = await import(new URL("console/bodies.js", location.href).href);
    const { time } = await import(new URL("console/parts.js", location.href).href);
    const [levels, times] = [prettyJson(`${"[".repeat(20_000)}1${"]".repeat(20_000)}`).length, time("253402300801")];
    return [prettyJson('{"n":12345678901234567890,"e":{},"l":[1]}'), prettyXml("<a><b>1</b></a>"), dump(new Uint8Array([0, 65])), levels, times];
  });
  assert.equal(json, '{\n  "n": 12345678901234567890,\n  "e": {},\n  "l": [\n    1\n  ]\n}');
  assert.equal(xml, "<a>\n  <b>1</b>\n</a>");
  assert.match(bytes, /^00000000 {2}00 41 +\.A$/);
  assert.ok(deep < 5_000_000, `${deep} characters`);
  assert.equal(year, "253402300801", "a time of AMQP after the year 9999");
});

await that("a wrong key is refused, and says why", async () => {
  await shown.signIn("no-such-key");
  const alert = page.getByRole("alert");
  await alert.getByText("API_KEY_INVALID").waitFor();
  assert.match(await alert.innerText(), /trace id/);
  await shown.look("entry");
});

await that("a key without a scope sees what it may not", async () => {
  await shown.enter(READS);
  await shown.visit("#/tests", say("nav.tests"));
  await page.getByText(say("state.forbidden")).waitFor();
  await page.getByText("SCOPE_REQUIRED").first().waitFor();
  await shown.look("forbidden");
  await shown.visit(`#/requests/tests/${randomUUID()}`, say("nav.requests"));
  await page.getByText("SCOPE_REQUIRED").first().waitFor();
  await shown.button(say("entry.leave")).click();
  await shown.heading(say("entry.title")).waitFor();
});

await that("what cannot be read leaves no section of the first screen empty", async () => {
  const answers = (of, answer) => page.route(of, (route) => route.fulfill({ contentType: "application/json", ...answer }));
  await answers("**/v1/inovafarma/batches?*", { status: 403, body: JSON.stringify({ title: "No", reason: "SCOPE_REQUIRED" }) });
  await shown.enter(READS);
  await page.getByText("SCOPE_REQUIRED").waitFor();
  assert.equal(await page.getByText(say("state.forbidden")).count(), 3);
  await answers("**/tests?*", { status: 200, body: "<p>Welcome</p>" });
  await shown.visit("#/tests", say("nav.tests"));
  await page.getByText(say("state.unshown")).waitFor();
  await shown.sound();
  await page.unrouteAll();
  await shown.button(say("entry.leave")).click();
  await shown.heading(say("entry.title")).waitFor();
});

await that("the language is chosen, and the key is forgotten with the page", async () => {
  await shown.enter(ALL);
  await page.getByLabel(say("language"), { exact: true }).selectOption("pt");
  await shown.heading("Hoje").waitFor();
  const { language, focused, kept } = await page.evaluate(() => ({
    language: document.documentElement.lang,
    focused: document.activeElement.id,
    kept: [Object.keys(localStorage), sessionStorage.length, document.cookie],
  }));
  assert.deepEqual([language, focused, kept], ["pt", "language", [["console.language"], 0, ""]]);
  await shown.axe("Portuguese");
  await page.reload();
  await shown.heading("Entrar").waitFor();
  await page.getByLabel("Idioma", { exact: true }).selectOption("en");
  await shown.heading(say("entry.title")).waitFor();
});

await that("a theme is chosen against the system's", async () => {
  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await background();
  await page.getByLabel(say("theme"), { exact: true }).selectOption("dark");
  assert.notEqual(await background(), light);
  await page.getByLabel(say("theme"), { exact: true }).selectOption("system");
  assert.equal(await background(), light);
});

await that("a catalogue that is dropped is followed to its end, with its errors", async () => {
  const owner = cnpj();
  const items = [...Array(50).keys()].map((id) => product(owner, id, `Dipirona ${id}`));
  items[7].CNPJ = "11444777000160";
  await shown.enter(ALL);
  await shown.visit("#/batches", say("nav.batches"));
  await page.getByText(say("batches.none")).or(page.getByRole("table", { name: say("batches.caption") })).first().waitFor();
  await shown.look("batches");
  const dropped = await page.evaluateHandle((text) => {
    const data = new DataTransfer();
    data.items.add(new File([text], "catalogue.json", { type: "application/json" }));
    return data;
  }, JSON.stringify(items));
  await page.dispatchEvent(".drop", "drop", { dataTransfer: dropped });
  await shown.button(say("send.do")).click();
  await page.getByRole("link", { name: say("send.follow") }).click();
  await page.locator("main .lead").getByText(say("status.COMPLETED")).waitFor();
  await page.getByText("CNPJ_INVALID").first().waitFor();
  assert.equal(await shown.figure(say("batch.items")).innerText(), "50");
  assert.equal(await shown.figure(say("batch.failed")).innerText(), "1");
  await shown.look("batch");
  await shown.picture("batch");
  const lines = (await shown.saved(shown.button(say("errors.download")))).trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(lines.map(({ item_index: index, code }) => [index, code]), [[7, "CNPJ_INVALID"]]);
});

await that("a replay says what it will do, and does nothing before it is confirmed", async () => {
  await page.getByLabel(say("replay.all"), { exact: true }).check();
  await shown.button(say("replay.do")).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(say("replay.all.does", { items: "50" })).waitFor();
  await shown.axe("question");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.equal(await shown.focused(), say("replay.do"));
  assert.equal(await shown.figure(say("batch.generation")).innerText(), "1");
  await shown.button(say("replay.do")).click();
  await dialog.getByRole("button", { name: say("replay.do") }).click();
  await shown.figure(say("batch.generation"), "2").waitFor();
});

await alone("a large catalogue is uploaded", async () => {
  const owner = cnpj();
  const items = [...Array(60).keys()].map((id) => product(owner, id, randomBytes(90_000).toString("base64")));
  const buffer = Buffer.from(items.map((item) => `${JSON.stringify(item)}\n`).join(""));
  const announced = page.waitForRequest((request) => request.url().endsWith("/products/uploads"));
  await shown.visit("#/batches", say("nav.batches"));
  await page.getByLabel(say("send.file")).setInputFiles({ name: "large.ndjson", mimeType: "", buffer });
  await shown.button(say("send.do")).click();
  assert.equal((await announced).postDataJSON().content_type, "application/x-ndjson");
  await page.getByRole("link", { name: say("send.follow") }).click();
  await page.locator("main .lead").getByText(new RegExp(FINAL.map((name) => say(`status.${name}`)).join("|"))).waitFor();
  await shown.sound();
});

await that("usage is drawn as bars where there is some", async () => {
  const period = new Date().toISOString().slice(0, 10);
  const counts = { operation: "produce", requests: 12, failed: 1, messages: 300, bytes: 12_345, replays: 0, refused: 0 };
  const used = { tenant: "t", key: "till 1", period, operations: [counts], ingest: null, amount: null };
  const answers = async (status, usage) => {
    const body = JSON.stringify({ from: period, to: period, group: "day", complete: false, countedUntil: null, approximate: [], currency: null, usage });
    await page.unrouteAll();
    await page.route("**/v1/usage?*", (route) => route.fulfill({ status, contentType: "application/json", body }));
    await shown.visit("#/queues", say("nav.queues"));
    await shown.visit("#/today", say("nav.today"));
  };
  const table = page.getByRole("table", { name: say("today.usage.caption") });
  await answers(200, [used]);
  await table.getByText("12.3 kB").waitFor();
  assert.equal(await table.getByRole("row").count(), 1 + 7);
  assert.equal(await table.getByRole("progressbar").last().getAttribute("value"), "12");
  await page.getByText(say("today.usage.incomplete")).waitFor();
  await shown.look("usage");
  for (const [status, usage] of [[200, []], [403, []], [404, []]]) {
    await answers(status, usage);
    await page.getByRole("table", { name: say("today.dependencies.caption") }).waitFor();
    assert.equal(await page.getByRole("heading", { name: say("today.usage"), exact: true }).count(), 0, `${status}`);
  }
  await page.unrouteAll();
});

await that("today says what needs somebody, and what to do", async () => {
  await shown.visit("#/today", say("nav.today"));
  const table = page.getByRole("table", { name: say("today.needs.caption") });
  await table.getByRole("link", { name: say("need.partial.do") }).first().waitFor();
  await page.getByRole("table", { name: say("today.dependencies.caption") }).getByText(say("dependency.database")).waitFor();
  await page.getByText(say("today.unlimited")).or(page.getByRole("table", { name: say("today.limits.caption") })).first().waitFor();
  await shown.look("today");
  await shown.picture("today");
  await shown.picture("telephone", { narrow: true, dark: true });
});

await alone("a message is put, browsed as it is, and counted", async () => {
  await empty(QUEUE);
  await shown.visit("#/queues", say("nav.queues"));
  const target = page.getByRole("region", { name: "local-rabbit", exact: true });
  await target.getByLabel(say("queue.other")).fill(QUEUE);
  await shown.look("queues");
  await target.getByRole("button", { name: say("action.open") }).click();
  await page.getByLabel(say("put.body")).first().fill('{"html":"<img src=x onerror=alert(1)>","n":12345678901234567890}');
  await page.getByLabel(say("put.type")).fill("application/json");
  await page.getByLabel(say("put.headers")).fill("kind: order");
  await shown.button(say("put.do")).click();
  await page.getByText(say("put.done")).waitFor();
  await shown.figure(say("queue.depth"), "1").waitFor();
  await shown.button(say("browse.do")).click();
  await page.locator("details.message > summary").click();
  const body = (text) => page.locator("details.message pre", { hasText: text });
  await body('"n": 12345678901234567890').waitFor();
  await page.getByText(say("message.properties"), { exact: true }).click();
  await page.getByText("headers.kind").waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  await shown.look("queue");
  await shown.picture("queue");
  await page.getByLabel(say("body.as")).selectOption("hex");
  await body("7b 22 68 74 6d 6c").waitFor();
});

await alone("a move shows its plan first, and nothing is moved by it", async () => {
  await page.getByLabel(say("move.to")).selectOption("queue");
  await page.getByLabel(say("move.name")).fill(LOAD_QUEUE);
  await shown.button(say("move.preview")).click();
  await page.getByText(say("move.would")).waitFor();
  await shown.button(say("move.do", { count: "1" })).waitFor();
  await shown.axe("plan");
  await page.getByLabel(say("move.max")).fill("2");
  await shown.button(say("move.do", { count: "1" })).waitFor({ state: "detached" });
  assert.equal((await ask("/queue/depth", at(QUEUE))).currentDepth, 1);
});

await alone("messages are taken after it was asked twice", async () => {
  const dialog = page.getByRole("dialog");
  await shown.button(say("take.do")).click();
  await dialog.getByRole("button", { name: say("action.continue") }).click();
  const take = dialog.getByRole("button", { name: say("take.do"), exact: true });
  assert.ok(await take.isDisabled());
  await dialog.getByRole("button", { name: say("action.cancel") }).click();
  await page.getByText(say("take.not")).waitFor();
  assert.equal((await ask("/queue/depth", at(QUEUE))).currentDepth, 1);
  await shown.button(say("take.do")).click();
  await dialog.getByRole("button", { name: say("action.continue") }).click();
  await dialog.getByRole("textbox").fill(QUEUE);
  await shown.axe("second question");
  await take.click();
  await shown.figure(say("queue.depth"), "0").waitFor();
});

await alone("a connection is tested step by step", async () => {
  await shown.button(say("connection.do")).click();
  await page.getByText(say("connection.good"), { exact: false }).first().waitFor();
  assert.equal(await page.locator("ol.steps > li").count(), 5);
  await shown.axe("connection");
});

await that("what goes wrong is shown with its reason", async () => {
  await shown.visit("#/queues/local-rabbit/NO.SUCH.QUEUE", "NO.SUCH.QUEUE local-rabbit");
  await page.getByRole("alert").getByText("QUEUE_NOT_FOUND").first().waitFor();
  await shown.axe("failed");
});

await that("what happened to a request is found by its key", async () => {
  const key = randomUUID();
  await ask("/messages/produce", { ...at(LOAD_QUEUE), messages: [{ bodyText: "1" }] }, key);
  await shown.visit("#/requests", say("nav.requests"));
  await page.getByText(say("request.empty")).waitFor();
  await page.getByLabel(say("request.key"), { exact: true }).fill(key);
  await shown.button(say("request.do")).click();
  await page.locator("main .lead").getByText(say("status.COMPLETED")).waitFor();
  await page.getByText("HTTP 201").waitFor();
  await page.locator("ol.steps").getByText(say("request.replays")).waitFor();
  assert.equal(await shown.focused(), say("nav.requests"));
  await shown.look("request");
  await page.getByLabel(say("request.operation"), { exact: true }).selectOption("consume");
  await shown.button(say("request.do")).click();
  await page.getByText(say("request.none.why")).waitFor();
  await shown.axe("no request");
  const failed = { status: 503, contentType: "application/json", body: JSON.stringify({ title: "No", reason: "STORE_UNAVAILABLE" }) };
  await page.route("**/v1/requests/**", (route) => route.fulfill(failed));
  await shown.button(say("request.do")).click();
  await page.getByRole("alert").getByText("STORE_UNAVAILABLE").waitFor();
  await page.unrouteAll();
});

async function startTest(seconds) {
  await shown.visit("#/tests/new", say("test.new"));
  await page.getByLabel(say("test.profile")).selectOption("local-rabbit");
  await page.getByLabel(say("queue"), { exact: true }).fill(LOAD_QUEUE);
  await page.getByLabel(say("test.rate"), { exact: true }).fill("50");
  await page.getByLabel(say("test.seconds"), { exact: true }).fill(String(seconds));
}

await alone("a load test is started, watched to its end, and kept", async () => {
  await empty(LOAD_QUEUE);
  await startTest(3);
  await shown.look("new test");
  await shown.button(say("test.start")).click();
  await page.locator("main .lead").getByText(say("status.COMPLETED")).waitFor({ timeout: 180_000 });
  assert.equal(await shown.figure(say("account.due")).innerText(), "150");
  await shown.look("test");
  await shown.picture("test");
  assert.match(await shown.saved(shown.button(say("test.report"))), /<html/i);
});

await alone("a load test is stopped after it was asked, and two are compared", async () => {
  const first = await page.evaluate(() => location.hash);
  await startTest(60);
  await shown.button(say("test.start")).click();
  await shown.button(say("test.stop")).click();
  await page.getByRole("dialog").getByRole("button", { name: say("test.stop") }).click();
  const ended = new RegExp(`${say("status.STOPPED")}|${say("status.COMPLETED")}`);
  await page.locator("main .lead").getByText(ended).waitFor({ timeout: 180_000 });
  await page.evaluate((to) => (location.hash = to), first);
  await shown.button(say("compare.do")).click();
  await page.getByRole("table", { name: say("compare.caption") }).or(page.getByText(say("compare.impossible"))).or(page.getByRole("alert")).first().waitFor();
  await shown.axe("comparison");
  await shown.visit("#/tests", say("nav.tests"));
  await page.getByRole("table", { name: say("test.list") }).waitFor();
  await shown.look("tests");
});

await that("the keyboard alone comes everywhere", async () => {
  await page.goto(`${api}/console`);
  await page.reload();
  await shown.heading(say("entry.title")).waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.type(ALL);
  await page.keyboard.press("Enter");
  await shown.heading(say("nav.today")).waitFor();
  assert.equal(await shown.focused(), say("nav.today"));
  await shown.press("Shift+Tab", say("nav.queues"));
  await page.keyboard.press("Enter");
  await shown.heading(say("nav.queues")).waitFor();
  assert.equal(await shown.focused(), say("nav.queues"));
  await shown.press("Tab", "DEV.QUEUE.1");
  await page.keyboard.press("Enter");
  await shown.button(say("browse.do")).waitFor();
  await shown.press("Tab", say("browse.do"));
  await page.keyboard.press("Enter");
  await page.getByText(say("message.none")).or(page.locator("details.message")).first().waitFor();
  assert.equal(await shown.focused(), say("browse.do"));
  await shown.press("Shift+Tab", say("nav.skip"));
  await page.keyboard.press("Enter");
  assert.match(await shown.focused(), /^DEV\.QUEUE\.1/);
  await shown.sound();
});

await browser.close();
