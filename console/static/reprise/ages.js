/* Ages count up in the page: a time that was "4 s ago" when the page came is "5 s ago" a second later, by the server's
   clock. And the word "Live" is shown only while the console answers. */
"use strict";

const ageNow = (() => {
  const said = document.querySelector('meta[name="server-time"]');
  const ahead = said ? Date.parse(said.content) - Date.now() : 0;
  return () => Date.now() + (Number.isFinite(ahead) ? ahead : 0);
})();

const ageCoarse = (seconds) => {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const parts = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 0, ""]];
  const [size, unit, small, sub] = parts.find(([least]) => seconds >= least);
  const rest = small ? Math.floor((seconds % size) / small) : 0;
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${sub}` : ""}`;
};

const ageText = (element) => {
  const seconds = (ageNow() - Date.parse(element.dateTime)) / 1000;
  if (!Number.isFinite(seconds)) return element.textContent;
  if ("elapsed" in element.dataset) return ageCoarse(Math.max(seconds, 0));
  if (seconds < -2) return `in ${ageCoarse(-seconds)}`;
  return seconds < 2 ? "just now" : `${ageCoarse(seconds)} ago`;
};

const ageAll = () => {
  for (const element of document.querySelectorAll("time[data-ago], time[data-elapsed]")) {
    const text = ageText(element);
    if (element.textContent !== text) element.textContent = text;
  }
};

const live = (answers) => { document.documentElement.dataset.live = answers ? "on" : "off"; };
document.addEventListener("htmx:sendError", () => live(false));
document.addEventListener("htmx:responseError", () => live(false));
document.addEventListener("htmx:afterRequest", (event) => { if (event.detail.successful) live(true); });
document.addEventListener("htmx:afterSwap", ageAll);

/* The foot of the rail says how old the list is: asked for on every page, as by a page that polls and not by a person. */
const askPolled = async () => {
  const foot = document.querySelector("[data-polled]");
  if (!foot || document.hidden) return;
  try {
    const answer = await fetch(foot.dataset.polled, { headers: { "HX-Request": "true" } });
    if (!answer.ok || answer.redirected || answer.status === 204) { live(false); return; }
    const made = document.createElement("template");
    made.innerHTML = await answer.text();
    foot.replaceWith(made.content);
    live(true);
  } catch {
    live(false);
  }
  ageAll();
};
setInterval(askPolled, 20000);
setInterval(ageAll, 1000);
ageAll();
live(true);
