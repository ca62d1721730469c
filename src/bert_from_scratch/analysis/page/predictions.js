const CHART = { width: 420, height: 190, left: 52, right: 92, top: 10, bottom: 26 };
const SVG = "http://www.w3.org/2000/svg";

/** Shows how each [MASK] is filled, and a classifier's answer. */
function buildPredictions() {
  byId("masks-panel").hidden = data.masks.length === 0;
  byId("masks").replaceChildren(...data.masks.map(maskBlock));
  byId("classes-panel").hidden = data.classification === null;
  if (data.classification) {
    byId("classes").replaceChildren(...classBlock(data.classification));
  }
}

function maskBlock(mask) {
  const answer = make("p", { class: "answer" });
  for (const guess of mask.layers.at(-1)) {
    answer.append(
      make("span", { class: "guess" }, make("b", {}, guess.token), ` ${percent(guess.probability)}`),
    );
  }
  return make(
    "article",
    {},
    make("h3", {}, word("mask_at", mask.position)),
    answer,
    make(
      "div",
      { class: "formation" },
      make("figure", {}, make("figcaption", {}, word("guesses")), guessTable(mask)),
      make("figure", {}, make("figcaption", {}, word("course")), courseChart(mask)),
    ),
  );
}

function guessTable(mask) {
  const rows = mask.layers.map((guesses, layer) => {
    const isLast = layer === mask.layers.length - 1;
    const name = layer === 0 ? word("embeddings") : word("layer_number", layer);
    const heading = isLast ? `${name} · ${word("answer")}` : name;
    const cells = guesses.map((guess) => {
      const cell = make("td", { title: percent(guess.probability) }, guess.token);
      paint(cell, guess.probability);
      return cell;
    });
    return make("tr", {}, make("th", { scope: "row" }, heading), ...cells);
  });
  return make("div", { class: "scroll" }, make("table", { class: "guesses" }, make("tbody", {}, ...rows)));
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
  chart.setAttribute("aria-label", word("course"));
  const highest = Math.max(...mask.courses.flatMap((course) => course.probabilities), 1e-9);
  const x = (layer) => left + (layer / numLayers) * (width - left - right);
  const y = (chance) => height - bottom - (chance / highest) * (height - top - bottom);
  for (const share of [0, 0.5, 1]) {
    const at = y(share * highest);
    chart.append(svg("line", { x1: left, x2: width - right, y1: at, y2: at, class: "grid" }));
    chart.append(svg("text", { x: left - 6, y: at + 3, class: "tick end" }, percent(share * highest)));
  }
  const every = Math.ceil((numLayers + 1) / 13);
  for (let layer = 0; layer <= numLayers; layer += every) {
    chart.append(svg("text", { x: x(layer), y: height - 8, class: "tick middle" }, String(layer)));
  }
  const places = spread(mask.courses.map((course) => y(course.probabilities.at(-1))));
  mask.courses.forEach((course, n) => {
    const points = course.probabilities.map((chance, layer) => `${x(layer)},${y(chance)}`);
    const line = svg("polyline", { points: points.join(" "), class: "course" });
    const label = svg("text", { x: width - right + 8, y: places[n] + 4, class: "word" }, course.token);
    for (const element of [line, label]) element.style.setProperty("--head", courseColour(n));
    chart.append(line, label);
  });
  return chart;
}

/** Moves labels apart that would lie on each other. */
function spread(places) {
  const order = places.map((_, n) => n).sort((a, b) => places[a] - places[b]);
  const moved = [...places];
  const lowest = CHART.height - CHART.bottom;
  order.forEach((n, k) => {
    if (k > 0) moved[n] = Math.max(moved[n], moved[order[k - 1]] + 14);
  });
  const excess = Math.max(0, moved[order.at(-1)] - lowest);
  if (excess > 0) {
    [...order].reverse().forEach((n, k) => {
      moved[n] = Math.min(moved[n], lowest - 14 * k);
    });
  }
  return moved;
}

function courseColour(n) {
  return `oklch(${isDark ? 0.76 : 0.55} 0.15 ${(250 + n * 72) % 360})`;
}

function classBlock({ problem, classes, attribution }) {
  const hasChances = problem !== "regression";
  const rows = [...classes]
    .sort((a, b) => b.logit - a.logit)
    .map((one) => {
      const share = hasChances ? one.probability : 0;
      const shown = hasChances ? percent(one.probability) : "–";
      const cell = make("td", { class: "number bar" }, shown);
      cell.style.setProperty("--share", `${100 * share}%`);
      return make(
        "tr",
        { class: one.label === attribution.label ? "chosen" : "" },
        make("td", {}, one.label),
        cell,
        make("td", { class: "number" }, num(one.logit)),
      );
    });
  const headings = ["class_name", "probability", "logit"].map((key) =>
    make("th", { scope: "col" }, word(key)),
  );
  return [
    make(
      "table",
      { class: "classes" },
      make("thead", {}, make("tr", {}, ...headings)),
      make("tbody", {}, ...rows),
    ),
    make("h3", {}, word("reasons", attribution.label)),
    attributedText(attribution),
    make("p", { class: "readout" }, word("complete", attribution)),
  ];
}

/** Writes the text with every token coloured by what it adds. */
function attributedText({ scores }) {
  const highest = Math.max(...scores.map(Math.abs)) || 1;
  const pieces = tokens.map((token, i) => {
    const side = scores[i] >= 0 ? "for" : "against";
    const piece = make("span", { class: `tinted ${side}`, title: num(scores[i]) }, token);
    piece.style.setProperty("--share", `${(85 * Math.abs(scores[i])) / highest}%`);
    return piece;
  });
  const key = make(
    "span",
    { class: "key" },
    make("span", { class: "tinted for sample" }, word("speaks_for")),
    make("span", { class: "tinted against sample" }, word("speaks_against")),
  );
  return make("div", {}, make("p", { class: "passage" }, ...pieces), key);
}
