/* The little that HTML cannot do: "/" goes to the search, copy buttons, and a word when the console is silent.
   Every page works without it. */
"use strict";

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const field = document.querySelector('[data-focus-key="/"]');
  if (!field || field.offsetParent === null) return;
  event.preventDefault();
  field.focus();
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button || !navigator.clipboard) return;
  const said = button.querySelector("[data-said]") || button;
  const before = said.textContent;
  try {
    await navigator.clipboard.writeText(button.dataset.copy.replace("{here}", location.href));
    said.textContent = "Copied";
  } catch {
    said.textContent = "Could not copy";
  }
  setTimeout(() => { said.textContent = before; }, 2000);
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-print]")) window.print();
});

const offline = (silent) => {
  const note = document.getElementById("offline");
  if (note) note.hidden = !silent;
};
document.addEventListener("htmx:sendError", () => offline(true));
document.addEventListener("htmx:responseError", () => offline(true));
document.addEventListener("htmx:afterRequest", (event) => { if (event.detail.successful) offline(false); });

/* A log that is followed stays at its end; one that was scrolled up stays where it is. */
let follow = true;
document.addEventListener("htmx:beforeSwap", () => {
  const log = document.getElementById("log");
  follow = !log || log.scrollTop + log.clientHeight >= log.scrollHeight - 24;
});
const toEnd = () => {
  const log = document.getElementById("log");
  if (log && follow) log.scrollTop = log.scrollHeight;
};
document.addEventListener("htmx:afterSwap", toEnd);
toEnd();

document.documentElement.dataset.script = "on";
