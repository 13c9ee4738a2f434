// Talk to a model; change it in the middle, and see what the next one will see before anything is sent.

import { h, replace, eachFrame, span } from "./dom.js";
import { call, events, query } from "./api.js";
import { turnNode, seamNode, reportNode } from "./turns.js";
import { prose, plain, visible } from "./text.js";

// Whose answer is still coming while they look at another screen: it goes on, and they find it as it is by then.
let running = null;
// The model that was chosen last is the first choice for a new conversation.
let chosen = "";

export async function open(root, { rest: [id = ""], me }) {
  if (running && (!id || id === running.id())) return running.show(root);
  const cards = await call("models");
  let conversation = id, before = "", stop = null, first = 0, scratches = [], away = false, parked = null, atEnd = false, last = 0, waits = false;
  const whole = h("p.crumb");
  const said = h("div.talk", { "aria-live": "polite" });
  const report = h("div.switch", { hidden: true, role: "status", tabindex: "0" });
  const model = h("select", { "aria-label": "Model", onchange: () => { chosen = model.value; draft(); preview(); } },
    [["Ready", true], ["Without a key", false]].map(([label, ready]) => h("optgroup", { label }, cards.filter((card) => card.ready === ready).map((card) => h("option", { value: card.name }, card.name)))));
  const tools = me.tools.map((name) => h("input", { type: "checkbox", value: name }));
  const words = h("textarea", { rows: "3", placeholder: "Say something. Enter sends, Shift+Enter starts a new line.", "aria-label": "Message", dir: "auto", oninput: () => { draft(); label(); }, onkeydown: (event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); } } });
  const button = h("button.primary", { type: "button", onclick: () => (stop ? stop.abort() : send(true)) }, "Send");
  const heading = h("h1", conversation ? "Go on talking" : "Talk");
  const page = h("div.talking",
    h("div.head", heading, whole),
    said,
    h("div.composer", report, words, h("div.filters", h("label", "Model ", model),
      tools.length ? h("details.toolbox", h("summary", "Tools: off"), tools.map((box) => h("label.check", box, ` ${box.value}`)), h("p.quiet", "Every call is asked for here first.")) : h("span.quiet", "Tools: start with --tools to offer them"),
      button)));
  replace(root, page);
  const toolbox = root.querySelector(".toolbox");
  toolbox?.addEventListener("change", () => { const on = tools.filter((box) => box.checked).map((box) => box.value); toolbox.firstChild.textContent = `Tools: ${on.length ? on.join(", ") : "off"}`; });
  if (!model.value) model.value = cards[0]?.name;
  // The end stays in sight as it grows, above the box, until somebody scrolls away from it.
  const bottom = () => document.documentElement.scrollHeight - innerHeight;
  const follow = () => { if (atEnd && !away) window.scrollTo({ top: bottom(), behavior: "instant" }); };
  const heard = {
    scroll: () => { if (scrollY > last && scrollY >= bottom() - 40) atEnd = true; last = scrollY; },
    wheel: (event) => { if (event.deltaY < 0) atEnd = false; },
    touchmove: () => { atEnd = false; },
    keydown: (event) => { if (event.target !== words && ["PageUp", "ArrowUp", "Home"].includes(event.key)) atEnd = false; },
    pointerdown: (event) => { if (event.target === document.documentElement) atEnd = false; },  // the scroll bar
  };
  const watch = new ResizeObserver(follow);
  const arrive = () => {
    away = false;
    watch.observe(page);
    for (const [name, hear] of Object.entries(heard)) addEventListener(name, hear, { passive: true });
    return () => {
      away = true;
      watch.disconnect();
      for (const [name, hear] of Object.entries(heard)) removeEventListener(name, hear);
      if (stop) parked = running = { id: () => conversation, show: (holder) => {
        running = null;
        replace(holder, page);
        if (conversation) history.replaceState(history.state, "", `#/talk/${encodeURIComponent(conversation)}`);
        atEnd = true;
        return arrive();
      } };
    };
  };

  if (conversation) {
    const info = await call(`conversations/${encodeURIComponent(conversation)}`);
    await draw(Math.max(0, info.turns - 30), info.turns);
    waits = info.waits;
    before = info.models.at(-1) || "";
    first = info.turns;
    heading.dataset.title = visible(info.title);
    about(visible(info.title).slice(0, 100));
    atEnd = true;
    await pick();
  } else {
    replace(said, h("p.empty", "A new conversation. The sim/ models answer without a key."));
    choose(chosen);
  }
  const kept = JSON.parse(sessionStorage.getItem(place()) || "null");
  if (kept) words.value = kept.text;
  label();
  if (kept && choose(kept.model) && model.value !== before) await preview();

  function about(title) {
    replace(whole, h("a", { href: `#/c/${encodeURIComponent(conversation)}` }, title || conversation), " \u00b7 ", h("a", { href: "#/talk" }, "New conversation"));
  }

  /** With nothing typed, the button asks once more for the answer that did not come. */
  function label() { button.textContent = stop ? "Stop" : waits && !words.value.trim() ? "Try again" : "Send"; }

  function place() { return `midstream-draft-${conversation}`; }

  /** What was typed outlasts a look at another screen, and a program that was started again. */
  function draft() {
    if (words.value) sessionStorage.setItem(place(), JSON.stringify({ text: words.value, model: model.value }));
    else sessionStorage.removeItem(place());
  }

  function choose(name) {
    const found = cards.some((card) => card.name === name);
    if (found) model.value = name;
    return found;
  }

  /** The model that spoke last, or, without a key for it, its double: what is chosen first must be able to answer. */
  async function pick() {
    const ready = (name) => cards.some((card) => card.name === name && card.ready);
    const double = `sim/${before.split("/").at(-1).toLowerCase()}`;
    const chosen = [before, double].find(ready);
    if (chosen) model.value = chosen;
    if (model.value !== before) await preview();
  }

  async function draw(from, to) {
    const path = `conversations/${encodeURIComponent(conversation)}`;
    const rows = await call(`${path}/turns?${query({ from, to })}`);
    const nodes = rows.flatMap((row) => turnNode(row, { wires: (each) => `#/wires/${encodeURIComponent(conversation)}/${each.index}`, seam: (each) => seamNode(each.seam.from, each.seam.to, () => call(`${path}/seams/${each.index}`)) }));
    return from === 0 || !said.querySelector(".turn") ? replace(said, nodes) : said.append(...nodes);
  }

  async function preview() {
    if (!conversation) return;
    report.hidden = false;
    replace(report, h("p.quiet", "Looking \u2026"));
    const asked = model.value;
    try {
      const found = await call(`talk/preview?${query({ conversation, model: asked })}`);
      // The one for the model that is chosen now is on its way.
      if (asked !== model.value) return;
      replace(report, h("p", h("strong", `Before anything is sent: what ${found.model} will see`)), reportNode(found.rows));
    } catch (error) { replace(report, h("p.fault", error.message)); }
  }

  /** Say what was typed, or, `again`, have the last message answered if it was not: it is stored, and not said twice. */
  async function send(again) {
    const text = words.value.trim() && words.value;
    if (stop || !(text || (again && waits))) return;
    stop = new AbortController();
    words.value = "";
    label();
    draft();
    atEnd = true;
    said.querySelector(".empty")?.remove();
    const mine = text && turnNode({ index: "new", speaker: "human", blocks: [{ type: "text", text }] });
    const answer = new Answer(model.value);
    const scratch = h("div.scratch", mine, answer.node);
    let stored = false;
    scratches.push(scratch);
    said.append(scratch);
    follow();
    const body = { text, model: model.value, conversation, tools: tools.filter((box) => box.checked).map((box) => box.value) };
    try {
      for await (const { data } of events("talk", { body, signal: stop.signal })) {
        if (data.type === "question") atEnd = false;  // it is read from its beginning, not from its buttons
        if (data.type !== "stored") { answer.take(data); continue; }
        stored = true;
        if (data.conversation !== conversation) {
          conversation = data.conversation;
          if (!away) history.replaceState(history.state, "", `#/talk/${encodeURIComponent(conversation)}`);
          about("");
        }
      }
    } catch (error) {
      if (error.name !== "AbortError") answer.take({ type: "failed", message: error.message });
      else answer.stopped = true;
    }
    stop = null;
    report.hidden = true;
    const well = !answer.failed && !answer.stopped;
    waits = stored && !well;
    if (!stored && text && !words.value) { words.value = text; draft(); }
    label();
    // Drawn when somebody comes back, as it is stored.
    if (away) { if (running === parked) running = null; return; }
    if (!well) answer.end();
    const info = conversation && await call(`conversations/${encodeURIComponent(conversation)}`).catch((error) => { if (well) throw error; });
    if (info) { waits = info.waits; label(); }
    // What was stopped or failed stays as it came; the next answer shows it as it is stored.
    if (info && well) {
      about(visible(info.title).slice(0, 100));
      for (const each of scratches) each.remove();
      scratches = [];
      await draw(first, info.turns);
      first = info.turns;
    }
    ready();
  }

  /** The next thing is to type, unless somebody has gone on to something else on this screen. */
  function ready() { if ([document.body, button].includes(document.activeElement)) words.focus(); }

  words.focus();
  return arrive();
}

/** An answer while it comes. */
class Answer {
  constructor(model) {
    this.began = performance.now();
    this.time = h("span.facts");
    this.body = h("div");
    this.node = h("article.turn.ai.coming", h("header", h("span.who", model), this.time), this.body);
    this.kind = "";
    this.failed = false;
    this.paint = eachFrame(() => this.draw());
  }

  take(event) {
    if (["text", "thinking", "call"].includes(event.type) && !this.first) {
      this.first = performance.now() - this.began;
      this.time.textContent = `first ${span(this.first)}`;
    }
    if (event.type === "text" || event.type === "thinking") this.grow(event.type, event.text);
    else if (event.type === "call") { this.block("call", h("p.calling", h("span.dot"), h("strong", event.name))); this.held = ""; this.kind = "call"; }
    else if (event.type === "arguments") { this.held += event.text; this.now?.querySelector("code")?.remove(); this.now?.append(h("code", ` ${visible(this.held.slice(0, 300))}`)); }
    else if (event.type === "question") { this.ask(event).scrollIntoView({ block: "start" }); return; }
    else if (event.type === "result") this.block("result", h(`details.call.${event.failed ? "bad" : "good"}`, h("summary", h("span.dot"), `Result of ${event.result.name}`), plain((event.result.content || []).map((part) => part.text || `[${part.type}]`).join(""))));
    else if (event.type === "notice") this.block("notice", h("p.quiet", event.text));
    else if (event.type === "failed") { this.failed = true; this.block("fault", h("p.fault", { role: "alert" }, event.message)); }
  }

  block(kind, node) { this.draw(); this.kind = kind; this.now = node; this.body.append(node); }

  grow(kind, piece) {
    if (this.kind !== kind) { this.block(kind, kind === "thinking" ? h("p.thinking.open") : h("div")); this.held = ""; }
    this.held += piece;
    this.paint();
  }

  draw() {
    if (this.kind === "text") replace(this.now, prose(this.held));
    else if (this.kind === "thinking") this.now.textContent = visible(this.held.slice(-2000));
  }

  ask(event) {
    const answer = async (allow) => {
      box.focus({ preventScroll: true });  // a button that is disabled loses the focus to nobody
      for (const each of box.querySelectorAll("button")) each.disabled = true;
      try { await call(`talk/answers/${event.id}`, { body: { allow } }); box.classList.add(allow ? "allowed" : "refused"); } catch (error) { box.append(h("p.fault", error.message)); }
    };
    const box = h("section.question", { role: "alertdialog", "aria-label": `Allow ${event.tool}?`, tabindex: "-1" }, h("p", h("strong", `Allow ${event.tool}?`)),
      event.caution ? h("p.chip.caution", event.caution) : null, h("pre.code", event.shown),
      h("div.actions", h("button.primary", { type: "button", onclick: () => answer(true) }, "Allow once"), h("button", { type: "button", onclick: () => answer(false) }, "Refuse")));
    this.block("question", box);
    // Not out of what somebody is typing: the next letter would be an answer.
    if (!document.activeElement?.value) box.querySelector("button:last-child").focus({ preventScroll: true });
    return box;
  }

  end() { this.draw(); this.node.classList.remove("coming"); if (this.stopped) this.block("notice", h("p.quiet", "Stopped.")); }
}
