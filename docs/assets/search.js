// Whoever pastes an error into the search means its words. To the search, ^, ~, *, +, - and a colon are operators, and quotes ask for
// every word between them, so `String should match pattern '^[a-zA-Z0-9_-]+$'` would find nothing.
document.addEventListener("paste", (event) => {
  const field = event.target;
  if (!(field instanceof HTMLInputElement) || !field.matches(".md-search__input")) return;
  const words = (event.clipboardData.getData("text").match(/[\p{L}\p{N}]{2,}/gu) ?? []).join(" ");
  event.preventDefault();
  field.setRangeText(words, field.selectionStart, field.selectionEnd, "end");
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true }));
});
