// The GPUs of one node in the details panel: terms and descriptions, as `kubectl joulie devices` has them. Texts of others
// are never markup.

import { watts } from "./text.js";

const UNKNOWN = "unknown";

function bound(mhz, cap) {
  const parts = [];
  if (mhz !== undefined) parts.push(`${mhz} MHz`);
  if (cap !== undefined) parts.push(watts(Math.round(cap)));
  return parts.join(", ") || UNKNOWN;
}

function inForce(now) {
  if (now?.limited === undefined) return UNKNOWN;
  return now.limited ? bound(now.limitMhz, now.limitWatts) : "none";
}

function held(device) {
  const holders = device.holders.map((each) => `${each.namespace}/${each.pod} ${each.container}, ${each.workloadClass}`);
  const more = device.holderCount - holders.length;
  if (more > 0) holders.push(`and ${more} more`);
  const drawn = device.watts === undefined ? "draw unknown" : watts(Math.round(device.watts));
  const why = device.message ? `${device.reason}: ${device.message}` : device.reason;
  return `${device.heldAs} (${why}); ${drawn}; ${holders.join("; ") || "no holder"}`;
}

function limited(limit) {
  const would = limit.clockMhz === undefined && limit.watts === undefined ? "none" : bound(limit.clockMhz, limit.watts);
  const why = limit.message ? `${limit.reason}: ${limit.message}` : limit.reason;
  const parts = [`in force ${inForce(limit.now)}`, `would be ${would} (${why})`];
  if (limit.enforced) parts.push(`by class: ${limit.enforced.reason || UNKNOWN}`);
  return parts.join("; ");
}

// `devices`: as the operator answers; null where the agent does not follow them, undefined where that is not known.
export function gpus(devices) {
  if (devices === null) return [];
  if (devices === undefined) return [["GPUs", UNKNOWN]];
  return devices.flatMap((device) => [
    [`GPU ${device.index}`, held(device)],
    ...(device.classLimit ? [[`limit of GPU ${device.index}`, limited(device.classLimit)]] : []),
  ]);
}

// Returns the GPUs of a node; undefined where the operator does not answer.
export async function fetchDevices(name) {
  try {
    const answer = await fetch(`devices/${encodeURIComponent(name)}`);
    return answer.ok ? (await answer.json()).devices : undefined;
  } catch {
    return undefined;
  }
}
