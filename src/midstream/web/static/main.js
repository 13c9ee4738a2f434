// The frame: who is there, which screens they have, and which one the address names (#/name/…).

import { h, replace } from "./dom.js";
import { ahead, call, enter, enterWithKey, gone, onLost, Gone, KEPT, Refused } from "./api.js";

const SCREENS = {
  conversations: { label: "Conversations", first: "conversations?offset=0&limit=200", load: () => import("./conversations.js") },
  live: { label: "Live", keeps: true, load: () => import("./live.js") },
  talk: { label: "Talk", keeps: true, load: () => import("./talk.js") },
  doctor: { label: "Doctor", keeps: true, load: () => import("./doctor.js") },
  usage: { label: "Usage", load: () => import("./usage.js") },
  models: { label: "Models", load: () => import("./models.js") },
};
// A screen that `keeps` holds what somebody typed, dropped or opened: it is not drawn anew behind their back.
const INNER = { c: { under: "conversations", load: () => import("./conversation.js") }, wires: { under: "conversations", load: () => import("./wires.js") } };

const PATIENCE = 80;

const main = h("main", { id: "main", tabindex: "-1" });
const nav = h("nav", { "aria-label": "Screens" });
const notice = h("div.notice", { role: "alert", hidden: true });
const places = new Map();
let leave = () => {};
let drawn;
let shown = 0;
let here = 0;
let failed = "";
let trying = false;

function frame(me) {
  replace(nav, me.screens.map((name) => h("a", { href: `#/${name}`, "data-screen": name }, SCREENS[name].label)));
  replace(document.body,
    h("a.skip", { href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "Skip to the content"),
    h("header.top", h("a.brand", { href: `#/${me.screens[0]}` }, mark(), h("span", me.title)), nav, themeButton()),
    notice, main);
}

function mark() {
  return h("img.mark", { src: "/web/icon.svg", alt: "", width: "26", height: "26" });
}

function themeButton() {
  const names = { auto: "Auto", light: "Light", dark: "Dark" };
  const set = (name) => {
    if (name === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", name);
    localStorage.setItem("midstream-theme", name);
    button.textContent = names[name];
    button.setAttribute("aria-label", `Colours: ${names[name]}`);
  };
  const button = h("button.theme", { type: "button", title: "Light or dark", onclick: () => {
    const all = Object.keys(names);
    set(all[(all.indexOf(localStorage.getItem("midstream-theme") || "auto") + 1) % all.length]);
  } });
  set(localStorage.getItem("midstream-theme") || "auto");
  return button;
}

/** A part of the address; one that was cut in the middle of a sign is taken as it is. */
function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

/** Remember what was in sight of the screen that is left, and which row had the focus. If the one that comes was here before, Back
 * leads to the same place: `seen` is the turn that was at the top, for a screen that finds it by itself. */
function place() {
  const sheet = () => main.querySelector(".windowed, .sheet");
  if (here) places.set(here, { top: scrollY, sheet: sheet()?.scrollTop || 0, key: document.activeElement?.dataset.key, seen: topTurn() });
  here = history.state?.number || Date.now() + Math.random();
  history.replaceState({ number: here }, "");
  const known = places.get(here);
  return { seen: known?.seen, restore: () => {
    if (known) requestAnimationFrame(() => {
      if (!known.seen) window.scrollTo(0, known.top);
      if (sheet()) sheet().scrollTop = known.sheet;
      if (known.key) refocus(known.key, 20);
    });
  } };
}

/** Back to the row from which somebody left, once it is drawn. */
function refocus(key, frames) {
  if (document.activeElement !== main) return;
  const row = main.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (row) row.focus({ preventScroll: true });
  else if (frames) requestAnimationFrame(() => refocus(key, frames - 1));
}

function topTurn() {
  const node = scrollY > 0 && [...main.querySelectorAll(".chunks .turn")].find((each) => each.getBoundingClientRect().bottom > 60);
  return node ? { turn: Number(node.id.slice(5)), top: node.getBoundingClientRect().top } : null;
}

async function show(me) {
  const [path, asked = ""] = (location.hash.replace(/^#\/?/, "") || me.screens[0]).split("?");
  const [name, ...rest] = path.split("/").map(decoded);
  const current = Object.hasOwn(INNER, name) ? INNER[name].under : me.screens.includes(name) ? name : me.screens[0];
  const screen = Object.hasOwn(INNER, name) ? INNER[name] : SCREENS[current];
  const { seen, restore } = place();
  if (drawn === screen && leave.to) return leave.to(rest);  // another place of the screen that is in sight
  drawn = screen;
  const number = ++shown;
  failed = "";
  if (!trying) notice.hidden = true;  // what it says is about the screen that is left
  leave();
  leave = () => {};
  for (const link of nav.children) {
    if (link.dataset.screen === current) { link.setAttribute("aria-current", "page"); nav.scrollLeft = link.offsetLeft - nav.offsetLeft - 40; }
    else link.removeAttribute("aria-current");
  }
  try {
    const module = await screen.load().catch((error) => { throw gone(error); });
    if (number !== shown) return;
    const holder = h("div.screen");
    replace(main, holder);
    window.scrollTo(0, 0);
    // What had the focus is gone with its screen; the next Tab begins in this one, also while it is on its way.
    if (number > 1 && document.activeElement === document.body) main.focus({ preventScroll: true });
    const end = (await module.open(holder, { me, rest, query: new URLSearchParams(asked), seen, isOpen: () => number === shown })) || (() => {});
    // Somebody may have gone on before it was all there: what is in sight now belongs to another screen.
    if (number !== shown) return end();
    leave = end;
    const heading = holder.querySelector("h1");
    title(heading?.dataset.title || heading?.textContent || screen.label, me);
    restore();
  } catch (error) {
    if (number !== shown) return;
    if (error instanceof Gone) { failed = "whole"; return replace(main, h("div.screen", h("h1.unseen", SCREENS[current].label), h("p.empty", "This screen is drawn as soon as midstream answers."))); }
    if (error instanceof Refused && error.status === 401) return closed(error.message);
    const words = error instanceof Refused && error.status === 404 ? "Nothing is here" : "That did not work";
    title(words, me);
    replace(main, h("div.screen", h("div.fault", { role: "alert" }, h("h1", words), h("p", error.message)), h("p", h("a", { href: `#/${current}` }, `To ${SCREENS[current].label}`))));
    if (document.activeElement === document.body) main.focus({ preventScroll: true });
  }
}

const title = (words, me) => { document.title = `${words.slice(0, 80)} \u00b7 ${me.title}`; };

/** Something that nobody waited for went wrong: it is told above the screen, which stays. */
function tell(error) {
  if (error instanceof Refused && error.status === 401) return closed(error.message);
  if (error instanceof Gone) failed = failed || "part";
  else replace(notice, h("p", error.message), h("button.small", { type: "button", onclick: () => { notice.hidden = true; } }, "Close")).hidden = false;
}

/** Nobody answers: say so, ask until somebody does, and draw again what could not be drawn. */
async function retry(me) {
  if (trying) return;
  trying = true;
  replace(notice, h("p", h("strong", "midstream does not answer."), " It was stopped, or the connection was lost. What you see stays; this page goes on as soon as it answers.")).hidden = false;
  for (let answered = false; !answered;) {
    await new Promise((done) => setTimeout(done, 1000));
    answered = await call("me").then(() => true, (error) => !(error instanceof Gone) && error);
    if (answered instanceof Refused && answered.status === 401) { trying = false; return closed(answered.message); }
  }
  trying = false;
  notice.hidden = true;
  const current = nav.querySelector("[aria-current]").dataset.screen;
  if (failed === "whole" || (failed && !SCREENS[current].keeps)) show(me);
}

function closed(message) {
  shown += 1;
  leave();
  leave = () => {};
  window.onhashchange = null;
  // Whoever opens the new address in another tab enters here, too.
  window.onstorage = (event) => { if (event.key === KEPT) location.reload(); };
  const field = h("input", { type: "password", autocomplete: "off", placeholder: "msk_…", "aria-label": "A key of this gateway" });
  const told = h("p.quiet", { role: "status" });
  document.title = "midstream";
  replace(document.body, h("main.closed", mark(), h("h1", "midstream"), h("p", message),
    h("form", { onsubmit: async (event) => {
      event.preventDefault();
      try { await enterWithKey(field.value); await begin(); } catch (error) { told.textContent = error.message; }
    } }, h("label", "Or, at a gateway, with your key", field), h("button", "Enter"), told)));
}

async function begin() {
  let me;
  try {
    // A link that was used before leads in, too, where the session that it opened is kept.
    const refused = await enter().then(() => null, (error) => error);
    me = await call("me").catch((error) => { throw refused || error; });
  } catch (error) {
    return closed(error.message);
  }
  // An empty frame that is painted keeps the rows from being painted until it is done: they are waited for, a moment.
  const name = location.hash.replace(/^#\/?/, "") || me.screens[0];
  if (me.screens.includes(name) && SCREENS[name].first) await Promise.race([ahead(SCREENS[name].first), new Promise((done) => setTimeout(done, PATIENCE))]);
  frame(me);
  window.onhashchange = () => show(me);
  window.onunhandledrejection = (event) => {
    if (![Gone, Refused].some((kind) => event.reason instanceof kind)) return;
    event.preventDefault();
    tell(event.reason);
  };
  onLost(() => retry(me));
  await show(me);
  // All of them while somebody is there to send them: a server that stops must not take a screen along. Not before the first one
  // is painted, which is what somebody waits for.
  setTimeout(() => { for (const each of [...Object.values(SCREENS), ...Object.values(INNER)]) each.load().catch(() => {}); }, 200);
}

begin();
