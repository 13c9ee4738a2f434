// The frame: who is there, which screens they have, and which one the address names (#/name/…).

import { h, replace } from "./dom.js";
import { call, enter, enterWithKey, Refused } from "./api.js";

const SCREENS = {
  conversations: { label: "Conversations", load: () => import("./conversations.js") },
  live: { label: "Live", load: () => import("./live.js") },
  talk: { label: "Talk", load: () => import("./talk.js") },
  doctor: { label: "Doctor", load: () => import("./doctor.js") },
  usage: { label: "Usage", load: () => import("./usage.js") },
  models: { label: "Models", load: () => import("./models.js") },
};
const INNER = { c: { under: "conversations", load: () => import("./conversation.js") }, wires: { under: "conversations", load: () => import("./wires.js") } };

const main = h("main", { id: "main", tabindex: "-1" });
const nav = h("nav", { "aria-label": "Screens" });
let leave = () => {};
let shown = 0;

function frame(me) {
  replace(nav, me.screens.map((name) => h("a", { href: `#/${name}`, "data-screen": name }, SCREENS[name].label)));
  replace(document.body,
    h("a.skip", { href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "Skip to the content"),
    h("header.top", h("a.brand", { href: `#/${me.screens[0]}` }, mark(), h("span", me.title)), nav, themeButton()),
    main);
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
  };
  const button = h("button.theme", { type: "button", title: "Light or dark", "aria-label": "Colours", onclick: () => {
    const all = Object.keys(names);
    set(all[(all.indexOf(localStorage.getItem("midstream-theme") || "auto") + 1) % all.length]);
  } });
  set(localStorage.getItem("midstream-theme") || "auto");
  return button;
}

async function show(me) {
  const [path, asked = ""] = (location.hash.replace(/^#\/?/, "") || me.screens[0]).split("?");
  const [name, ...rest] = path.split("/").map(decodeURIComponent);
  const screen = Object.hasOwn(INNER, name) ? INNER[name] : Object.hasOwn(SCREENS, name) && me.screens.includes(name) ? SCREENS[name] : SCREENS[me.screens[0]];
  const number = ++shown;
  leave();
  leave = () => {};
  for (const link of nav.children) {
    if (link.dataset.screen === (screen.under || name || me.screens[0])) { link.setAttribute("aria-current", "page"); nav.scrollLeft = link.offsetLeft - nav.offsetLeft - 40; }
    else link.removeAttribute("aria-current");
  }
  try {
    const module = await screen.load();
    if (number !== shown) return;
    const holder = h("div.screen");
    replace(main, holder);
    window.scrollTo(0, 0);
    leave = (await module.open(holder, { me, rest, query: new URLSearchParams(asked) })) || (() => {});
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return closed(error.message);
    replace(main, h("div.screen", h("div.fault", { role: "alert" }, h("h1", "That did not work"), h("p", error.message))));
  }
}

function closed(message) {
  const field = h("input", { type: "password", autocomplete: "off", placeholder: "msk_…", "aria-label": "A key of this gateway" });
  const told = h("p.quiet", { role: "status" });
  replace(document.body, h("main.closed", mark(), h("h1", "midstream"), h("p", message),
    h("form", { onsubmit: async (event) => {
      event.preventDefault();
      try { await enterWithKey(field.value); await begin(); } catch (error) { told.textContent = error.message; }
    } }, h("label", "Or, at a gateway, with your key", field), h("button", "Enter"), told)));
}

async function begin() {
  let me;
  try {
    await enter();
    me = await call("me");
  } catch (error) {
    return closed(error.message);
  }
  frame(me);
  window.onhashchange = () => show(me);
  await show(me);
}

begin();
