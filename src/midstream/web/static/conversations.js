// The list of conversations: search, filters, and only the rows that are in sight.

import { h, replace, later, when, money, count, turns } from "./dom.js";
import { call, keep, query } from "./api.js";
import { FixedList } from "./windows.js";
import { visible } from "./text.js";

const PAGE = 200;
const HEIGHT = 74;

export async function open(root, { query: asked }) {
  const wanted = { q: asked.get("q") || "", model: asked.get("model") || "", provider: asked.get("provider") || "", day: asked.get("day") || "", cost: asked.get("cost") || "" };
  let pages = new Map(), version = 0, thorough = "";
  const total = h("p.quiet", { role: "status", id: "total" });
  const list = new FixedList(HEIGHT, row, { label: "Conversations" });
  const search = h("input.search", { type: "search", placeholder: "Search every word that was said", value: wanted.q, "aria-label": "Search", oninput: later(() => change("q", search.value)) });
  const pick = (name, label) => h("select", { "aria-label": label, onchange: (event) => change(name, event.target.value) }, h("option", { value: "" }, label));
  const model = pick("model", "Any model"), provider = pick("provider", "Any provider"), day = pick("day", "Any day");
  const cost = pick("cost", "Any cost");
  // A link may name an amount, a model or a day that is not offered: what filters must be seen.
  const offered = ["0.001", "0.01", "0.1", "1", "10"];
  for (const least of [...offered, ...(wanted.cost && !offered.includes(wanted.cost) ? [wanted.cost] : [])]) cost.append(h("option", { value: least, selected: wanted.cost === least }, `at least $${least}`));
  replace(root, h("h1.unseen", "Conversations"), h("div.bar", search, h("div.filters", model, provider, day, cost), total), list.node);

  function change(name, value) {
    wanted[name] = value;
    keep("conversations", wanted);
    fetchAll();
  }

  async function fetchAll() {
    const now = ++version;
    thorough = "";
    let found = await first(now);
    // A quick search gives the newest of many turns: they are shown while the others are looked for.
    if (found?.partial) { thorough = "1"; found = await first(now); }
    // Costs are worked out in the background; look again until they are all there.
    if (found && found.digested < found.total) setTimeout(() => now === version && refresh(now), 1500);
  }

  /** The first page, and how many there are. */
  async function first(now) {
    pages = new Map();
    const found = await page(0, now);
    if (now !== version || !found) return null;
    total.textContent = found.partial ? "Searching \u2026" : summary(found);
    list.node.scrollTop = 0;
    list.set(found.total);
    if (!found.all) list.say(h("p.empty", "No conversations yet. ", h("a", { href: "#/talk" }, "Talk to a model"), "."));
    else if (!found.total && !found.partial) list.say(h("p.empty", "Nothing fits."));
    return found;
  }

  async function refresh(now) {
    pages = new Map();
    const found = await page(0, now);
    if (now !== version || !found) return;
    // There may be more by now, and then all rows moved down: the last one must not fall off the end.
    total.textContent = summary(found);
    list.set(found.total);
    if (found.digested < found.total) setTimeout(() => now === version && refresh(now), 3000);
  }

  async function page(number, now) {
    pages.set(number, null);
    const found = await call(`conversations?${query({ ...wanted, thorough, offset: number * PAGE, limit: PAGE })}`);
    if (now !== version) return null;
    pages.set(number, found.rows);
    return found;
  }

  function row(at) {
    const number = Math.floor(at / PAGE), rows = pages.get(number);
    if (rows === undefined) { const now = version; page(number, now).then(() => now === version && list.refresh()); }
    const info = rows?.[at % PAGE];
    if (!info) return h("div.row.waiting");
    const to = `#/c/${encodeURIComponent(info.id)}${info.hit ? `/${info.hit.turn}` : ""}`;
    return h(`a.row${info.hit ? ".hit" : ""}`, { href: to, "data-key": info.id },
      h("span.title", { dir: "auto" }, visible(info.title) || "(no words yet)"),
      info.hit ? snippet(info.hit) : h("span.models", info.models.slice(0, 6).map((name) => h("span.chip", name)), info.models.length > 6 ? h("span.chip", `+${info.models.length - 6}`) : null),
      h("span.facts", info.forked ? h("span.chip.fork", "fork") : null, h("span", turns(info.turns)), h("span", money(info.cost)), h("time", when(info.updated))));
  }

  function facet(select, rows, value) {
    if (value && !rows.some(([name]) => name === value)) rows = [[value, 0], ...rows];
    for (const [name, number] of rows) select.append(h("option", { value: name, selected: name === value }, `${name || "(none)"} (${count(number)})`));
  }

  await fetchAll();
  call("facets").then((found) => {
    facet(model, found.models, wanted.model);
    facet(provider, found.providers, wanted.provider);
    facet(day, found.days, wanted.day);
  }).catch(() => {});
  return () => { version += 1; };
}

const summary = ({ total, all }) => `${total === all ? "" : `${count(total)} of `}${count(all)} conversation${all === 1 ? "" : "s"}`;

function snippet(hit) {
  const made = [];
  let end = 0;
  for (const [from, to] of hit.marks) {
    if (from < end) continue;
    made.push(visible(hit.snippet.slice(end, from)), h("mark", visible(hit.snippet.slice(from, to))));
    end = to;
  }
  made.push(visible(hit.snippet.slice(end)));
  return h("span.snippet", { dir: "auto" }, h("span.chip", `turn ${hit.turn}`), made);
}
