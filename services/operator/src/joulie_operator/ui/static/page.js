// Connects to the operator, and shows what it sends. Names and reasons are text of others: they are never markup.

import { fetchDevices, gpus } from "./devices.js";
import { showDomains } from "./domains.js";
import { Grid } from "./grid.js";
import { ASLEEP, CLASSES, Model, share } from "./model.js";
import { age, counted, details, percent, savings, watts } from "./text.js";

// Time of each frame that may be spent on tiles, in milliseconds.
const FRAME_BUDGET_MS = 5;
// Without an event for that long, the data is called old.
const LATE_S = 5;
const RETRY_MS = 10_000;
// Changes are announced to screen readers together, once in that time.
const ANNOUNCE_MS = 30_000;
const MOST_HISTORY = 200;
// The GPUs of the node whose details are shown are asked for so often.
const DEVICES_MS = 5_000;

const byId = (id) => document.getElementById(id);
const model = new Model();
const announcements = [];
let pending = new Map();
let frame = 0;
let state = null;
let heardAt = null;
let ahead = 0;
let connected = false;
let shown = null;
let devices = null;
let said = "";
// Whether the totals are to be shown with the first nodes, and not by the timer.
let totalsDue = true;

const grid = new Grid(byId("grid"), { onOpen: open, onEscape: close });

// The operator's clock, in seconds: that of the browser may be wrong.
const now = () => Date.now() / 1000 + ahead;

function connect() {
  const source = new EventSource("events");
  const on = (name, take) => source.addEventListener(name, (event) => {
    heardAt = performance.now();
    connected = true;
    take(JSON.parse(event.data));
  });
  on("start", start);
  on("nodes", ({ tiles, gone }) => {
    for (const values of tiles) pending.set(values[0], values);
    for (const name of gone) pending.set(name, null);
    frame ||= requestAnimationFrame(draw);
  });
  on("history", addHistory);
  on("domains", (sent) => showDomains(byId("domains"), sent));
  on("state", (sent) => {
    state = sent;
    ahead = sent.now - Date.now() / 1000;
    showState();
  });
  source.addEventListener("error", () => {
    connected = false;
    showState();
    // The browser reconnects by itself, unless it was refused.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY_MS);
  });
}

function start({ tileFields }) {
  pending = new Map();
  model.start(tileFields);
  totalsDue = true;
  grid.clear();
  byId("history").replaceChildren();
}

function draw() {
  const until = performance.now() + FRAME_BUDGET_MS;
  const time = now();
  frame = 0;
  for (const [name, values] of pending) {
    pending.delete(name);
    if (values === null) {
      model.remove(name);
      grid.remove(name);
    } else {
      grid.set(model.set(values), time);
      if (name === shown) grid.select(name);
    }
    if (performance.now() > until) break;
  }
  if (pending.size > 0) {
    frame = requestAnimationFrame(draw);
  } else if (totalsDue) {
    totalsDue = false;
    showTotals();
  }
}

function cell(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (tag === "th") made.scope = "row";
  return made;
}

function showTotals() {
  const names = model.sums[ASLEEP].nodes > 0 ? [...CLASSES, ASLEEP] : CLASSES;
  const rows = [...names.map((name) => [name, model.sums[name]]), ["all", model.total()]];
  byId("totals").replaceChildren(...rows.map(([name, sum]) => {
    const row = document.createElement("tr");
    const known = sum.nodes > sum.unknown;
    // Of no node at all the draw is zero; of nodes without readings it is not.
    const sumOf = (value) => (name === ASLEEP ? "-" : known || sum.nodes === 0 ? watts(value) : "unknown");
    row.append(
      cell("th", name), cell("td", `${sum.nodes}`), cell("td", sumOf(sum.watts)), cell("td", sumOf(sum.cappedWatts)),
      cell("td", known && name !== ASLEEP ? percent(share(sum.watts, sum.cappedWatts)) : "-"), cell("td", counted(sum.unknown, "node")),
      cell("td", `${sum.performancePods}`), cell("td", `${sum.standardPods}`),
    );
    return row;
  }));
  const elsewhere = (state?.performancePods ?? 0) - model.total().performancePods;
  byId("demand").textContent = state
    ? `Demand: ${counted(state.performancePods, "active performance pod")}, ${Math.max(0, elsewhere)} of them waiting for a node or on nodes that are not shown.`
    : "";
  byId("savings").hidden = !state?.savings;
  byId("savings").textContent = state?.savings ? savings(state.savings) : "";
  byId("empty").hidden = state === null || model.tiles.size > 0;
}

function addHistory(entries) {
  const list = byId("history");
  for (const [, at, node, before, after, reason, message] of entries) {
    const item = document.createElement("li");
    const time = cell("time", new Date(at * 1000).toLocaleTimeString());
    time.dateTime = new Date(at * 1000).toISOString();
    const what = before ? `${node}: ${before} to ${after}` : `${node}: caps not enforced`;
    const why = cell("span", [reason, message].filter(Boolean).join(" - "));
    why.className = "why";
    item.append(time, what, why);
    list.prepend(item);
    // What happened before the page was opened is no news.
    if (at > now() - ANNOUNCE_MS / 1000) announcements.push(what);
  }
  while (list.childElementCount > MOST_HISTORY) list.lastElementChild.remove();
  byId("history-empty").hidden = list.childElementCount > 0;
}

function showState() {
  const oldS = heardAt === null ? null : (performance.now() - heardAt) / 1000;
  const live = connected && oldS !== null && oldS < LATE_S;
  const data = oldS === null ? "no data yet" : `data ${age(oldS)} old`;
  byId("connection").dataset.state = live ? "live" : "lost";
  byId("connection-text").textContent = `${live ? "live" : connected ? "silent" : "not connected"}, ${data}`;
  const notices = [];
  if (state && !state.leading) {
    notices.push("This replica is not the leader: it shows what its watches know and decides nothing.");
  }
  for (const [name, reason] of Object.entries(state?.staleWatches ?? {})) {
    notices.push(`${name} may be out of date: ${reason}.`);
  }
  byId("notice").hidden = notices.length === 0;
  if (byId("notice").textContent !== notices.join(" ")) byId("notice").textContent = notices.join(" ");
  const words = `${live ? "connected" : "connection lost"}${state && !state.leading ? ", this replica is not the leader" : ""}`;
  if (words !== said && heardAt !== null) {
    said = words;
    byId("announcer").textContent = words;
  }
}

function announce() {
  if (announcements.length === 0) return;
  const latest = announcements.at(-1);
  byId("announcer").textContent = announcements.length === 1
    ? latest : `${counted(announcements.length, "change")}, the latest: ${latest}`;
  announcements.length = 0;
}

function open(name) {
  shown = name;
  devices = null;
  grid.select(name);
  showDetails();
  refreshDevices();
  byId("details").hidden = false;
  document.body.classList.add("with-details");
  byId("details-heading").focus();
}

function close() {
  if (shown === null) return;
  byId("details").hidden = true;
  document.body.classList.remove("with-details");
  const name = shown;
  shown = null;
  grid.select(null);
  grid.focus(name);
}

async function refreshDevices() {
  const name = shown;
  if (name === null) return;
  const found = await fetchDevices(name);
  if (name !== shown) return;
  devices = found;
  showDetails();
}

function showDetails() {
  const tile = model.tiles.get(shown);
  byId("details-heading").textContent = shown;
  const terms = tile ? [...details(tile, now()), ...gpus(devices)] : [["node", "not there any more"]];
  byId("details-list").replaceChildren(...terms.flatMap(([term, text]) => [cell("dt", term), cell("dd", text)]));
}

byId("details-close").addEventListener("click", close);
byId("details").addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
});
setInterval(() => {
  grid.refresh(now());
  showTotals();
  showState();
  if (shown !== null) showDetails();
}, 1000);
setInterval(refreshDevices, DEVICES_MS);
setInterval(announce, ANNOUNCE_MS);
connect();
