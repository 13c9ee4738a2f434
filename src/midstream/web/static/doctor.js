// Drop a history, see what is broken and who would refuse it, take the healed copy.

import { h, replace, count, save, size } from "./dom.js";
import { call, query } from "./api.js";
import { visible } from "./text.js";

export async function open(root) {
  const out = h("div", { "aria-live": "polite" });
  const file = h("input", { type: "file", class: "hidden-file", id: "history-file", onchange: () => {
    const chosen = file.files[0];
    file.value = "";  // else the same file, mended and chosen again, would be no change
    if (chosen) examine(chosen);
  } });
  const zone = h("label.drop", { for: "history-file" },
    h("strong", "Drop a history here"), h("span", " or choose a file"),
    h("span.quiet", "OpenAI or Anthropic messages, Responses items, a request body, kimi-cli\u2019s context, midstream\u2019s JSONL. It stays on this machine, and the file stays as it is."), file);
  replace(root, h("div.head", h("h1", "Doctor"), h("p", "What is broken in a history, which hosts would refuse it and in which words, and a copy that none refuses.")), zone, out);

  // Anywhere on the screen: a file dropped beside the box would otherwise be opened by the browser, in place of the page.
  const over = (event) => { event.preventDefault(); zone.classList.add("over"); };
  const leave = (event) => { if (!event.relatedTarget) zone.classList.remove("over"); };
  const drop = (event) => { event.preventDefault(); zone.classList.remove("over"); const dropped = event.dataTransfer.files[0]; if (dropped) examine(dropped); };
  const heard = { dragover: over, dragleave: leave, drop };
  for (const [name, hear] of Object.entries(heard)) addEventListener(name, hear);

  async function examine(dropped) {
    replace(out, h("p.quiet", `Examining ${visible(dropped.name)} (${size(dropped.size)}) \u2026`));
    try {
      const found = await call(`doctor?${query({ name: dropped.name })}`, { raw: await dropped.arrayBuffer() });
      replace(out, found.left_out ? h("p.chip.caution", { role: "status" }, `The first ${found.conversations.length} conversations of ${count(found.conversations.length + found.left_out)}. For all of them: midstream doctor FILE in a terminal.`) : null, found.conversations.map((each, number) => report(each, found, number)));
    } catch (error) { replace(out, h("div.fault", { role: "alert" }, h("p", error.message))); }
  }
  return () => { for (const [name, hear] of Object.entries(heard)) removeEventListener(name, hear); };
}

function report(each, found, number) {
  const broken = each.findings.length;
  return h("section.card", h("h2", found.conversations.length > 1 ? `Conversation ${number + 1}` : visible(found.name)),
    h(`p.verdict.${broken ? "bad" : "good"}`, broken ? `${broken} thing${broken > 1 ? "s are" : " is"} broken` : "Nothing is broken"),
    h("ul.findings", each.findings.map((finding) => line(finding, "bad")), each.cautions.map((finding) => line(finding, "caution"))),
    h("h3", "Sent unchanged, by the rules of each host\u2019s double"),
    h("ul.verdicts", each.verdicts.map((verdict) => h("li", h("span.host", verdict.host),
      verdict.problems.length
        ? h("span.words", verdict.problems.slice(0, 3).map((problem) => h("span.refusal", h("span.chip.bad", String(problem.status)), visible(problem.message), h("span.quiet", ` (${problem.basis})`))), verdict.problems.length + verdict.more > 3 ? h("span.quiet", `and ${verdict.problems.length + verdict.more - 3} more`) : null)
        : h("span.chip.good", "accepted")))),
    h("p", each.healed ? h("span.chip.good", "healed") : h("span.chip.bad", "refused even when healed"), " ", each.healed ? "The healed copy is accepted by every double." : "Please report this history."),
    number === 0 ? h("button.primary", { type: "button", onclick: () => save(`${found.name}.healed.jsonl`, found.healed, "application/jsonl") }, "Download the healed copy") : null);
}

const line = (finding, style) => h("li", h(`span.chip.${style}`, finding.turn === null ? finding.kind : `turn ${finding.turn} \u00b7 ${finding.kind}`), visible(finding.words));
