// The same turn on two wires: the exact requests side by side, the stored turns between them, and a thread for each call.

import { h, s, replace, count, size, eachFrame, copyButton, curlOf, unhidden } from "./dom.js";
import { call, query, Gone, Refused } from "./api.js";
import { visible } from "./text.js";
import { WHO, reportNode } from "./turns.js";

const COLOURS = 8, LONG = 320, NARROW = 58, MANY = 100, LONGEST = 20000;

export async function open(root, { rest: [id, turnText], query: asked, me, isOpen }) {
  const path = `conversations/${encodeURIComponent(id)}`;
  const info = await call(path);
  const last = Math.max(0, info.turns - 1);
  const state = {
    turn: Math.min(last, Math.max(0, Number(turnText) || 0)),
    left: asked.get("left") || me.dialects[0].model,
    right: asked.get("right") || me.dialects[1].model,
  };
  const title = visible(info.title), short = title.length > 90 ? `${title.slice(0, 89)}\u2026` : title;
  const picture = h("div.picture", { tabindex: "-1" });
  const trace = h("p.trace", { role: "status", "aria-live": "polite" });
  const marks = h("input", { type: "checkbox", checked: true, onchange: () => picture.classList.toggle("unmarked", !marks.checked) });
  const number = h("input.jump", { type: "number", min: "0", max: String(last), "aria-label": "Turn", onchange: () => go({ turn: Number(number.value) }) });
  const choose = (side, label) => {
    const select = h("select", { "aria-label": label, onchange: () => go({ [side]: select.value }) },
      h("optgroup", { label: "As different as they come" }, me.dialects.map((each) => h("option", { value: each.model }, `${each.label} \u00b7 ${each.model}`))));
    return select;
  };
  const selects = { left: choose("left", "The left wire"), right: choose("right", "The right wire") };
  replace(root,
    h("div.head.wires",
      h("p.crumb", h("a", { href: "#/conversations" }, "Conversations"), " / ", h("a", { href: `#/c/${encodeURIComponent(id)}/${state.turn}` }, short || id)),
      h("h1", { "data-title": `Wires of ${title || id}` }, "The same turn on every wire"),
      h("div.actions",
        h("span.group", h("button", { type: "button", title: "The turn before (Alt+\u2190)", "aria-label": "The turn before", onclick: () => go({ turn: state.turn - 1 }) }, "\u2190"), h("label", "turn ", number), h("button", { type: "button", title: "The next turn (Alt+\u2192)", "aria-label": "The next turn", onclick: () => go({ turn: state.turn + 1 }) }, "\u2192")),
        selects.left, h("button", { type: "button", title: "Swap the two", "aria-label": "Swap the two wires", onclick: () => go({ left: state.right, right: state.left }) }, "\u21c4"), selects.right,
        h("label.check", marks, " mark what differs"))),
    picture, trace);

  const view = new Picture(picture, trace);
  const keys = (event) => {
    if (event.altKey && event.key === "ArrowLeft") { event.preventDefault(); go({ turn: state.turn - 1 }); }
    if (event.altKey && event.key === "ArrowRight") { event.preventDefault(); go({ turn: state.turn + 1 }); }
  };
  document.addEventListener("keydown", keys);
  let version = 0;

  async function go(change) {
    if (!isOpen()) return;
    Object.assign(state, change);
    state.turn = Math.min(last, Math.max(0, state.turn || 0));
    number.value = state.turn;
    for (const side of ["left", "right"]) select(selects[side], state[side]);
    history.replaceState(history.state, "", `#/wires/${encodeURIComponent(id)}/${state.turn}?${query({ left: state.left, right: state.right })}`);
    const now = ++version;
    picture.setAttribute("aria-busy", "true");
    if (!picture.firstChild) replace(picture, h("p.empty", "Writing both requests \u2026"));
    try {
      const found = await call(`${path}/wires/${state.turn}?${query({ model: [state.left, state.right] })}`);
      if (now === version) view.draw(found);
    } catch (error) {
      if (now !== version) return;
      if (error instanceof Refused && error.status === 401) throw error;
      replace(picture, h("div.fault", { role: "alert" }, h("p", error.message)));
      if (error instanceof Gone) throw error;
    }
    picture.removeAttribute("aria-busy");
  }

  function select(node, model) {
    if (![...node.options].some((each) => each.value === model)) node.append(h("option", { value: model }, model));
    node.value = model;
  }

  await go({});
  call("models").then((cards) => {
    for (const side of ["left", "right"]) selects[side].append(h("optgroup", { label: "All models" }, cards.map((card) => h("option", { value: card.name }, card.name))));
    for (const side of ["left", "right"]) selects[side].value = state[side];
  }).catch(() => {});
  return () => { version += 1; document.removeEventListener("keydown", keys); view.end(); };
}

class Picture {
  constructor(node, trace) {
    this.node = node;
    this.trace = trace;
    this.threads = s("svg.threads", { "aria-hidden": "true" });
    this.paint = eachFrame(() => this.drawThreads());
    this.watch = new ResizeObserver(this.paint);
    this.watch.observe(node);
    node.addEventListener("toggle", this.paint, true);
    // Who came by Tab keeps the trace while the page scrolls under a pointer that rests.
    const focused = () => node.contains(document.activeElement) ? document.activeElement.closest("[data-call]") : null;
    for (const name of ["pointerover", "focusin"]) node.addEventListener(name, (event) => this.light(event.target.closest("[data-call]") || focused()));
    node.addEventListener("pointerleave", () => this.light(focused()));
  }

  end() { this.watch.disconnect(); }

  draw({ spine, views, turn }) {
    const [left, right] = views;
    this.calls = new Map();
    const sides = this.sides = [new Side(left, right, this.calls, "left"), new Side(right, left, this.calls, "right")];
    for (const each of spine) for (const made of each.calls) if (!this.calls.has(made.id)) this.calls.set(made.id, { ...made, colour: this.calls.size % COLOURS, left: sides[0].nameOf(made.id), right: sides[1].nameOf(made.id) });
    // Of one that is refused nothing stands beside the other, which is shown as it is cut by itself.
    const rows = align(left.parts || right.parts || [], right.parts || left.parts || []);
    const shown = spine.length ? spine[0].index : 0;
    replace(this.node,
      h("div.columns",
        sides[0].heading(), h("div.spine.heading", h("span.quiet", "as stored"), h("strong", `turn ${turn}`)), sides[1].heading(),
        rows.map((row, at) => [
          sides[0].cell(row.left, row.turns, at === 0, shown), spineCell(spine, row.turns, this.calls, shown, turn), sides[1].cell(row.right, row.turns, at === 0, shown),
        ])),
      this.threads);
    this.lit = null;
    this.light(null);
    this.paint();
  }

  light(target) {
    const id = target?.dataset.call;
    if (id === this.lit) return;
    this.lit = id;
    this.node.classList.toggle("tracing", Boolean(id));
    for (const each of this.node.querySelectorAll(".lit")) each.classList.remove("lit");
    if (!id) { replace(this.trace, "Point at an id, or reach it with Tab: the same call lights up everywhere."); return; }
    for (const each of this.node.querySelectorAll(`[data-call="${CSS.escape(id)}"]`)) each.classList.add("lit");
    // A call of the turns that are folded is known by its ids alone.
    const made = this.calls.get(id) || { name: "an earlier call", colour: 0, left: this.sides[0].nameOf(id), right: this.sides[1].nameOf(id) };
    const part = (label, name) => name ? [h("span.quiet", ` ${label} `), h("code", visible(name))] : [h("span.quiet", ` ${label} nothing: this wire has no ids`)];
    replace(this.trace, h(`span.pill.thread-${made.colour}`, made.name), part("stored as", id), this.sides.map((side) => side.view.refused ? null : part(`\u00b7 to ${side.view.model} as`, made[side.name])), made.raw_id ? part("\u00b7 first called", made.raw_id) : null);
  }

  drawThreads() {
    const box = this.node.getBoundingClientRect();
    const lines = [];
    if (matchMedia("(min-width: 900px)").matches) {
      for (const knot of this.node.querySelectorAll(".knot[data-row]")) {
        const to = knot.getBoundingClientRect(), stop = knot.closest(".stop").getBoundingClientRect();
        for (const side of ["left", "right"]) {
          const pills = this.node.querySelectorAll(`.cell.${side}[data-row="${knot.dataset.row}"] .pill[data-call="${CSS.escape(knot.dataset.call)}"]`);
          // Where a call and its result share a row, the result's id is the later one.
          const pill = pills[knot.classList.contains("answers") ? pills.length - 1 : 0];
          if (!pill || !pill.offsetParent) continue;
          const from = pill.getBoundingClientRect(), cell = pill.closest(".cell").getBoundingClientRect();
          const y1 = from.top + from.height / 2 - box.top, y2 = to.top + to.height / 2 - box.top;
          const edge = (side === "left" ? cell.right : cell.left) - box.left, x2 = (side === "left" ? to.left : to.right) - box.left;
          // Straight where words are, and only where none are crossed: behind an id on the left, before its line on the right. In a
          // prompt there are words on both sides. It bends between the columns, before the name that stands above the knot.
          const line = pill.closest(".jl"), words = document.createRange();
          words.selectNodeContents(line || pill);
          const x1 = !line ? edge : side === "left" ? Math.min(from.right + 14 - box.left, edge) : Math.max(edge, words.getBoundingClientRect().left - 4 - box.left);
          const near = (side === "left" ? stop.left : stop.right) - box.left, bend = (near - edge) * 0.5;
          lines.push(s(`path.thread-${this.calls.get(knot.dataset.call)?.colour ?? 0}`, { d: `M${x1} ${y1}L${edge} ${y1}C${edge + bend} ${y1} ${near - bend} ${y2} ${near} ${y2}L${x2} ${y2}`, "data-call": knot.dataset.call, class: knot.dataset.call === this.lit ? "lit" : "" }));
        }
      }
    }
    this.threads.setAttribute("width", String(Math.round(box.width)));
    this.threads.setAttribute("height", String(Math.round(this.node.scrollHeight)));
    replace(this.threads, lines);
  }
}

/** Rows that both sides have: a cut where both have one. */
function align(left, right) {
  const ends = (parts) => new Set(parts.map((part) => part.turns[1]));
  const both = ends(right), cuts = [...ends(left)].filter((end) => both.has(end)).sort((one, other) => one - other);
  let from = 0;
  return cuts.map((end) => {
    const within = (part) => part.turns[0] >= from && part.turns[1] <= end;
    const row = { turns: [from, end], left: left.filter(within), right: right.filter(within) };
    from = end;
    return row;
  });
}

function spineCell(spine, [from, to], calls, shown, turn) {
  const turns = spine.filter((each) => each.index >= from && each.index < to);
  const row = String(from);
  const knot = (made, kind) => h(`span.knot.${kind}.thread-${calls.get(made.id)?.colour ?? 0}`, { "data-call": made.id, "data-row": row, tabindex: "0", title: `${made.name}, ${kind === "asks" ? "called" : "answered"}: ${made.id}` }, made.name);
  return h("div.spine", { "data-row": row },
    from < shown ? h("span.quiet", `turns ${from} to ${shown - 1}`) : null,
    turns.map((each) => h(`div.stop.${each.speaker}`, h("span.line", h("span.who", { title: each.model }, each.speaker === "ai" ? each.model.split("/").at(-1) || "model" : WHO[each.speaker]), h("span.number", ` #${each.index}`)),
      each.calls.map((made) => knot(made, "asks")), each.results.map((made) => knot(made, "answers")),
      !each.calls.length && !each.results.length && each.text ? h("span.words", { dir: "auto" }, visible(each.text.slice(0, 80))) : null)));
}

class Side {
  constructor(view, other, calls, name) {
    this.view = { ids: {}, notes: [], ...view };
    this.other = other;
    this.calls = calls;
    this.name = name;
    this.names = new Map(Object.entries(this.view.ids).map(([id, made]) => [made, id]));
    const escaped = [...this.names.keys()].sort((one, two) => two.length - one.length).map((each) => each.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    // An id ends where its letters end: functions.read_file:1 is not the beginning of functions.read_file:12.
    this.ids = escaped.length ? new RegExp(`(${escaped.join("|")})(?![A-Za-z0-9_])`) : null;
  }

  /** What a call is called here. By own keys only: an id may be the name of something that every object has. */
  nameOf(id) { return Object.hasOwn(this.view.ids, id) ? this.view.ids[id] : undefined; }

  heading() {
    const { view } = this;
    if (view.refused) return h(`div.cell.heading.${this.name}`, h("p.model", h("strong", visible(view.model))), h("p.fault", { role: "alert" }, `This turn cannot be sent so: ${visible(view.refused)}`));
    const loose = view.notes.filter((note) => note.turn === null || note.turn === undefined);
    const around = new Ink(this, null).lines(view.around);
    return h(`div.cell.heading.${this.name}`,
      h("p.model", h("strong", view.model), h("span.chip", view.wire), h("span.chip.plain", size(view.bytes))),
      h("p.line", h("code", view.line), h("span.tools", copyButton(view.raw, "Copy"), copyButton(() => curl(view), "curl"))),
      loose.map(noteNode),
      h("details", h("summary", `Headers, options and ${view.tools.length} tool${view.tools.length === 1 ? "" : "s"}`),
        view.tools.length ? h("p.quiet", "Of the tools, those of midstream that were called here: a store keeps what was said, not what was declared.") : null,
        h("pre.json", Object.entries(view.headers).map(([name, value]) => `${name}: ${value}\n`)), h("pre.json", around)),
      h("details", h("summary", "The switch report"), reportNode(view.report)));
  }

  cell(parts, [from, to], first, shown) {
    if (this.view.refused) return h("div");
    const notes = this.view.notes.filter((note) => note.turn !== null && note.turn !== undefined && note.turn >= from && note.turn < to);
    const mirror = this.other.refused ? null : new Leaves(this.other.parts.filter((part) => part.turns[0] >= from && part.turns[1] <= to));
    const ink = new Ink(this, mirror);
    const all = parts.flatMap((part) => part.text !== undefined ? [part] : part.items.map((item) => ({ item })));
    const node = (each) => each.text !== undefined ? h("pre.json.prompt", ink.prompt(each.text, first)) : h("pre.json", ink.lines(each.item));
    const inside = () => [all.length ? firstOf(all, node) : h("p.quiet", "nothing"), firstOf(notes, noteNode)];
    return h(`div.cell.${this.name}`, { "data-row": String(from) }, from < shown ? folded(from, shown, all.length, notes.length, inside) : inside());
  }
}

/** The first of many, and the next when asked. */
function firstOf(all, make) {
  if (all.length <= MANY) return all.map(make);
  let at = 0;
  const more = h("button.more", { type: "button", onclick: () => grow() }), holder = h("div", more);
  const grow = () => {
    for (const each of all.slice(at, at + MANY)) more.before(make(each));
    at += MANY;
    if (at < all.length) replace(more, `\u2026 ${count(all.length - at)} more`);
    else more.remove();
  };
  grow();
  return holder;
}

/** The turns before those that are taken apart, drawn when they are unfolded: there can be thousands. */
function folded(from, shown, items, notes, inside) {
  const told = [`${count(items)} item${items === 1 ? "" : "s"}`, notes ? `${count(notes)} note${notes === 1 ? "" : "s"}` : ""].filter(Boolean).join(", ");
  const node = h("details", { ontoggle: () => { if (node.childElementCount === 1) node.append(h("div", inside())); } }, h("summary", `Turns ${from} to ${shown - 1}: ${told}`));
  return node;
}

function noteNode(note) {
  return h(`p.note.${note.action}`, h("span.label", `${note.action} ${note.what}`), h("span", visible(note.why)), h("code.quiet", note.code));
}

function curl(view) {
  const [method, address] = view.line.split(" ");
  return curlOf(method, unhidden(address), view.headers, view.raw);
}

/** What one side says in a row: keys and values, to tell what the other side does not have. */
class Leaves {
  constructor(parts) {
    this.keys = new Set();
    this.values = new Set();
    this.text = "";
    for (const part of parts) {
      if (part.text !== undefined) this.text += part.text;
      else this.take(part.items, 0);
    }
  }

  take(value, depth) {
    if (depth > 40) return;
    if (Array.isArray(value)) for (const each of value) this.take(each, depth + 1);
    else if (value && typeof value === "object") for (const [name, each] of Object.entries(value)) { this.keys.add(name); this.take(each, depth + 1); }
    else {
      this.values.add(value);
      const inner = parsed(value);
      if (inner) this.take(inner, depth + 1);
    }
  }

  /** Whether a value is here too, in any form. */
  has(value) {
    if (this.values.has(value)) return true;
    if (typeof value !== "string") return stands(String(value), this.text);
    const inner = parsed(value);
    if (inner) { const own = new Leaves([{ items: [inner] }]); return [...own.values].every((each) => this.has(each)); }
    return this.text !== "" && value.trim() !== "" && stands(value.trim(), this.text);
  }

  /** A prompt has keys only in the JSON inside it, and there in quotes: the word alone says nothing. */
  hasKey(name) { return this.keys.has(name) || this.text.includes(`"${name}"`); }
}

const LETTER = /[\p{L}\p{N}_]/u;

/** Whether words stand in a text for themselves: "text" does not stand in "context". */
function stands(words, text) {
  if (words.length > NARROW) return text.includes(words);
  const [opens, ends] = [words[0], words.at(-1)].map((sign) => LETTER.test(sign));
  for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + words.length)) {
    if (!(opens && LETTER.test(text[at - 1] || "")) && !(ends && LETTER.test(text[at + words.length] || ""))) return true;
  }
  return false;
}

function parsed(value) {
  if (typeof value !== "string" || value.length > 20000 || !/^\s*[{[]/.test(value)) return null;
  try { const made = JSON.parse(value); return typeof made === "object" ? made : null; } catch { return null; }
}

/** Writes JSON and prompts as nodes: ids as pills, what only this side has as marked. */
class Ink {
  constructor(side, mirror) { this.side = side; this.mirror = mirror; }

  /** A value as lines; one that is too long for its place goes on under its own beginning. Of a list of many, `most`. */
  lines(value, most = MANY) {
    const made = [], pieces = [];
    let line = null;
    const begin = (indent) => {
      line = h("span.jl");
      line.style.paddingLeft = `${indent + 2}ch`;
      made.push(line);
    };
    const again = (event) => { const node = event.target.closest("pre"); replace(node, this.lines(value, most * 10)); };
    begin(0);
    this.write(pieces, value, "", true, most, again);
    for (const piece of pieces) {
      if (typeof piece !== "string" || !piece.startsWith("\n")) line.append(piece);
      else begin(piece.length - 1);
    }
    return made;
  }

  /** `inline` for what stands alone or in a list: its first line goes behind the bracket, so that a row stays short. */
  write(made, value, indent, inline, most, again) {
    if (value === null || typeof value !== "object") { made.push(this.leaf(value)); return; }
    const list = Array.isArray(value);
    const inside = list ? value.map((each) => [null, each]) : Object.entries(value);
    const [open, close] = list ? "[]" : "{}";
    if (!inside.length) { made.push(open + close); return; }
    const flat = JSON.stringify(value).length <= NARROW - indent.length;
    const deeper = `${indent}  `;
    made.push(open);
    inside.slice(0, most).forEach(([name, each], at) => {
      made.push(flat ? (at ? " " : "") : at || !inline ? `\n${deeper}` : " ");
      if (name !== null) made.push(this.key(name), ": ");
      this.write(made, each, deeper, name === null, most, again);
      if (at < inside.length - 1) made.push(",");
    });
    if (inside.length > most) made.push(h("button.more", { type: "button", onclick: again }, `\u2026 ${count(inside.length - most)} more`));
    made.push(flat ? close : ` ${close}`);
  }

  key(name) {
    const differs = this.mirror && !this.mirror.hasKey(name);
    return h(`span.jk${differs ? ".differs" : ""}`, `"${visible(name)}"`);
  }

  leaf(value) {
    if (typeof value !== "string") return h(`span.jn${this.mirror && !this.mirror.has(value) ? ".differs" : ""}`, String(value));
    const id = this.side.names.get(value);
    if (id) return h("span.js", '"', this.pill(value, id), '"');
    const differs = this.mirror && !this.mirror.has(value);
    const node = h(`span.js${differs ? ".differs" : ""}`);
    const write = (text) => replace(node, '"', this.withIds(escaped(text)), '"');
    if (value.length <= LONG) { write(value); return node; }
    write(value.slice(0, LONG));
    node.append(h("button.more", { type: "button", onclick: () => { write(value.slice(0, 200000)); } }, `\u2026 ${value.length - LONG} more`));
    return node;
  }

  pill(name, id) {
    const made = this.side.calls.get(id);
    return h(`span.pill.thread-${made?.colour ?? 0}`, { "data-call": id, tabindex: "0", "aria-label": `The id ${name} of a call of ${made?.name || "a tool"}` }, visible(name));
  }

  withIds(text) {
    if (!this.side.ids) return [visible(text)];
    return text.split(this.side.ids).map((piece, at) => at % 2 ? this.pill(piece, this.side.names.get(piece)) : visible(piece));
  }

  /** A raw prompt: its marks stand out, its words are as they are. */
  prompt(text, first) {
    const cut = !this.whole && text.length > (first ? 1500 : LONGEST), end = first ? 500 : LONGEST;
    const shown = cut ? `${text.slice(0, end)}\u2026` : text;
    const pieces = shown.split(/(<[|\uff5c][^<>]{1,60}?[|\uff5c]>)/).map((piece, at, all) => at % 2 ? h(`span.token${this.mirror && this.mirror.text.includes(piece) ? "" : ".differs"}`, visible(piece), piece.includes("end") && !all[at + 1].startsWith("\n") ? "\n" : "") : this.withIds(piece));
    if (!cut) return pieces;
    const node = h("span", pieces, h("button.more", { type: "button", onclick: () => { this.whole = true; replace(node, this.prompt(text, first)); } }, `${count(text.length - end)} more`));
    return [node];
  }
}

const escaped = (text) => JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"');
