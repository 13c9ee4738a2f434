// Live traffic: newest first, one stream of news, one repaint a frame however many come.

import { h, s, replace, eachFrame, when, money, span, size, count, copyButton, curlOf, unhidden } from "./dom.js";
import { call, events, keep, query, Refused } from "./api.js";
import { FixedList } from "./windows.js";
import { jsonCode, code, visible, plain } from "./text.js";

const MOST = 2000, HEIGHT = 40;

export async function open(root, { rest: [picked], query: asked, isOpen }) {
  const rows = new Map();
  let order = [], paused = false, waiting = [], stopped = false, last = "", looked = 0, shown = 0, pushed = false;
  const stop = new AbortController();
  const list = new FixedList(HEIGHT, row, { label: "Exchanges, newest first", identity: (at) => order[at] });
  const state = h("span.chip.plain", { role: "status" }, "connecting");
  const total = h("span.quiet");
  const detail = h("section.detail", { "aria-label": "One exchange", hidden: true, tabindex: "-1", onkeydown: (event) => { if (event.key === "Escape") leave(); } });
  const pause = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
    if (!paused) { take(waiting); waiting = []; }
    paint();
  } }, "Pause");
  const filter = h("input.search", { type: "search", placeholder: "Filter: model, status, wire, error", "aria-label": "Filter", value: asked.get("q"), oninput: () => { keep(place(), { q: filter.value }); paint(); } });
  replace(root, h("h1.unseen", "Live"),
    h("div.bar", filter, h("div.filters", pause, h("button", { type: "button", onclick: async () => { await call("live/clear", { body: {} }); rows.clear(); waiting = []; paint(); } }, "Clear"), state, total)),
    h("div.live", h("div.traffic", h("div.row.exchange.titles", { "aria-hidden": "true" }, ["Time", "Client \u2192 model", "Status", "Tokens", "Cost", "First", "Took", "Notes"].map((label) => h("span", label))), list.node), detail));

  const paint = eachFrame(() => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    order = [...rows.values()].sort((one, other) => other.number - one.number);
    if (wanted.length) order = order.filter((each) => { const text = `${each.wire} ${each.asked} ${each.model} ${each.status} ${each.error} ${each.path} ${each.tenant}`.toLowerCase(); return wanted.every((word) => text.includes(word)); });
    total.textContent = `${count(order.length)} exchange${order.length === 1 ? "" : "s"}${paused && waiting.length ? `, ${count(waiting.length)} waiting` : ""}`;
    if (order.length) list.set(order.length);
    else list.say(h("p.empty", rows.size ? "Nothing fits." : "Nothing yet. Requests show up here as they come."));
  });

  function take(news) {
    for (const each of news) rows.set(each.number, each);
    if (rows.size > MOST) for (const number of [...rows.keys()].sort((one, other) => one - other).slice(0, rows.size - MOST)) rows.delete(number);
  }

  function row(at) {
    const each = order[at];
    const style = each.open ? "open" : each.status >= 400 || each.error ? "bad" : "good";
    return h(`button.row.exchange.${style}`, { type: "button", "data-key": each.number, onclick: () => go(each.number) },
      h("span", when(each.when, { exact: true })),
      h("span.path", h("span.chip", each.wire || each.path), visible(each.asked === each.model || !each.asked ? "" : `${each.asked} \u2192 `), h("strong", visible(each.model || (each.open ? "\u2026" : each.path)))),
      h(`span.status.${style}`, each.open ? "\u2022\u2022\u2022" : String(each.status), each.error ? h("span.why", ` ${each.error}`) : null),
      h("span", each.input || each.output ? `${count(each.input)} \u2192 ${count(each.output)}` : ""), h("span", money(each.cost)),
      h("span", span(each.ttft)), h("span", span(each.ms)), h("span", each.notes ? h("span.chip.caution", String(each.notes)) : ""));
  }

  const place = () => `live${shown ? `/${shown}` : ""}`;

  /** To the place of one, which Back leaves: for the list, whichever was open last. */
  function go(number) {
    const to = `#/live/${number}${filter.value ? `?${query({ q: filter.value })}` : ""}`;
    if (shown) return location.replace(to);
    pushed = true;
    location.hash = to;
  }

  /** Open one; `again` once it has ended: then what is read stays in its place, and the focus where it is. */
  async function look(number, again = false) {
    shown = number;
    const found = await call(`live/${number}`).catch((error) => ({ failed: error.message }));
    if (!isOpen() || shown !== number) return;
    looked = found.open ? number : 0;
    detail.hidden = false;
    const tab = again ? [...detail.querySelectorAll("[role=tab]")].findIndex((each) => each.ariaSelected === "true") : -1, top = detail.scrollTop;
    replace(detail, h("button.close", { type: "button", "aria-label": "Close", onclick: leave }, "\u00d7"), found.failed ? h("p.fault", found.failed) : exchange(found, tab));
    if (!again) detail.focus();
    detail.scrollTop = again ? top : 0;
  }

  /** Back to the list, where it is the place before this one. */
  function leave() { if (pushed) history.back(); else close(); }

  function close() {
    const row = list.node.querySelector(`[data-key="${shown}"]`), seen = !detail.hidden;
    detail.hidden = true;
    pushed = false;
    looked = shown = 0;
    keep("live", { q: filter.value });
    if (seen) (row || list.node).focus();
  }

  async function follow() {
    while (!stopped) {
      try {
        const news = events("live", { headers: last ? { "last-event-id": last } : {}, signal: stop.signal });
        state.textContent = "live";
        state.className = "chip good";
        for await (const each of news) {
          last = each.id;
          // All there are: what is in sight is of a program that was stopped since, and its numbers mean others here.
          if (each.name === "anew") { rows.clear(); waiting = []; }
          if (paused) { waiting.push(...each.data); if (waiting.length > MOST) waiting = waiting.slice(-MOST); } else take(each.data);
          if (looked && each.data.some((row) => row.number === looked && !row.open)) look(looked, true);
          paint();
        }
      } catch (error) {
        if (stopped) return;
        // Nobody's any more: it would never go on, and the frame says how to enter again.
        if (error instanceof Refused && error.status === 401) throw error;
      }
      state.textContent = "again in a moment";
      state.className = "chip caution";
      await new Promise((done) => setTimeout(done, 1000));
    }
  }

  paint();
  follow();
  const to = ([number]) => number ? look(Number(number) || -1) : shown && close();
  to([picked]);
  return Object.assign(() => { stopped = true; stop.abort(); }, { to });
}

function exchange(found, tab) {
  const tabs = [
    ["Client\u2019s wire", () => found.wire === "page" ? [h("p.quiet", "This page asked, in Talk: there is no client\u2019s wire.")] : [h("p.line", h("code", visible(`${found.method} ${found.address}`))), headers(found.headers), body(found.client.text, found.client.cut), h("h3", "Answer"), body(found.answer.text, found.answer.cut)]],
    ["Canonical", () => [found.notes.map((note) => h(`p.note.${note.action}`, h("span.label", `${note.action} ${note.what}`), visible(note.why), h("code.quiet", note.code))), found.conversation ? h("details", h("summary", "What was asked"), code(JSON.stringify(found.conversation, null, 2), "json")) : null, h("h3", "Answer"), found.turn ? code(JSON.stringify(found.turn, null, 2), "json") : h("p.quiet", "No answer was decoded.")]],
    ["Upstream\u2019s wire", () => found.upstream ? [h("p.line", h("code", found.upstream.line)), headers(found.upstream.headers), body(found.upstream.text), h("h3", `Answer${found.upstream.status ? `: ${found.upstream.status}` : ""}`), Object.keys(found.upstream.answer_headers).length ? headers(found.upstream.answer_headers) : null, found.upstream.answer ? body(found.upstream.answer, found.upstream.cut) : h("p.quiet", "Its bytes were not recorded.")] : [h("p.quiet", "Nothing was sent to a model.")]],
  ];
  const panel = h("div.panel", { role: "tabpanel" });
  const buttons = tabs.map(([label, make], at) => h("button", { type: "button", role: "tab", "aria-selected": String(at === 0), onclick: () => pick(at), onkeydown: (event) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = (to + tabs.length) % tabs.length;
    pick(next);
    buttons[next].focus();
  } }, label));
  const pick = (at) => {
    buttons.forEach((button, number) => { button.setAttribute("aria-selected", String(number === at)); button.tabIndex = number === at ? 0 : -1; });
    replace(panel, tabs[at][1]());
  };
  pick(tab >= 0 ? tab : found.wire === "page" ? 2 : 0);
  const unkept = found.kept ? null : h("p.quiet", "Only its figures were kept: more than 20 exchanges came in that second.");
  return [
    h("h2", visible(found.model || found.asked || found.path)), unkept,
    h("p.facts", h(`span.chip.${found.status >= 400 || found.error ? "bad" : "good"}`, `${found.status || "\u2026"} ${found.error}`), h("span", `${count(found.input)} \u2192 ${count(found.output)} tokens`), h("span", money(found.cost)), found.ttft === null ? null : h("span", `first ${span(found.ttft)}`), h("span", span(found.ms)), found.attempts > 1 ? h("span.chip.caution", `${found.attempts} attempts`) : null, h("span.quiet", found.id)),
    found.earlier.length ? h("p.quiet", `Before this answer: ${found.earlier.map(({ model, status, error }) => `${visible(model)} ${status || "no status"}${error ? ` (${error})` : ""}`).join(", ")}`) : null,
    timeline(found),
    curl(found) ? h("div.tools", copyButton(() => curl(found), "Copy as curl")) : null,
    h("div.tabs", { role: "tablist" }, buttons), panel];
}

/** When each piece arrived, and how large it was. */
function timeline(found) {
  const ways = [["to the client", found.timeline, "thread-1"], ["from the model", found.upstream?.timeline || [], "thread-0"]].filter(([, points]) => points.length);
  if (!ways.length) return null;
  const end = Math.max(found.ms || 0, ...ways.flatMap(([, points]) => points.map(([at]) => at)), 1);
  // As wide as its place, so that its words stay as large as the others.
  const wide = Math.max(260, Math.min(640, innerWidth < 900 ? innerWidth - 54 : innerWidth / 2 - 90)), most = Math.max(...ways.flatMap(([, points]) => points.map(([, bytes]) => bytes)), 1);
  return s("svg.plot.timeline", { viewBox: `0 0 ${wide} ${ways.length * 46 + 16}`, role: "img", "aria-label": `Pieces by time: ${ways.map(([label, points]) => `${points.length} ${label}`).join(", ")}, in ${span(end)}` },
    ways.map(([label, points, style], row) => [
      s("line", { x1: 0, x2: wide, y1: row * 46 + 44, y2: row * 46 + 44 }),
      s("text", { x: 0, y: row * 46 + 10 }, `${label}: ${points.length} piece${points.length === 1 ? "" : "s"}`),
      points.slice(0, 4000).map(([at, bytes]) => { const tall = 3 + Math.sqrt(bytes / most) * 26; return s(`rect.${style}`, { x: Math.min(wide - 2, at / end * wide), y: row * 46 + 44 - tall, width: 1.5, height: tall }, s("title", `${span(at)}: ${size(bytes)}`)); })]),
    s("text", { x: wide, y: ways.length * 46 + 12, "text-anchor": "end" }, span(end)));
}

const headers = (all) => h("details", h("summary", "Headers"), h("pre.json", Object.entries(all).map(([name, value]) => `${name}: ${visible(value)}\n`)));
const body = (text, cut) => [text.trimStart().startsWith("{") || text.trimStart().startsWith("[") ? jsonCode(text) : plain(text), cut ? h("p.quiet", "It was longer: only its beginning is kept.") : null];

/** The request once more: the client's to this gateway, or, of Talk, what went to the model. "" if not all of it is kept. */
function curl(found) {
  const upstream = found.wire === "page" ? found.upstream : null;
  const [method, address] = upstream ? upstream.line.split(" ") : [found.method, location.origin + found.address];
  const text = upstream ? upstream.text : found.client.text;
  if (!found.kept || (!upstream && (found.wire === "page" || found.client.cut || (found.method === "POST" && !found.client.bytes)))) return "";
  const skipped = ["host", "content-length", "connection", "accept-encoding", "transfer-encoding", "user-agent"];
  const headers = Object.entries(upstream ? upstream.headers : found.headers).filter(([name]) => !skipped.includes(name) && !name.startsWith("x-stainless"));
  return curlOf(method, unhidden(address), Object.fromEntries(headers), text);
}
