const CHART = { width: 440, height: 190, left: 52, right: 116, top: 10, bottom: 26 };
const SVG = "http://www.w3.org/2000/svg";
const LEADER = 22;
const LABEL_STEP = 14;
// 再多就分不清颜色，也排不下标签
const MAX_COURSES = 8;

/** Returns the courses that are drawn: those of the best words. */
function drawnCourses(mask) {
  return mask.courses.slice(0, MAX_COURSES);
}

/** Says how many words are followed. */
function courseTitle(mask) {
  return word("course", drawnCourses(mask).length, mask.courses.length);
}

function svg(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

/** Draws the probabilities of the final words over the layers. */
function courseChart(mask) {
  const { width, height, left, right, top, bottom } = CHART;
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  chart.setAttribute("aria-label", courseTitle(mask));
  const courses = drawnCourses(mask);
  const highest = Math.max(...courses.flatMap((course) => course.probabilities), 1e-9);
  const x = (layer) => left + (layer / numLayers) * (width - left - right);
  const y = (chance) => height - bottom - (chance / highest) * (height - top - bottom);
  drawGrid(chart, x, y, highest);
  const places = spread(courses.map((course) => y(course.probabilities.at(-1))));
  courses.forEach((course, n) => {
    chart.append(...courseParts(course, x, y, places[n], courseColour(n, courses.length)));
  });
  return chart;
}

function drawGrid(chart, x, y, highest) {
  const { width, height, left, right } = CHART;
  for (const share of [0, 0.5, 1]) {
    const at = y(share * highest);
    chart.append(svg("line", { x1: left, x2: width - right, y1: at, y2: at, class: "grid" }));
    chart.append(svg("text", { x: left - 6, y: at + 3, class: "tick end" }, percent(share * highest)));
  }
  const every = Math.ceil((numLayers + 1) / 13);
  for (let layer = 0; layer <= numLayers; layer += every) {
    chart.append(svg("text", { x: x(layer), y: height - 8, class: "tick middle" }, String(layer)));
  }
}

/** Makes a curve, its label, and the thin line from one to the other. */
function courseParts({ token, probabilities }, x, y, place, colour) {
  const end = CHART.width - CHART.right;
  const points = probabilities.map((chance, layer) => `${x(layer)},${y(chance)}`);
  const context = document.createElement("canvas").getContext("2d");
  context.font = face(11, 600);
  const label = fit(context, token, CHART.right - LEADER - 6);
  const parts = [
    svg("polyline", { points: points.join(" "), class: "course" }),
    // 标签挪开后，由引线说明它属于哪条曲线
    svg("line", { x1: end, y1: y(probabilities.at(-1)), x2: end + LEADER - 4, y2: place, class: "leader" }),
    svg("text", { x: end + LEADER, y: place + 4, class: "word" }, label),
  ];
  for (const part of parts) part.style.setProperty("--head", colour);
  return parts;
}

/** Moves labels apart that would lie on each other, within the chart. */
function spread(places) {
  const order = places.map((_, n) => n).sort((a, b) => places[a] - places[b]);
  const moved = [...places];
  order.forEach((n, k) => {
    if (k > 0) moved[n] = Math.max(moved[n], moved[order[k - 1]] + LABEL_STEP);
  });
  const lowest = CHART.height - CHART.bottom;
  [...order].reverse().forEach((n, k) => {
    moved[n] = Math.min(moved[n], lowest - LABEL_STEP * k);
  });
  return moved;
}

/** Returns the colour of a curve: no two of a chart are alike. */
function courseColour(n, count) {
  const hue = (250 + (n * 360) / Math.max(count, 5)) % 360;
  return `oklch(${isDark ? 0.76 : 0.55} 0.15 ${hue.toFixed(1)})`;
}
