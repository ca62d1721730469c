/** Shows how each [MASK] is filled, the answer on a pair, and a classifier's. */
function buildPredictions() {
  byId("masks-panel").hidden = data.masks.length === 0;
  byId("masks").replaceChildren(...data.masks.map(maskBlock));
  byId("pair-panel").hidden = data.next_sentence === null;
  if (data.next_sentence) byId("pair").replaceChildren(pairTable(data.next_sentence));
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
      make("figure", {}, make("figcaption", {}, courseTitle(mask)), courseChart(mask)),
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

function barCell(shown, share) {
  const cell = make("td", { class: "number bar" }, shown);
  cell.style.setProperty("--share", `${100 * share}%`);
  return cell;
}

/** Makes the table of the next-sentence head: the likelier answer is marked. */
function pairTable(answer) {
  const best = answer.follows >= answer.random ? "follows" : "random";
  const rows = ["follows", "random"].map((key) =>
    make(
      "tr",
      { class: key === best ? "chosen" : "" },
      make("td", {}, word(key)),
      barCell(percent(answer[key]), answer[key]),
    ),
  );
  const headings = ["pair_answer", "probability"].map((key) => make("th", { scope: "col" }, word(key)));
  return make(
    "table",
    { class: "classes" },
    make("thead", {}, make("tr", {}, ...headings)),
    make("tbody", {}, ...rows),
  );
}

function classBlock({ problem, classes, attribution }) {
  const hasChances = problem !== "regression";
  const rows = [...classes]
    .sort((a, b) => b.logit - a.logit)
    .map((one) => {
      const share = hasChances ? one.probability : 0;
      const cell = barCell(hasChances ? percent(one.probability) : "–", share);
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
    const piece = make("span", { class: `tinted ${side}`, title: word("labelled", names[i], num(scores[i])) }, token);
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
