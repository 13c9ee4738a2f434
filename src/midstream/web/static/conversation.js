// One conversation: its facts, its family of forks, and its turns by windows.

import { h, replace, money, turns, when, save } from "./dom.js";
import { call, text, query } from "./api.js";
import { ChunkList } from "./windows.js";
import { turnNode, seamNode } from "./turns.js";
import { prose, visible } from "./text.js";

export async function open(root, { rest: [id, turn], me, seen }) {
  const path = `conversations/${encodeURIComponent(id)}`;
  const at = turn === undefined ? NaN : Number(turn);
  const first = call(`${path}/turns?${query({ from: 0, to: 25 })}`);
  first.catch(() => {});  // told by whoever draws them
  const info = await call(path);
  const loaded = new Map([[0, first]]);
  const wires = (row) => `#/wires/${encodeURIComponent(id)}/${row.index}`;
  const fork = async (row) => {
    // Calls go with their results, which are the turn behind theirs.
    const answered = row.blocks.some((block) => block.type === "call" && block.result);
    const made = await call(`${path}/fork`, { body: { at: row.index + (answered ? 2 : 1) } });
    location.hash = `#/c/${encodeURIComponent(made.id)}`;
  };
  const list = new ChunkList(info.turns,
    (from, to) => loaded.get(from) || call(`${path}/turns?${query({ from, to })}`),
    (row) => turnNode(row, { wires, fork, seam: (each) => seamNode(each.seam.from, each.seam.to, () => call(`${path}/seams/${each.index}`)) }));
  const jump = h("input.jump", { type: "number", min: "0", max: String(Math.max(0, info.turns - 1)), "aria-label": "Go to turn", onchange: () => list.reach(Number(jump.value)) });
  replace(root, h("div.reading",
    h("div.head",
      h("p.crumb", h("a", { href: "#/conversations" }, "Conversations"), " / ", info.id),
      h("h1.clamp", { dir: "auto", title: visible(info.title).slice(0, 1000) }, visible(info.title).slice(0, 300) || "(no words yet)"),
      h("p.facts", h("span", turns(info.turns)), info.cost === null ? null : h("span", money(info.cost)), h("span", when(info.updated)), info.models.map((name) => h("span.chip", name))),
      h("div.actions",
        info.turns ? h("a.button.primary", { href: `#/wires/${encodeURIComponent(id)}/${info.turns - 1}` }, "The same turn on every wire") : null,
        me.screens.includes("talk") ? h("a.button", { href: `#/talk/${encodeURIComponent(id)}` }, "Go on talking") : null,
        h("button", { type: "button", onclick: async () => save(`${id}.md`, await text(`${path}/export?format=markdown`), "text/markdown") }, "Export Markdown"),
        h("button", { type: "button", onclick: async () => save(`${id}.jsonl`, await text(`${path}/export`), "application/jsonl") }, "Export JSONL"),
        h("label.check", "Go to turn ", jump))),
    info.forks.length ? forkTree(info.forks, id) : null,
    info.system ? h("details.system", h("summary", h("span.label", "System prompt")), prose(info.system)) : null,
    list.node));
  // Who comes back sees the turn that was in sight: how far down it is depends on what was loaded around it.
  if (seen) list.reach(seen.turn, seen.top);
  else if (Number.isInteger(at) && at >= 0) list.reach(at);
  return () => list.end();
}

function forkTree(rows, id) {
  return h("section.forks", { "aria-label": "Forks" }, h("h2", "Forks"),
    h("ul", rows.map((row, at) => {
      const item = h("li", { "data-depth": row.depth }, row.depth ? h("span.branch", { "aria-hidden": "true" }, branch(rows, at)) : null,
        row.id === id ? h("strong", visible(row.title).slice(0, 100) || row.id) : h("a", { href: `#/c/${encodeURIComponent(row.id)}` }, visible(row.title).slice(0, 100) || row.id),
        h("span.quiet", ` ${turns(row.turns)}${row.at === null ? "" : `, forked at #${Math.max(0, row.at - 1)}`}`));
      return item;
    })));
}

/** The lines before a row: one goes on down where a sister of the row, or of its ancestor, follows. */
function branch(rows, at) {
  let drawn = "";
  for (let depth = 1; depth <= rows[at].depth; depth += 1) {
    const next = rows.slice(at + 1).find((row) => row.depth <= depth);
    const goesOn = next?.depth === depth;
    drawn += depth === rows[at].depth ? (goesOn ? "\u251c\u2500 " : "\u2514\u2500 ") : goesOn ? "\u2502  " : "   ";
  }
  return drawn;
}
