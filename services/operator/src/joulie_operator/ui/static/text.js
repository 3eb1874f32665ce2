// Numbers, ages and descriptions of nodes as text.

import { ASLEEP, isStale, share } from "./model.js";

const SLEEP_WORDS = {
  cordoned: "goes to sleep: takes no pods any more",
  draining: "goes to sleep: pods are being evicted",
  "powering-off": "goes to sleep: is being powered off",
  asleep: "asleep: powered off",
  waking: "waking: takes no pods yet",
  quarantined: "in quarantine: its boots have failed",
};
const PLURAL = new Intl.PluralRules("en");

export function watts(value) {
  if (value === null) return "unknown";
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)} MW`;
  return value >= 1e4 ? `${(value / 1e3).toFixed(1)} kW` : `${value} W`;
}

export function percent(value) {
  return value === null ? "unknown" : `${Math.round(100 * value)}%`;
}

export function age(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  return whole < 7200 ? `${Math.round(whole / 60)} min` : `${Math.round(whole / 3600)} h`;
}

export function counted(number, noun) {
  return `${number} ${noun}${PLURAL.select(number) === "one" ? "" : "s"}`;
}

// What Joulie saves at the moment by its own estimate; a lever of which nothing is known is in no sum.
export function savings(rates) {
  const known = rates.filter((rate) => rate.unknownShare < 1);
  if (known.length === 0) return "Estimated saving: not known.";
  const sum = (bound) => watts(Math.round(known.reduce((total, rate) => total + rate.watts[bound], 0)));
  const levers = rates.map(({ lever, watts: { middle }, unknownShare }) => {
    if (unknownShare >= 1) return `${lever} not known`;
    const unknown = unknownShare > 0 ? `, not known of ${percent(unknownShare)}` : "";
    return `${lever} ${watts(Math.round(middle))}${unknown}`;
  });
  return `Estimated saving: ${sum("middle")}, from ${sum("lower")} to ${sum("upper")}: ${levers.join("; ")}.`;
}

// The accessible name of a tile.
export function describe(tile, now) {
  if (tile.sleep_state === ASLEEP) return `${tile.name}, asleep: powered off`;
  const drawn = share(tile.watts, tile.capped_watts);
  const parts = [
    tile.name,
    tile.node_class === "unknown" ? "class unknown" : tile.node_class,
    drawn === null ? "power unknown" : `${watts(tile.watts)} of ${watts(tile.capped_watts)}, ${percent(drawn)} of its cap`,
  ];
  if (tile.sleep_state) parts.push(SLEEP_WORDS[tile.sleep_state] ?? tile.sleep_state);
  if (isStale(tile, now)) parts.push("stale");
  if (tile.problem) parts.push("caps not enforced");
  return parts.join(", ");
}

function draw(tile) {
  if (tile.sleep_state === ASLEEP) return "none: powered off";
  if (tile.watts === null) return "unknown";
  return `${watts(tile.watts)}, ${tile.measured ? "measured" : "modelled"} (${tile.source || "source unknown"})`;
}

// Terms and descriptions of the details panel.
export function details(tile, now) {
  const shown = [
    ["class", tile.node_class],
    ...(tile.sleep_state ? [["sleep", SLEEP_WORDS[tile.sleep_state] ?? tile.sleep_state]] : []),
    ["rack", tile.rack || "no rack label"],
    ["draw", draw(tile)],
    ["caps allow", watts(tile.capped_watts)],
    ["share", percent(share(tile.watts, tile.capped_watts))],
    ["pods", `${tile.performance_pods} performance, ${tile.pods - tile.performance_pods} standard`],
    ["twin", tile.updated === null ? "none" : `${age(now - tile.updated)} old${isStale(tile, now) ? ", stale" : ""}`],
    ["reason", tile.reason || "unknown"],
  ];
  if (tile.server_watts !== null) {
    shown.push(["whole server", `${watts(tile.server_watts)}, measured by its BMC (${tile.server_source})`]);
  }
  if (tile.problem) shown.push(["not enforced", tile.problem]);
  return shown;
}
