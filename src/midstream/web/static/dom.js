// Elements from values, never from markup: whatever a model wrote reaches the page as a text node, with all of it to be seen.

// What steers or reorders a line, what fills it unseen, and the tags that can hide a whole message, but in a flag.
const UNSEEN = /\u{1f3f4}[\u{e0020}-\u{e007e}]{2,6}\u{e007f}|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0001}\u{e0020}-\u{e007f}]/gu;
// More marks on one letter than any script has: no browser breaks a line there, and they may be drawn over what is around.
const MARKS = /(\p{M}{10})(\p{M}+)/gu;

/** The text with what steers or reorders a line written out. */
export function visible(text) {
  return text.replace(/\r\n?/g, "\n").replace(UNSEEN, (sign) => {
    const code = sign.codePointAt(0);
    if (code === 0x1f3f4) return sign;
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  }).replace(MARKS, (_, some, rest) => `${some}\u27e8${[...rest].length} more marks\u27e9`);
}

const TOLD = ["title", "aria-label", "alt", "placeholder", "label"];
const SVG = "http://www.w3.org/2000/svg";

/** h("p.note", {title: "…", onclick: f}, "text", child, [more]) */
export function h(spec, ...rest) {
  return fill(document.createElement(nameOf(spec)), spec, rest);
}

/** The same in SVG. */
export function s(spec, ...rest) {
  return fill(document.createElementNS(SVG, nameOf(spec)), spec, rest);
}

function nameOf(spec) {
  return spec.split(".", 1)[0] || "div";
}

function fill(node, spec, rest) {
  const classes = spec.split(".").slice(1).filter(Boolean);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  const first = rest[0], named = first && typeof first === "object" && !Array.isArray(first) && !(first instanceof Node);
  // Children first: a node with dir="auto" looks through all it has, for its direction, at each child that comes.
  add(node, named ? rest.slice(1) : rest);
  if (named) for (const [name, value] of Object.entries(first)) set(node, name, value);
  return node;
}

function set(node, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
  else if (name === "class") node.setAttribute("class", [node.getAttribute("class"), value].filter(Boolean).join(" "));
  // An address is set only by those who have checked it: see `link` in text.js.
  else node.setAttribute(name, value === true ? "" : TOLD.includes(name) ? visible(String(value)) : String(value));
}

export function add(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(node, child);
    // Every word comes through here, also a name that nobody thought could be hostile.
    else node.append(child instanceof Node ? child : visible(String(child)));
  }
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

/** Run at most once a frame, with the newest state: a flood of news is one repaint. */
export function eachFrame(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; work(); });
  };
}

export function later(work, ms = 150) {
  let timer = 0;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => work(...given), ms); };
}

// Written out: the browser's own formats for a language take longer to load than the first rows take to paint.
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

export const count = (number) => String(Math.round(number)).replace(/\B(?=(?:\d{3})+$)/g, ",");
export const short = (number) => number < 10000 ? count(number) : number < 1e6 ? `${(number / 1e3).toFixed(1)}k` : `${(number / 1e6).toFixed(1)}M`;

export const turns = (number) => `${count(number)} turn${number === 1 ? "" : "s"}`;

export function money(dollars) {
  if (dollars === null || dollars === undefined) return "";
  if (dollars === 0) return "$0";
  return dollars < 0.01 ? `$${dollars.toFixed(5)}` : dollars < 1 ? `$${dollars.toFixed(3)}` : `$${dollars.toFixed(2)}`;
}

export function span(ms) {
  if (ms === null || ms === undefined) return "";
  return ms < 1 ? "<1 ms" : ms < 1000 ? `${Math.round(ms)} ms` : ms < 60000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60000)} min ${Math.floor(ms / 1000) % 60} s`;
}

export const size = (bytes) => bytes < 1024 ? `${bytes} B` : bytes < 1048576 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1048576).toFixed(1)} MB`;

/** 14:05 of today, else with its day, and of another year with its year; "" of a time that no calendar has. `exact` to the second. */
export function when(seconds, { exact = false } = {}) {
  const date = new Date(seconds * 1000), now = new Date();
  if (Number.isNaN(date.getTime())) return "";
  const two = (number) => String(number).padStart(2, "0");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}${exact ? `:${two(date.getSeconds())}` : ""}`;
  if (date.toDateString() === now.toDateString()) return time;
  const year = date.getFullYear() === now.getFullYear() ? "" : ` ${date.getFullYear()}`;
  return `${date.getDate()} ${MONTHS[date.getMonth()]}${year}, ${time}`;
}

export function save(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

export function copyButton(text, label = "Copy") {
  const button = h("button.small", { type: "button", onclick: async () => {
    try { await navigator.clipboard.writeText(typeof text === "function" ? text() : text); button.textContent = "Copied"; }
    catch { button.textContent = "Not allowed"; }
    setTimeout(() => { button.textContent = label; }, 1500);
  } }, label);
  return button;
}

/** An address with a word where something is hidden in it. */
export const unhidden = (address) => address.replaceAll("\u2039hidden\u203a", "YOUR_KEY");

// What a terminal obeys while a command is pasted into it: even between quotes it may end the paste, or the line.
const KEYSTROKES = /[\u0001-\u0009\u000b-\u001f\u007f-\u009f]/;

/** A word for a shell. Bytes that are no text of a line are written as numbers, and so is a sign that asks bash for what was typed before. */
function quoted(value) {
  value = value.replaceAll("\0", "");  // no command can have it
  if (!KEYSTROKES.test(value)) return `'${value.replaceAll("'", "'\\''")}'`;
  const bytes = (sign) => [...new TextEncoder().encode(sign)].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
  return `$'${value.replace(/[\u0001-\u0009\u000b-\u001f\u007f-\u009f\\'!]/g, bytes)}'`;
}

/** A request as a command. What is hidden here is for whoever runs it to fill in. */
export function curlOf(method, address, headers, text) {
  const shown = ([name, value]) => value === "" ? `${name};` : `${name}: ${value !== "\u2039hidden\u203a" ? value : name === "authorization" ? "Bearer YOUR_KEY" : "YOUR_KEY"}`;
  // -g: brackets and braces of an address are no list of addresses.
  const begin = `curl ${/[[\]{}]/.test(address) ? "-g " : ""}-X ${method} ${quoted(address)}`;
  return [begin, ...Object.entries(headers).map((each) => `-H ${quoted(shown(each))}`), ...(text ? [`--data-raw ${quoted(text)}`] : [])].join(" \\\n  ");
}
