// Long lists, of which only what is in sight is in the document.

import { h, eachFrame } from "./dom.js";

/** Rows of one height. `row(at)` gives a node, at once; `total` may change. With `identity(at)` a row that is still there keeps
 * its node when others come before it: a list that moves must lose neither the focus nor a click. */
export class FixedList {
  constructor(height, row, { label, identity }) {
    this.height = height;
    this.row = row;
    this.identity = identity;
    this.total = 0;
    this.inner = h("div.window");
    this.node = h("div.windowed", { tabindex: "0", role: "region", "aria-label": label }, this.inner);
    this.drawn = new Map();
    this.paint = eachFrame(() => this.draw());
    this.node.addEventListener("scroll", this.paint, { passive: true });
    new ResizeObserver(this.paint).observe(this.node);
  }

  set(total) {
    this.total = total;
    this.note?.remove();
    if (!this.identity) this.clear();
    this.node.style.setProperty("--rows", `${total * this.height || 144}px`);
    this.draw();  // not with the next frame: what is there now is in this one
  }

  /** Nothing but a word about why there is nothing. */
  say(note) { this.set(0); this.clear(); this.note = note; this.inner.append(note); }

  clear() {
    // Who stands on a row that is made again stays there.
    if (this.inner.contains(document.activeElement)) this.focused = document.activeElement.dataset.key;
    this.drawn.clear();
    this.inner.replaceChildren();
  }

  draw() {
    this.inner.style.height = this.total ? `${this.total * this.height}px` : "";
    const first = Math.max(0, Math.floor(this.node.scrollTop / this.height) - 6);
    const last = Math.min(this.total, first + Math.ceil((this.node.clientHeight || 600) / this.height) + 12);
    const held = this.drawn, focused = document.activeElement?.dataset.key || this.focused;
    this.focused = "";
    this.drawn = new Map();
    for (let at = first; at < last; at += 1) {
      const key = this.identity ? this.identity(at) : at;
      const node = held.get(key) || this.row(at);
      if (!node) continue;
      held.delete(key);
      node.style.transform = `translateY(${at * this.height}px)`;
      node.style.height = `${this.height}px`;
      this.drawn.set(key, node);
    }
    for (const node of held.values()) node.remove();
    // In the order in which they are seen, for who comes by Tab; what is in its place already is not touched.
    let next = this.inner.firstChild;
    for (const node of this.drawn.values()) {
      if (node === next) next = next.nextSibling;
      else this.inner.insertBefore(node, next);
    }
    if (focused && !document.activeElement?.dataset.key) this.inner.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  /** Rows whose contents came later are made again. */
  refresh() { this.clear(); this.paint(); }
}

const CHUNK = 25;

/** Rows of any height, loaded and drawn by chunks: a chunk that was seen keeps its height when it leaves. */
export class ChunkList {
  constructor(total, load, draw, { guess = 140 } = {}) {
    this.load = load;
    this.drawRow = draw;
    this.guess = guess;
    this.node = h("div.chunks");
    this.chunks = [];
    this.watch = new IntersectionObserver((seen) => {
      for (const each of seen) (each.isIntersecting ? this.show : this.hide).call(this, each.target.chunk);
    }, { rootMargin: "1200px 0px" });
    this.grow(total);
  }

  grow(total) {
    this.total = total;
    while (this.chunks.length * CHUNK < total) {
      const chunk = { first: this.chunks.length * CHUNK, state: "away", node: h("div.chunk") };
      chunk.node.chunk = chunk;
      chunk.node.style.minHeight = `${Math.min(CHUNK, total - chunk.first) * this.guess}px`;
      this.chunks.push(chunk);
      this.node.append(chunk.node);
      this.watch.observe(chunk.node);
    }
  }

  async show(chunk) {
    chunk.wanted = true;
    if (chunk.state !== "away") return;
    chunk.state = "coming";
    const rows = await this.load(chunk.first, Math.min(chunk.first + CHUNK, this.total)).catch((error) => { chunk.state = "away"; throw error; });
    if (!chunk.wanted) { chunk.state = "away"; return; }
    chunk.node.replaceChildren(...rows.flatMap((row) => this.drawRow(row)));
    chunk.node.style.minHeight = "";
    chunk.state = "here";
    this.onshown?.(chunk.first);
  }

  hide(chunk) {
    chunk.wanted = false;
    // Only what is far away and large in number leaves; an unfolded result must not fold itself while it is read.
    if (chunk.state !== "here" || this.chunks.length < 8) return;
    chunk.node.style.minHeight = `${chunk.node.offsetHeight}px`;
    chunk.node.replaceChildren();
    chunk.state = "away";
  }

  /** Bring a row into sight; one that was in sight before, to where it was. */
  async reach(index, top) {
    const chunk = this.chunks[Math.floor(index / CHUNK)];
    if (!chunk) return;
    chunk.node.scrollIntoView({ block: "start" });
    await this.show(chunk);
    for (let tries = 0; tries < 60 && chunk.state !== "here"; tries += 1) await new Promise((done) => setTimeout(done, 25));
    const node = document.getElementById(`turn-${index}`);
    if (!node) return;
    if (top !== undefined) return this.hold(node, top);
    node.scrollIntoView({ block: "center" });
    node.classList.add("found");
  }

  /** Keep a row where it is while what is around it comes, for a moment, or until somebody scrolls. */
  hold(node, top) {
    const back = () => { if (node.isConnected) scrollBy({ top: node.getBoundingClientRect().top - top, behavior: "instant" }); };
    const watch = new ResizeObserver(back);
    const end = () => watch.disconnect();
    for (const name of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(name, end, { once: true, passive: true });
    setTimeout(end, 2000);
    back();
    watch.observe(this.node);
  }

  end() { this.watch.disconnect(); }
}
