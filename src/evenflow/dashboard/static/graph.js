// A graph of operators, by depth from left to right: where each is, and its share of the load.

import { percent } from "./format.js";
import { lineColour } from "./charts.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDE, HIGH, ACROSS, DOWN] = [176, 63, 48, 14];

function shape(tag, properties, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** For each node its depth: sources first, each other node behind its deepest input. */
function depths(nodes, edges) {
  const depth = nodes.map((node) => (node.source ? 0 : 1));
  for (let round = 0; round < nodes.length; round += 1) {
    for (const [from, to] of edges) depth[to] = Math.max(depth[to], depth[from] + 1);
  }
  return depth;
}

export function drawGraph(parent, region, tokens) {
  const text = JSON.stringify([region.operators, region.edges, region.sources, tokens]);
  if (parent.drawn === text) return;
  parent.drawn = text;
  const sources = region.sources.map((name) => ({ name, source: true, workers: [] }));
  const nodes = [...region.operators, ...sources];
  const place = (end) => (end < 0 ? region.operators.length + (-end - 1) : end);
  const edges = region.edges.map(([from, to]) => [place(from), to]).filter(([from, to]) => nodes[from] && nodes[to]);
  const depth = depths(nodes, edges);
  const filled = [];
  const spots = nodes.map((_node, number) => {
    const column = depth[number];
    filled[column] = (filled[column] ?? 0) + 1;
    return [4 + column * (WIDE + ACROSS), 4 + (filled[column] - 1) * (HIGH + DOWN)];
  });
  const width = 8 + filled.length * (WIDE + ACROSS) - ACROSS;
  const height = 8 + Math.max(...filled.map((count) => count ?? 0), 1) * (HIGH + DOWN) - DOWN;
  const label = nodes.map((n) => `${n.name}${n.workers.length ? ` on worker ${n.workers.join(", ")}` : ""}`).join("; ");
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Operators: ${label}` });
  for (const [from, to] of edges) {
    const [x1, y1, x2, y2] = [spots[from][0] + WIDE, spots[from][1] + HIGH / 2, spots[to][0], spots[to][1] + HIGH / 2];
    const bend = (x2 - x1) / 2;
    svg.append(shape("path", { d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, fill: "none", stroke: tokens.muted, "stroke-width": 1.2 }));
  }
  nodes.forEach((node, number) => {
    const [x, y] = spots[number];
    const tint = node.source ? tokens.muted : lineColour(node.workers[0] ?? 0);
    svg.append(shape("rect", { x, y, width: WIDE, height: HIGH, rx: 7, fill: tokens.fill, stroke: tint, "stroke-width": node.source ? 1 : 2 }));
    const name = node.name.length > 22 ? `${node.name.slice(0, 21)}…` : node.name;
    svg.append(shape("text", { x: x + 10, y: y + 19, fill: tokens.ink, "font-weight": 600 }, name));
    svg.append(shape("text", { x: x + 10, y: y + 36, fill: tokens.muted }, about(node)));
    svg.append(shape("text", { x: x + 10, y: y + 53, fill: tokens.muted }, costs(node)));
  });
  parent.replaceChildren(svg);
}

function about(node) {
  if (node.source) return "source";
  const where = node.workers.length > 3 ? `${node.workers.length} workers` : node.workers.map((w) => `w${w}`).join(" ");
  return `${where || node.kind}${node.endpoint ? " · endpoint" : ""}`;
}

function costs(node) {
  if (node.source || node.load === null) return "";
  return `load ${percent(node.load)}${node.energy === null ? "" : ` · energy ${+node.energy.toPrecision(3)}`}`;
}
