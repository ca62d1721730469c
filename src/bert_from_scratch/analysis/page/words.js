const STRINGS = { en: ENGLISH, zh: CHINESE };

let language = navigator.language.startsWith("zh") ? "zh" : "en";

/** Returns the words for a key in the reader's language. */
function word(key, ...values) {
  const found = STRINGS[language][key];
  return typeof found === "function" ? found(...values) : found;
}

/** Writes a number with at most three decimals. */
function num(value) {
  return value.toFixed(3).replace("-", "−");
}

/** Writes what attributions lack, as a percentage of the difference. */
function missing({ gap, logit, baseline_logit: baseline }) {
  const share = Math.abs(gap / (logit - baseline));
  // 两端分数相同时没有百分比可言
  if (!Number.isFinite(share)) return "–";
  return share < 0.00005 ? "< 0.01 %" : percent(share);
}

/** Writes a weight as a percentage: two decimals where it is small. */
function percent(value) {
  return `${(100 * value).toFixed(value < 0.1 ? 2 : 1)} %`;
}
