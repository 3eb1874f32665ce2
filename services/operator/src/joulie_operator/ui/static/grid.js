// The grid of tiles: a box for each rack, one tile for each node, one of them in the tab order.

import { ASLEEP, isStale, share } from "./model.js";
import { describe, watts } from "./text.js";

const BADGES = { performance: "P", eco: "E", draining: "D", unknown: "?" };
// A node that is not awake: its state stands for its class.
const SLEEP_BADGES = {
  cordoned: "z", draining: "z", "powering-off": "z", asleep: "Z", waking: "W", quarantined: "Q",
};
// With more nodes than that, a tile shows its badge only.
const MOST_LARGE = 300;
// With more nodes than that, racks outside the window are not laid out. Chromium then leaves their tiles out of the
// accessibility tree, until keys or scrolling reach them.
const MOST_LAID_OUT = 1000;
const collator = new Intl.Collator("en", { numeric: true });

function element(tag, className, attributes = {}) {
  const made = document.createElement(tag);
  made.className = className;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// node-2 comes before node-10, and nodes without a rack come last.
function order(one, other) {
  return (one === "") - (other === "") || collator.compare(one, other);
}

// Where `name` is, or belongs, in a sorted list of objects with names.
function position(list, name) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (order(list[middle].name, name) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

function insert(list, item, parent) {
  const index = position(list, item.name);
  parent.insertBefore(item.element, list[index]?.element ?? null);
  list.splice(index, 0, item);
}

function drop(list, item) {
  item.element.remove();
  list.splice(list.indexOf(item), 1);
}

function classOf(tile, now) {
  if (tile.sleep_state === ASLEEP) return "tile asleep";
  const drawn = share(tile.watts, tile.capped_watts);
  const step = drawn === null ? "unknown" : drawn > 1 ? "s5" : `s${Math.min(4, Math.floor(drawn * 5))}`;
  const stale = isStale(tile, now) ? " stale" : "";
  return `tile ${step}${stale}${tile.node_class === "draining" ? " draining" : ""}`;
}

export class Grid {
  #racks = [];
  #cells = new Map();
  #current = null;
  #selected = null;
  #large = true;
  // Name of the node that had the focus when all tiles went; it gets it back.
  #refocus = null;

  // `onOpen(name)` is called when a node is to be shown, `onEscape()` when Escape is pressed.
  constructor(root, { onOpen, onEscape }) {
    this.root = root;
    root.classList.add("large");
    root.addEventListener("keydown", (event) => (event.key === "Escape" ? onEscape() : this.#onKey(event, onOpen)));
    root.addEventListener("click", (event) => {
      const cell = this.#cellOf(event.target);
      if (cell) {
        this.#focus(cell);
        onOpen(cell.name);
      }
    });
    root.addEventListener("focusin", (event) => {
      const cell = this.#cellOf(event.target);
      if (cell) this.#makeCurrent(cell);
    });
  }

  clear() {
    this.#refocus = this.#cellOf(document.activeElement)?.name ?? this.#refocus;
    this.root.replaceChildren();
    this.#racks = [];
    this.#cells.clear();
    this.#current = null;
    this.#selected = null;
  }

  set(tile, now) {
    let cell = this.#cells.get(tile.name);
    if (cell && cell.rack.name !== tile.rack) {
      this.remove(tile.name);
      cell = undefined;
    }
    if (!cell) cell = this.#add(tile);
    cell.tile = tile;
    this.#draw(cell, now);
  }

  remove(name) {
    const cell = this.#cells.get(name);
    if (!cell) return;
    const { rack } = cell;
    const focused = document.activeElement === cell.element;
    const index = rack.cells.indexOf(cell);
    drop(rack.cells, cell);
    this.#cells.delete(name);
    if (rack.cells.length === 0) drop(this.#racks, rack);
    if (this.#selected === cell) this.#selected = null;
    if (this.#current === cell) {
      this.#current = null;
      const next = rack.cells[index] ?? rack.cells.at(-1) ?? this.#racks[0]?.cells[0];
      if (next) focused ? this.#focus(next) : this.#makeCurrent(next);
    }
  }

  // Draws what the passing of time has changed, and the tiles in another size if there are many now.
  refresh(now) {
    const large = this.#cells.size <= MOST_LARGE;
    const resized = large !== this.#large;
    this.#large = large;
    this.root.classList.toggle("large", large);
    this.root.classList.toggle("many", this.#cells.size > MOST_LAID_OUT);
    for (const cell of this.#cells.values()) {
      if (resized || isStale(cell.tile, now) !== cell.stale) this.#draw(cell, now);
    }
  }

  select(name) {
    this.#selected?.element.removeAttribute("aria-selected");
    this.#selected = this.#cells.get(name) ?? null;
    this.#selected?.element.setAttribute("aria-selected", "true");
  }

  focus(name) {
    const cell = this.#cells.get(name) ?? this.#current;
    if (cell) this.#focus(cell);
  }

  #add(tile) {
    const made = element("div", "tile", { role: "gridcell", tabindex: "-1" });
    const rack = this.#racks[position(this.#racks, tile.rack)];
    const cell = { name: tile.name, element: made, rack: rack?.name === tile.rack ? rack : this.#addRack(tile.rack) };
    made.cell = cell;
    this.#cells.set(tile.name, cell);
    insert(cell.rack.cells, cell, cell.rack.body);
    if (!this.#current) this.#makeCurrent(cell);
    if (cell.name === this.#refocus) {
      this.#refocus = null;
      if (document.activeElement === document.body) this.#focus(cell);
    }
    return cell;
  }

  #addRack(name) {
    const title = name || "no rack label";
    const box = element("div", "rack", { role: "row", "aria-label": title });
    const heading = element("div", "rack-name", { role: "rowheader" });
    heading.textContent = title;
    const body = element("div", "tiles", { role: "presentation" });
    box.append(heading, body);
    const rack = { name, element: box, body, cells: [] };
    insert(this.#racks, rack, this.root);
    return rack;
  }

  #draw(cell, now) {
    const { element: made, tile } = cell;
    cell.stale = isStale(tile, now);
    made.className = classOf(tile, now);
    made.setAttribute("aria-label", describe(tile, now));
    const badge = `${SLEEP_BADGES[tile.sleep_state] ?? BADGES[tile.node_class]}${tile.problem ? "!" : ""}`;
    if (!this.#large) {
      made.textContent = badge;
      return;
    }
    const name = element("span", "tile-name");
    name.textContent = ` ${tile.name}`;
    const drawn = element("span", "tile-watts");
    const unknown = tile.sleep_state === ASLEEP ? ASLEEP : "unknown";
    drawn.textContent = tile.watts === null ? unknown : `${watts(tile.watts)} of ${watts(tile.capped_watts)}`;
    made.replaceChildren(badge, name, drawn);
  }

  #onKey(event, onOpen) {
    const cell = this.#cellOf(event.target);
    if (!cell || event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onOpen(cell.name);
      return;
    }
    const next = this.#next(cell, event.key, event.ctrlKey);
    if (next === undefined) return;
    event.preventDefault();
    if (next) this.#focus(next);
  }

  // The tile that a key leads to: null at an edge, undefined for other keys.
  #next({ rack, ...cell }, key, ctrl) {
    const racks = this.#racks;
    const at = racks.indexOf(rack);
    const index = rack.cells.findIndex((each) => each.name === cell.name);
    const columns = getComputedStyle(rack.body).gridTemplateColumns.split(" ").length;
    const before = racks[at - 1]?.cells;
    const after = racks[at + 1]?.cells;
    switch (key) {
      case "ArrowLeft": return rack.cells[index - 1] ?? before?.at(-1) ?? null;
      case "ArrowRight": return rack.cells[index + 1] ?? after?.[0] ?? null;
      case "ArrowUp": return rack.cells[index - columns] ?? before?.[Math.min(lastRow(before, columns) + (index % columns), before.length - 1)] ?? null;
      case "ArrowDown": {
        const lower = rack.cells[index + columns];
        if (lower || index < lastRow(rack.cells, columns)) return lower ?? rack.cells.at(-1);
        return after?.[Math.min(index % columns, after.length - 1)] ?? null;
      }
      case "Home": return ctrl ? racks[0].cells[0] : rack.cells[0];
      case "End": return ctrl ? racks.at(-1).cells.at(-1) : rack.cells.at(-1);
      case "PageUp": return before?.[0] ?? rack.cells[0];
      case "PageDown": return after?.[0] ?? rack.cells.at(-1);
      default: return undefined;
    }
  }

  #cellOf(target) {
    return target.closest?.("[role=gridcell]")?.cell;
  }

  #makeCurrent(cell) {
    this.#current?.element.setAttribute("tabindex", "-1");
    this.#current = cell;
    cell.element.setAttribute("tabindex", "0");
  }

  #focus(cell) {
    this.#makeCurrent(cell);
    cell.element.focus();
    cell.element.scrollIntoView({ block: "nearest" });
  }
}

// Index of the first tile in the last row.
function lastRow(cells, columns) {
  return Math.floor((cells.length - 1) / columns) * columns;
}
