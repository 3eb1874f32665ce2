// What the page knows: tiles by node name, their sums by class. Pure: no document, no clock.

// The extender ignores numbers that are older.
export const STALE_S = 300;
export const ASLEEP = "asleep";
export const CLASSES = ["performance", "eco", "draining", "unknown"];

export function isStale(tile, now) {
  return tile.updated !== null && now - tile.updated > STALE_S;
}

// Share of the cap that is drawn, 1 at the cap; null where either is unknown.
export function share(watts, cappedWatts) {
  return watts === null || cappedWatts === null ? null : watts / cappedWatts;
}

const emptySum = () => ({ nodes: 0, watts: 0, cappedWatts: 0, unknown: 0, performancePods: 0, standardPods: 0 });

// The row of the totals that a tile counts in.
function rowOf(tile) {
  return tile.sleep_state === ASLEEP ? ASLEEP : tile.node_class;
}

function count(sum, tile, sign) {
  sum.nodes += sign;
  sum.performancePods += sign * tile.performance_pods;
  sum.standardPods += sign * (tile.pods - tile.performance_pods);
  // A node that is asleep draws nothing that caps concern, and that is known.
  if (tile.sleep_state === ASLEEP) return;
  if (tile.watts === null || tile.capped_watts === null) {
    sum.unknown += sign;
  } else {
    sum.watts += sign * tile.watts;
    sum.cappedWatts += sign * tile.capped_watts;
  }
}

export class Model {
  #fields = [];

  constructor() {
    this.start([]);
  }

  start(fields) {
    this.#fields = fields;
    this.tiles = new Map();
    this.sums = Object.fromEntries([...CLASSES, ASLEEP].map((name) => [name, emptySum()]));
  }

  // Takes a tile as it is sent, an array; returns it as an object.
  set(values) {
    const tile = Object.fromEntries(this.#fields.map((field, index) => [field, values[index]]));
    this.remove(tile.name);
    this.tiles.set(tile.name, tile);
    count(this.sums[rowOf(tile)], tile, 1);
    return tile;
  }

  remove(name) {
    const tile = this.tiles.get(name);
    if (tile !== undefined) {
      count(this.sums[rowOf(tile)], tile, -1);
      this.tiles.delete(name);
    }
  }

  total() {
    const total = emptySum();
    for (const sum of Object.values(this.sums)) {
      for (const key of Object.keys(total)) total[key] += sum[key];
    }
    return total;
  }
}
