// What was spent, by model and by day. The plots are drawn from nodes, one for each bar, as wide as their place.

import { h, s, replace, money, count, short } from "./dom.js";
import { call } from "./api.js";
import { visible } from "./text.js";

const DAYS = 60, TALL = 200, WIDEST = 56, COLOURS = 8, LEFT = 64;

export async function open(root) {
  let open_ = true, found = null, drawn = 0;
  async function draw() {
    found = await call("usage");
    if (!open_) return;
    show();
    if (found.pending) setTimeout(() => open_ && draw(), 1000);
  }
  function show() { drawn = root.clientWidth; replace(root, ...page(found, drawn)); }
  const watch = new ResizeObserver(() => { if (found && root.clientWidth !== drawn) show(); });
  watch.observe(root);
  await draw();
  return () => { open_ = false; watch.disconnect(); };
}

function page(found, room) {
  const rows = found.rows, models = sums(rows, (row) => row.model);
  const names = [...models.keys()].sort((one, other) => models.get(other).cost - models.get(one).cost || models.get(other).output - models.get(one).output);
  const days = [...new Set(rows.map((row) => row.day))].sort();
  const all = sums(rows, () => "all").get("all") || { cost: 0, input: 0, output: 0, answers: 0 };
  if (!rows.length) return [h("div.head", h("h1", "Usage")), h("p.empty", found.pending ? "Adding up \u2026" : "Nothing was used yet.")];
  const wide = Math.max(260, room - (room > 620 ? 84 : 62));
  const by = days.length > DAYS ? `by day, the last ${DAYS} with any` : "by day";
  return [
    h("div.head", h("h1", "Usage"), h("p", "Each answer counts once, on the day it was given. ", found.undated ? `${count(found.undated)} without a time of their own count on the day their conversation was last changed. ` : "", found.pending ? `Still adding up ${count(found.pending)} conversations.` : "", found.unpriced.length ? ` No price is known for ${some(found.unpriced.map(visible))}.` : "")),
    h("dl.figures", [["Dollars", money(all.cost)], ["Tokens read", short(all.input)], ["Tokens written", short(all.output)], ["Answers", count(all.answers)]].map(([label, figure]) => h("div", h("dt", label), h("dd", figure)))),
    h("section.card", h("h2", `Dollars ${by}`), plot(rows, days, names, "cost", money, wide), legend(names.filter((name) => models.get(name).cost), names)),
    h("section.card", h("h2", `Tokens ${by}`), plot(rows.map((row) => ({ ...row, tokens: row.input + row.output })), days, names, "tokens", short, wide), legend(names, names)),
    h("section.card", h("h2", "By model"), h("div.scroll", { tabindex: "0", role: "region", "aria-label": "By model" }, h("table", h("thead", h("tr", ["Model", "Answers", "Read", "from the cache", "Written", "Dollars"].map((label) => h("th", { scope: "col" }, label)))),
      h("tbody", names.map((name, at) => { const sum = models.get(name); return h("tr", h("th", { scope: "row" }, h(`span.key.thread-${at % COLOURS}`), visible(name)), h("td", count(sum.answers)), h("td", count(sum.input)), h("td", count(sum.cache_read)), h("td", count(sum.output)), h("td", !found.unpriced.includes(name) ? money(sum.cost) : sum.cost ? `at least ${money(sum.cost)}` : "unknown")); }))))),
  ];
}

const some = (names, most = 4) => names.length <= most + 1 ? names.join(", ") : `${names.slice(0, most).join(", ")} and ${count(names.length - most)} more`;

function sums(rows, key) {
  const made = new Map();
  for (const row of rows) {
    const sum = made.get(key(row)) || { answers: 0, input: 0, output: 0, cache_read: 0, cost: 0 };
    for (const name of Object.keys(sum)) sum[name] += row[name];
    made.set(key(row), sum);
  }
  return made;
}

function legend(shown, names) {
  return h("ul.legend", shown.slice(0, 24).map((name) => h("li", h(`span.key.thread-${names.indexOf(name) % COLOURS}`), visible(name))));
}

function plot(rows, days, names, field, shown, room) {
  const wide = room - LEFT, last = days.slice(-DAYS), values = new Map();
  for (const row of rows) values.set(`${row.day} ${row.model}`, (values.get(`${row.day} ${row.model}`) || 0) + row[field]);
  const total = (day) => names.reduce((sum, name) => sum + (values.get(`${day} ${name}`) || 0), 0);
  const most = Math.max(...last.map(total), 1e-9), step = Math.min(WIDEST, wide / last.length), room_ = TALL - 14;
  const made = [0, 0.5, 1].map((part) => [
    s("line", { x1: LEFT, x2: room, y1: TALL - part * room_, y2: TALL - part * room_ }),
    s("text", { x: LEFT - 8, y: TALL - part * room_ + 4, "text-anchor": "end" }, part ? shown(most * part) : "0")]);
  // As many dates as have room beside each other.
  const each = Math.max(1, Math.ceil(44 / step));
  last.forEach((day, at) => {
    let base = TALL;
    names.forEach((name, number) => {
      const value = values.get(`${day} ${name}`);
      if (!value) return;
      const tall = Math.max(1, value / most * room_);
      base -= tall;
      made.push(s(`rect.thread-${number % COLOURS}`, { x: LEFT + at * step + step * 0.12, y: base, width: Math.max(1.5, step * 0.76), height: Math.max(0.5, tall - 1) }, s("title", `${day}, ${visible(name)}: ${shown(value)}`)));
    });
    if (at % each === 0) made.push(s("text", { x: LEFT + at * step + step / 2, y: TALL + 18, "text-anchor": "middle" }, day.slice(5)));
  });
  return s("svg.plot.days", { viewBox: `0 0 ${room} ${TALL + 26}`, width: room, height: TALL + 26, role: "img", "aria-label": `${field} by day, at most ${shown(most)}` }, made);
}
