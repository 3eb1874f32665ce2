// The power domains as a table with bars. Names and reasons are text of others: they are never markup.

import { counted, watts } from "./text.js";

function cell(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (tag === "th") made.scope = "row";
  return made;
}

// Limits above an oversubscribed domain's own are none of a fault while its condition says that it is held.
function isRaised({ inForceWatts, usableWatts, oversubscribed, problem }) {
  return oversubscribed !== null && problem === "" && inForceWatts > (usableWatts ?? 0);
}

// A bar whose whole width is the limit, or what is most of the domain where that is more.
function picture(domain) {
  const bar = document.createElement("div");
  bar.className = "bar";
  bar.setAttribute("aria-hidden", "true");
  const { limitWatts, usableWatts, drawnWatts, inForceWatts, allocatedWatts, oversubscribed } = domain;
  const permitted = oversubscribed?.permittedWatts ?? 0;
  const whole = Math.max(limitWatts ?? 0, drawnWatts ?? 0, inForceWatts ?? 0, allocatedWatts ?? 0, permitted);
  const part = (name, value) => {
    const made = document.createElement("span");
    made.className = name;
    made.style.width = `${whole > 0 ? (100 * value) / whole : 0}%`;
    bar.append(made);
  };
  if (isRaised(domain)) {
    part("in-force raised", inForceWatts);
    part("in-force", usableWatts);
  } else if (inForceWatts !== null) part(inForceWatts > (usableWatts ?? 0) ? "in-force above" : "in-force", inForceWatts);
  if (drawnWatts === null) bar.classList.add("not-known");
  else part("drawn", drawnWatts);
  if (allocatedWatts !== null) part("allocated", allocatedWatts);
  if (usableWatts !== null) part("usable", usableWatts);
  if (oversubscribed !== null) part("permitted", permitted);
  return bar;
}

// The draw, with the nodes that are not in it.
function drawn({ drawnWatts, undrawnNodes }) {
  if (drawnWatts === null) return "unknown";
  return undrawnNodes > 0 ? `${watts(drawnWatts)}, ${counted(undrawnNodes, "node")} unknown` : watts(drawnWatts);
}

// The state of a domain in which nothing is wrong.
function held({ enforced, oversubscribed }) {
  if (!enforced) return "observed: nothing is lowered";
  if (oversubscribed === null) return "held";
  const { raised, permittedWatts, fallbackWatts, countedPercent, reason } = oversubscribed;
  const limits = raised ? `limits raised up to ${watts(permittedWatts)}` : `limits not raised: ${reason}`;
  return `held; ${limits}; nodes fall back to ${watts(fallbackWatts)}; ${countedPercent}% of what trips the breaker`;
}

function rowOf(domain) {
  const row = document.createElement("tr");
  const name = cell("th", domain.name);
  name.style.paddingLeft = `${Math.min(domain.depth, 8)}rem`;
  const shape = document.createElement("td");
  shape.append(picture(domain));
  const told = cell("td", domain.problem || held(domain));
  told.className = domain.problem ? "state problem" : "state";
  row.append(
    name, shape, cell("td", drawn(domain)), cell("td", watts(domain.inForceWatts)),
    cell("td", watts(domain.allocatedWatts)), cell("td", watts(domain.limitWatts)), told,
  );
  return row;
}

// Shows what was sent; the section is hidden where there is no domain.
export function showDomains(section, { bars, more }) {
  section.hidden = bars.length === 0;
  section.querySelector("tbody").replaceChildren(...bars.map(rowOf));
  section.querySelector(".more").textContent = more > 0 ? `and ${counted(more, "more domain")}` : "";
}
