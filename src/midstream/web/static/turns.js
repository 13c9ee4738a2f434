// One turn of a conversation as people read it.

import { h, replace, money, span, count, size, when } from "./dom.js";
import { prose, plain, code, jsonCode, visible } from "./text.js";

export const WHO = { human: "You", ai: "Model", tool: "Tools", system: "System" };

export function turnNode(row, { seam, wires, fork } = {}) {
  const nodes = [];
  if (row.seam && seam) nodes.push(seam(row));
  const results = row.speaker === "tool";
  if (results && !row.blocks.length) return [...nodes, h("span.anchor", { id: `turn-${row.index}` })];
  const who = row.compacted ? "Summary" : row.speaker === "ai" ? row.model || "Model" : row.role || WHO[row.speaker];
  nodes.push(h(`article.turn.${row.speaker}`, { id: `turn-${row.index}`, "aria-label": `${who}, turn ${row.index}` },
    h("header", h("span.who", who), row.failure ? h("span.chip.bad", `failed: ${row.failure}`) : null,
      h("span.facts", facts(row)),
      wires ? h("a.small", { href: wires(row), title: "The exact request of this turn, on two wires side by side" }, "wires") : null,
      fork ? h("button.small", { type: "button", title: "A new conversation that begins with the turns up to this one", onclick: () => fork(row) }, "fork") : null,
      row.index === "new" ? null : h("a.permalink", { href: permalink(row.index), title: "A link to this turn", "aria-label": `Link to turn ${row.index}` }, `#${row.index}`)),
    row.blocks.map(blockNode),
    row.tools ? h("p.quiet", `Tools from here on: ${row.tools.join(", ")}`) : null));
  return nodes;
}

function permalink(index) {
  const [, , id] = location.hash.split("?")[0].split("/");
  return `#/c/${id}/${index}`;
}

function facts(row) {
  const tokens = row.tokens;
  return [
    tokens ? h("span", { title: `${count(tokens.read)} tokens read${tokens.cached ? `, ${count(tokens.cached)} of them from the cache` : ""}; ${count(tokens.output)} written${tokens.reasoning ? `, ${count(tokens.reasoning)} of them reasoning` : ""}` }, `${count(tokens.read)} \u2192 ${count(tokens.output)} tokens`) : null,
    row.cost !== null && row.cost !== undefined ? h("span", money(row.cost)) : null,
    row.ttft !== undefined && row.ttft !== null ? h("span", { title: "Until the first piece came" }, `first ${span(row.ttft)}`) : null,
    row.ms !== undefined ? h("span", span(row.ms)) : null,
    row.at !== undefined ? h("span", { title: "When the answer was complete" }, when(row.at)) : null,
  ];
}

export function blockNode(block) {
  switch (block.type) {
    case "text": return prose(block.text);
    case "thinking": return thinkingNode(block);
    case "call": return callNode(block);
    case "result": return h("div.call", h("div.result", h("span.quiet", `A result of ${block.name || "a tool"} that answers no call`), block.parts.map(partNode)));
    case "media": return mediaNode(block);
    default: return h("details.opaque", h("summary", `Only its host understands this: ${block.kind}`), code(block.json || "", "json"));
  }
}

export function thinkingNode(block) {
  const words = block.text.trim() ? null : block.hidden || "empty";
  if (words) return h("p.thinking.quiet", `Thinking (${words}${block.signed ? ", signed" : ""})`);
  const first = block.text.trim().slice(0, 90).replace(/\s+/g, " ");
  return h("details.thinking", h("summary", h("span.label", "Thinking"), h("span.peek", { dir: "auto" }, visible(first))), plain(block.text));
}

export function callNode(block) {
  const arguments_ = oneLine(block.arguments);
  const result = block.result;
  const state = !result ? "open" : result.failed ? "bad" : "good";
  return h(`details.call.${state}`,
    h("summary", h("span.dot", { "aria-hidden": "true" }), h("span.name", block.name), h("span.peek", visible(arguments_.slice(0, 120))),
      h("span.state", !result ? "no result" : result.failed ? "failed" : size(resultLength(result)))),
    h("div.inside",
      h("p.ids", h("span", { title: "The id that midstream gave it" }, block.id), block.raw_id ? h("span", { title: "What its host called it" }, ` \u2190 ${visible(block.raw_id)}`) : null),
      block.freeform ? code(block.arguments) : jsonCode(block.arguments),
      result ? h("div.result", result.parts.map(partNode)) : h("p.quiet", "No result is stored.")));
}

function oneLine(text) {
  if (text.length > 2000) return text.slice(0, 200);
  try {
    const value = JSON.parse(text);
    if (value && typeof value === "object" && !Array.isArray(value)) return Object.entries(value).map(([name, each]) => `${name}: ${typeof each === "string" ? each : JSON.stringify(each)}`).join(", ");
  } catch { /* broken JSON is shown as it is */ }
  return text;
}

const resultLength = (result) => result.parts.reduce((sum, part) => sum + (part.text?.length || part.bytes || 0), 0);

export function partNode(part) {
  return part.type === "text" ? plain(part.text) : blockNode(part);
}

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

function mediaNode(media) {
  const about = [media.kind, media.mime, media.name, media.bytes ? size(media.bytes) : "", media.url || ""].filter(Boolean).map(visible).join(" \u00b7 ");
  if (media.data && IMAGES.includes(media.mime) && /^[A-Za-z0-9+/=]+$/.test(media.data)) {
    return h("figure", h("img", { src: `data:${media.mime};base64,${media.data}`, alt: media.name || "An image of this turn", loading: "lazy" }), h("figcaption", about));
  }
  return h("p.media", about);
}

/** A change of model, with its report when it is in sight. */
export function seamNode(from, to, load) {
  const report = h("div.report", { "aria-live": "polite" });
  const node = h("section.seam", { "aria-label": `The model changes from ${from} to ${to}` },
    h("p", h("span", from), h("span.arrow", " \u2192 "), h("strong", to)), report);
  const watch = new IntersectionObserver(async ([seen]) => {
    if (!seen.isIntersecting) return;
    watch.disconnect();
    try { replace(report, reportNode(await load())); } catch (error) { replace(report, h("p.quiet", error.message)); }
  });
  watch.observe(node);
  return node;
}

export function reportNode(rows) {
  return h("ul.report-rows", rows.map((row) => h(`li.${row.label.replace(/\W+/g, "-")}`, h("span.label", row.label), h("span", visible(row.text)))));
}
