// What each model's dialect demands.

import { h, replace, short } from "./dom.js";
import { call, keep } from "./api.js";

const COLUMNS = [
  ["Model", (card) => [h("strong", card.name), card.name === card.model ? null : h("span.quiet", ` = ${card.model}`)]],
  ["Wire", (card) => card.wire],
  ["Dialect", (card) => card.dialect],
  ["Ids of calls", (card) => h("code", card.ids)],
  ["Tools as", (card) => card.tool_format],
  ["Reasoning", (card) => card.reasoning],
  ["Schemas", (card) => card.schema],
  ["Instructions", (card) => card.system],
  ["Reads", (card) => ["text", ...card.media].join(", ")],
  ["Window", (card) => card.context ? short(card.context) : ""],
  ["$ / M tokens", (card) => card.input_price === null ? "" : `${card.price_is_estimate ? "~" : ""}${card.input_price} / ${card.output_price}`],
  ["Key", (card) => h(`span.chip.${card.ready ? "good" : "plain"}`, card.ready ? card.key || "not needed" : "not set")],
];

export async function open(root, { query }) {
  const cards = await call("models");
  const body = h("tbody");
  const filter = h("input.search", { type: "search", placeholder: "Filter models", "aria-label": "Filter models", value: query.get("q"), oninput: () => { keep("models", { q: filter.value }); draw(); } });
  const total = h("p.quiet", { role: "status" });
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = cards.filter((card) => words.every((word) => `${card.name} ${card.wire} ${card.dialect} ${card.ids}`.toLowerCase().includes(word)));
    total.textContent = `${rows.length} model${rows.length === 1 ? "" : "s"}`;
    replace(body, rows.map((card) => h("tr", COLUMNS.map(([, cell], at) => h(at ? "td" : "th", at ? { "data-label": COLUMNS[at][0] } : { scope: "row" }, cell(card))))));
  };
  replace(root, h("h1.unseen", "Models"), h("div.bar", filter, total), h("div.scroll.sheet", { tabindex: "0", role: "region", "aria-label": "Models" },
    h("table", h("thead", h("tr", COLUMNS.map(([label]) => h("th", { scope: "col" }, label)))), body)));
  draw();
}
