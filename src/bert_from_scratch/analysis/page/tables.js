const ROLE_COLUMNS = ["layer", "head", "role", "entropy", "distance", "previous", "next", "separator", "cls"];
const TOKEN_COLUMNS = [
  "position", "token", "input_id", "segment", "token_norm", "segment_norm", "position_norm",
];
const SHARES = new Set(["previous", "next", "separator", "cls"]);

let sorting = { column: "layer", falls: false };

/** Builds the table of heads in the order asked for. */
function buildRoles() {
  const headings = ROLE_COLUMNS.map((column) => {
    const button = make("button", { type: "button" }, word(column));
    button.addEventListener("click", () => sortRoles(column));
    const direction = sorting.falls ? "descending" : "ascending";
    const order = sorting.column === column ? direction : "none";
    return make("th", { scope: "col", "aria-sort": order }, button);
  });
  const rows = sortedHeads().map((head) => {
    const row = make("tr", {}, ...ROLE_COLUMNS.map((column) => roleCell(head, column)));
    row.dataset.head = `${head.layer}:${head.head}`;
    row.addEventListener("click", () => select(head.layer, head.head));
    return row;
  });
  byId("roles").replaceChildren(
    make("thead", {}, make("tr", {}, ...headings)),
    make("tbody", {}, ...rows),
  );
  markRole();
}

function sortedHeads() {
  const { column, falls } = sorting;
  const sign = falls ? -1 : 1;
  const compare = (a, b) => (a[column] < b[column] ? -sign : a[column] > b[column] ? sign : 0);
  return [...data.heads].sort(compare);
}

function sortRoles(column) {
  // 数字先看大的；层、头、角色先看小的
  const isName = ["layer", "head", "role"].includes(column);
  const isAgain = sorting.column === column;
  sorting = { column, falls: isAgain ? !sorting.falls : !isName };
  buildRoles();
  const place = ROLE_COLUMNS.indexOf(column);
  byId("roles").querySelectorAll("th button")[place].focus();
}

function roleCell(head, column) {
  const value = head[column];
  if (column === "role") {
    // 整行可点，这个按钮让键盘也能选
    const button = make("button", { type: "button", class: `role ${value}` }, word(value));
    button.setAttribute("aria-label", word("labelled", word("layer_head", head.layer, head.head), word(value)));
    return make("td", {}, button);
  }
  if (!SHARES.has(column)) {
    const isWhole = column === "layer" || column === "head";
    return make("td", { class: "number" }, isWhole ? String(value) : value.toFixed(2));
  }
  const cell = make("td", { class: "number bar" }, `${(100 * value).toFixed(1)} %`);
  cell.style.setProperty("--share", `${100 * value}%`);
  return cell;
}

/** Marks the row of the chosen head. */
function markRole() {
  const table = byId("roles");
  const before = table.querySelector("tr.chosen");
  const chosen = table.querySelector(`tr[data-head="${state.layer}:${state.head}"]`);
  before?.classList.remove("chosen");
  before?.removeAttribute("aria-current");
  chosen.classList.add("chosen");
  chosen.setAttribute("aria-current", "true");
}

/** Builds the table of tokens. */
function buildTokens() {
  const headings = TOKEN_COLUMNS.map((column) => make("th", { scope: "col" }, word(column)));
  const highest = Math.max(...data.tokens.map((token) => token.token_norm)) || 1;
  const rows = data.tokens.map((token) =>
    make("tr", {}, ...TOKEN_COLUMNS.map((column) => tokenCell(token, column, highest))),
  );
  byId("tokens").replaceChildren(
    make("thead", {}, make("tr", {}, ...headings)),
    make("tbody", {}, ...rows),
  );
}

function tokenCell(token, column, highest) {
  const value = token[column];
  if (column === "token") return make("td", {}, make("code", {}, value));
  if (!column.endsWith("_norm")) {
    const shown = column === "segment" ? "AB"[value] ?? String(value) : String(value);
    return make("td", { class: "number" }, shown);
  }
  const cell = make("td", { class: "number bar" }, value.toFixed(3));
  cell.style.setProperty("--share", `${Math.min(100, (100 * value) / highest)}%`);
  return cell;
}
