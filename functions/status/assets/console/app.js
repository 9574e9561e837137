// The frame: who is signed in, which screen is shown, language and theme.

import { get, isSignedIn, signIn, signOut } from "./api.js";
import * as batches from "./batches.js";
import { h, swap } from "./dom.js";
import { attempt, field } from "./parts.js";
import * as queues from "./queues.js";
import * as requests from "./requests.js";
import * as tests from "./tests.js";
import { LANGUAGES, language, remember, remembered, setLanguage, t } from "./texts.js";
import { today } from "./today.js";

const SCREENS = ["today", "batches", "queues", "tests", "requests"];
const THEMES = ["system", "light", "dark"];

let stop = null;

// The parts of the address behind the `#`, which people type, too.
function parts() {
  return location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
}

// The screen of an address, as a function of the place where it shows itself.
function screen([name, first, second]) {
  if (name === "batches") return first ? (main) => batches.detail(main, first) : batches.list;
  if (name === "queues") return first && second ? (main) => queues.detail(main, first, second) : queues.list;
  if (name === "tests" && first === "new") return tests.start;
  if (name === "tests") return first ? (main) => tests.detail(main, first) : tests.list;
  if (name === "requests") return (main) => requests.show(main, first, second);
  return today;
}

function entry(main) {
  // Other characters cannot be sent, and would look like a connection that failed.
  const input = h("input", { type: "password", required: true, pattern: "\\s*[!-~]+\\s*", autocomplete: "off", spellcheck: "false" });
  const button = h("button.primary", { type: "submit" }, t("entry.do"));
  const place = h("div");
  const form = h("form", {}, field(t("entry.key"), input, t("entry.hint")), h("div.actions", {}, button), place);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.hasAttribute("aria-busy")) return undefined;
    signIn(input.value.trim());
    // Any key may, and it is free of charge.
    const works = await attempt(button, place, () => get("limits"));
    if (!works) signOut();
    // Who went to another screen meanwhile gets the form again, without what went wrong.
    return works || !form.isConnected ? show() : undefined;
  });
  main.append(h("h1", { tabindex: "-1" }, t("entry.title")), h("p", {}, t("entry.what")), form);
}

function theme() {
  const chosen = remembered("theme");
  return THEMES.includes(chosen) ? chosen : "system";
}

function apply() {
  document.documentElement.lang = language();
  document.documentElement.dataset.theme = theme();
}

function frame() {
  const [first] = parts();
  const here = SCREENS.includes(first) ? first : "today";
  const nav = isSignedIn() && h("nav", { "aria-label": t("nav") }, h("ul", {}, SCREENS.map((name) =>
    h("li", {}, h("a", { href: `#/${name}`, "aria-current": here === name ? "page" : null }, t(`nav.${name}`))))));
  const languages = h("select", { "aria-label": t("language"), id: "language" }, LANGUAGES.map(([value, name]) =>
    h("option", { value, lang: value, selected: value === language() }, name)));
  languages.addEventListener("change", () => {
    setLanguage(languages.value);
    show("language");
  });
  const themes = h("select", { "aria-label": t("theme"), id: "theme" }, THEMES.map((value) => h("option", { value, selected: value === theme() }, t(`theme.${value}`))));
  themes.addEventListener("change", () => {
    remember("theme", themes.value);
    apply();
  });
  const leave = isSignedIn() && h("button.quiet", { type: "button", onclick: end }, t("entry.leave"));
  swap(
    document.querySelector("header"),
    h("a.skip", { href: "#main", onclick: skip }, t("nav.skip")),
    h("p.brand", {}, "IntegraHub"),
    nav,
    h("div.settings", {}, languages, themes, leave),
  );
  swap(document.querySelector("footer"), h("p", {}, h("a", { href: "docs" }, t("footer.docs")), " · ", t("footer.key")));
}

function skip(event) {
  event.preventDefault();
  document.querySelector("h1")?.focus();
}

function end() {
  signOut();
  show();
}

// Shows the screen of the address. The focus goes to its heading, or stays at a setting.
function show(focused) {
  stop?.();
  stop = null;
  apply();
  frame();
  const main = document.querySelector("main");
  main.replaceChildren();
  for (const dialog of document.querySelectorAll("dialog")) dialog.remove();
  stop = (isSignedIn() ? screen(parts()) : entry)(main) ?? null;
  const heading = main.querySelector("h1");
  document.title = `${heading.textContent} · IntegraHub`;
  const place = typeof focused === "string" ? document.getElementById(focused) : heading;
  place.focus();
  globalThis.scrollTo(0, 0);
}

// A file that is dropped beside its place would replace the page, and the key with it.
for (const name of ["dragover", "drop"]) {
  globalThis.addEventListener(name, (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });
}

globalThis.addEventListener("hashchange", show);
show();
