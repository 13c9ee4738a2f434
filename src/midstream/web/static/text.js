// Text of models and tools: Markdown as nodes, code in colours, hidden characters made visible. Nothing here makes markup.

import { h, count, visible } from "./dom.js";

export { visible };

const STEP = 20000;
const LONGEST_MARKDOWN = 60000;

/** A long text shows its beginning, and more when asked. */
export function longText(text, make, step = STEP) {
  if (text.length <= step * 1.2) return make(text);
  const holder = h("div.long");
  let shown = 0;
  const more = h("button.small", { type: "button", onclick: () => grow() });
  const grow = () => {
    const end = Math.min(text.length, shown + (shown ? step * 5 : step));
    more.before(make(text.slice(shown, end)));
    shown = end;
    if (shown >= text.length) more.remove();
    else more.textContent = `Show more (${count(text.length - shown)} characters left)`;
  };
  holder.append(more);
  grow();
  return holder;
}

/** Prose of a model. */
export function prose(text) {
  if (text.length > LONGEST_MARKDOWN) return longText(text, (part) => h("div.prose.plain", { dir: "auto" }, visible(part)));
  return h("div.prose", { dir: "auto" }, blocks(visible(text).split("\n"), 0));
}

export function plain(text) {
  return longText(text, (part) => h("pre.plain", { dir: "auto", tabindex: reached(part) }, visible(part)));
}

/** What may be too tall for its place scrolls in it: then the keys must reach it, which not every browser sees to by itself. */
const reached = (text) => text.length > 700 || text.split("\n", 21).length > 20 ? "0" : null;

/** Code, in colours up to a length beyond which they cost more than they tell. */
export function code(text, language = "") {
  return longText(text, (part) => h("pre.code", { dir: "ltr", tabindex: reached(part) }, h("code", part.length > 30000 ? visible(part) : colours(visible(part), language))));
}

/** JSON text, laid out if it is some. */
export function jsonCode(text) {
  let shown = text;
  try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* broken JSON is shown as it is */ }
  return code(shown, "json");
}

// Quotes in quotes, as deep as anybody reads; a model can write sixty thousand.
const DEEPEST = 8;

function blocks(lines, depth) {
  const made = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const fence = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/.exec(line);
    if (fence) {
      const stop = until(lines, at, (each, number) => number === at || !each.trim().startsWith(fence[1]) || each.trim().slice(fence[1].length).trim());
      made.push(code(lines.slice(at + 1, stop).join("\n"), fence[2]));
      at = stop + 1;
    } else if (!line.trim()) at += 1;
    else if (/^#{1,6}\s/.test(line)) {
      made.push(h("p.heading", inline(line.replace(/^#+\s+/, ""))));
      at += 1;
    } else if (/^ {0,3}([-*_])( *\1){2,}\s*$/.test(line)) { made.push(h("hr")); at += 1; }
    else if (depth < DEEPEST && /^\s*>/.test(line)) {
      const end = until(lines, at, (each) => /^\s*>/.test(each));
      made.push(h("blockquote", blocks(lines.slice(at, end).map((each) => each.replace(/^\s*>\s?/, "")), depth + 1)));
      at = end;
    } else if (/^\s*([-*+]|\d{1,9}[.)])\s+/.test(line)) {
      const end = until(lines, at, (each) => /^\s*([-*+]|\d{1,9}[.)])\s+/.test(each) || /^\s{2,}\S/.test(each));
      made.push(list(lines.slice(at, end)));
      at = end;
    } else if (line.includes("|") && isRule(lines[at + 1] || "")) {
      const end = until(lines, at, (each) => each.includes("|"));
      made.push(table(lines.slice(at, end)));
      at = end;
    } else {
      const end = until(lines, at, (each, number) => number === at || (each.trim() && !/^( {0,3}(`{3,}|~{3,})|#{1,6}\s|\s*>)/.test(each)));
      made.push(h("p", inline(lines.slice(at, end).join("\n"))));
      at = end;
    }
  }
  return made;
}

/** Whether a line is the one under a table's head. Two looks at each sign: one expression for both would try every place of a bar. */
const isRule = (line) => line.includes("|") && line.includes("-") && /^[\s:|-]+$/.test(line);

function until(lines, start, holds) {
  let end = start;
  while (end < lines.length && holds(lines[end], end)) end += 1;
  return Math.max(end, start + 1);
}

function list(lines) {
  const numbered = /^\s*\d/.test(lines[0]);
  const items = [];
  for (const line of lines) {
    const begun = /^\s*(?:[-*+]|\d{1,9}[.)])\s+(.*)$/.exec(line);
    if (begun) items.push([begun[1]]);
    else if (items.length) items.at(-1).push(line.trim());
  }
  return h(numbered ? "ol" : "ul", items.map((item) => h("li", inline(item.join("\n")))));
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").slice(0, 24).map((each) => each.trim());
  const wide = cells(lines[0]).length > 4;
  return h("div.scroll", wide ? { tabindex: "0", role: "group", "aria-label": "A table" } : {}, h("table",
    h("thead", h("tr", cells(lines[0]).map((cell) => h("th", inline(cell))))),
    h("tbody", lines.slice(2, 200).map((line) => h("tr", cells(line).map((cell) => h("td", inline(cell))))))));
}

// One pass over the text; every alternative is anchored by its first sign and bounded, so no text makes it slow.
const INLINE = /`([^`\n]{1,2000})`|\*\*([^*\n]{1,2000})\*\*|(?<![\w*])\*([^*\s][^*\n]{0,2000})\*(?!\w)|!?\[([^\]\n]{0,500})\]\(([^()\s]{1,2000})\)|(https?:\/\/[^\s<>"'`)\]]{1,2000})/g;

function inline(text) {
  const made = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > end) made.push(text.slice(end, match.index));
    end = match.index + match[0].length;
    if (match[1] !== undefined) made.push(h("code", match[1]));
    else if (match[2] !== undefined) made.push(h("strong", match[2]));
    else if (match[3] !== undefined) made.push(h("em", match[3]));
    else if (match[5] !== undefined) made.push(link(match[5], match[4] || match[5]));
    else made.push(link(match[6], match[6]));
  }
  if (end < text.length) made.push(text.slice(end));
  return made;
}

/** A link does nothing until it is clicked; then it says where it leads, and only that can be opened. */
function link(address, label) {
  let target = null;
  try { target = new URL(address); } catch { return label; }
  if (!["https:", "http:"].includes(target.protocol)) return `${label} (${address})`;
  const shown = h("button.link", { type: "button", title: target.href, onclick: () => {
    const open = h("a.opened", { href: target.href, target: "_blank", rel: "noopener noreferrer nofollow", referrerpolicy: "no-referrer" }, `${target.href} \u2197`);
    shown.replaceWith(h("span", `${label} \u2192 `, open));
    open.focus();
  } }, label);
  return shown;
}

const WORDS = {
  py: "and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case None nonlocal not or pass raise return True False try while with yield self",
  js: "async await break case catch class const continue default delete do else export extends false finally for from function if import in instanceof let new null of return static super switch this throw true try typeof undefined var void while yield interface type enum",
  sh: "if then else elif fi for while do done case esac function in return local export set echo cd",
  sql: "select from where insert into values update delete create table join left inner on group by order limit and or not null as distinct having union",
  go: "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false",
  rs: "as async await break const continue crate else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
  c: "auto break case char const continue default do double else enum extern float for goto if int long register return short signed sizeof static struct switch typedef union unsigned void volatile while class public private protected new delete template typename namespace using bool true false nullptr",
};
const NAMES = { python: "py", py: "py", javascript: "js", js: "js", ts: "js", typescript: "js", jsx: "js", tsx: "js", bash: "sh", sh: "sh", shell: "sh", console: "sh", zsh: "sh", sql: "sql", go: "go", rust: "rs", rs: "rs", c: "c", cpp: "c", "c++": "c", java: "c", csharp: "c", json: "json", jsonl: "json", toml: "sh", yaml: "sh", yml: "sh" };
const known = new Map();

function words(kind) {
  if (!known.has(kind)) known.set(kind, new Set((WORDS[kind] || "").split(" ")));
  return known.get(kind);
}

const TOKEN = /("(?:[^"\\\n]|\\.){0,4000}"?|'(?:[^'\\\n]|\\.){0,4000}'?|`(?:[^`\\]|\\.){0,4000}`?)|(\/\/[^\n]*|#[^\n]*|--[^\n]*|\/\*[^]{0,4000}?\*\/)|(\b\d[\w.]*\b)|([A-Za-z_$][\w$]*)/g;

export function colours(text, language) {
  const kind = NAMES[language.toLowerCase()] || "";
  if (!kind) return [text];
  const hash = ["py", "sh"].includes(kind), slashes = ["js", "go", "rs", "c"].includes(kind);
  const made = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    const whole = match[0];
    let style = "";
    if (match[1] !== undefined) style = kind === "json" && /^\s*:/.test(text.slice(match.index + whole.length, match.index + whole.length + 8)) ? "tk" : "ts";
    else if (match[2] !== undefined) {
      const comment = whole.startsWith("#") ? hash : whole.startsWith("--") ? kind === "sql" : slashes;
      style = comment ? "tc" : "";
      if (!comment) continue;
    } else if (match[3] !== undefined) style = "tn";
    else if (kind === "json" ? /^(?:true|false|null)$/.test(whole) : words(kind).has(kind === "sql" ? whole.toLowerCase() : whole)) style = "tw";
    if (!style) continue;
    if (match.index > end) made.push(text.slice(end, match.index));
    made.push(h(`span.${style}`, whole));
    end = match.index + whole.length;
  }
  if (end < text.length) made.push(text.slice(end));
  return made;
}
