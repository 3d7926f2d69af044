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
/* What is folded on the screen belongs on the paper. */
window.addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("main details:not([open])")) fold.open = true;
});

const offline = (silent) => {
  const note = document.getElementById("offline");
  if (note) note.hidden = !silent;
};
document.addEventListener("htmx:sendError", () => offline(true));
document.addEventListener("htmx:responseError", () => offline(true));
document.addEventListener("htmx:afterRequest", (event) => { if (event.detail.successful) offline(false); });

/* A list asks whether it still shows what is so: soon after a change, less often while nothing changes, not at all while
   nobody looks at it, and no two pages at the same moment. */
const POLL_LEAST = 5000;
const POLL_MOST = 12000;
let pollPause = POLL_LEAST;
const pollNow = () => {
  const list = document.querySelector("[data-poll]");
  if (list && !document.hidden && window.htmx) window.htmx.trigger(list, "poll");
};
const pollAgain = () => setTimeout(() => { pollNow(); pollAgain(); }, pollPause * (0.8 + 0.4 * Math.random()));
document.addEventListener("htmx:afterRequest", (event) => {
  if (!event.target.matches("[data-poll]")) return;
  pollPause = event.detail.xhr.status === 204 ? Math.min(pollPause * 1.5, POLL_MOST) : POLL_LEAST;
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  pollPause = POLL_LEAST;
  pollNow();
});
pollAgain();

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
