"use strict";

/** All that the page says, in English. */
const ENGLISH = {
  other_language: "中文",
  skip: "Skip to attention",
  toolbar: "Layer and head",
  layer: "Layer",
  head: "Head",
  toolbar_one: "for head view, matrix and [CLS]",
  toolbar_many: (h) => `for head view and [CLS]; the matrix shows head ${h}`,
  all: "all",
  some_heads: (n, k) => `${k} of ${n}`,
  listed: (parts) => parts.join(", "),
  sentences: (parts) => parts.join(" "),
  labelled: (name, value) => `${name}: ${value}`,
  exact: "exact (float32)",
  rounded: "8-bit, within 1/510",
  facts: (m, n) =>
    `${n} tokens · ${m.num_hidden_layers} layers × ${m.num_attention_heads} heads · ` +
    `width ${m.hidden_size} · ${m.vocab_size.toLocaleString("en")} WordPieces · ` +
    `${(m.num_parameters / 1e6).toFixed(1)} M parameters · ${m.architecture}`,
  note_rounded: (layer) =>
    `The text is longer than 128 tokens: layer ${layer} is exact, the other layers are ` +
    `rounded to 8 bits for the pictures. Choose the exact one with --layer. ` +
    `The table of heads is computed from exact weights throughout.`,
  note_no_mlm: "This model has no masked-word head, so its [MASK] is not predicted.",
  note_no_mask: "Write [MASK] in the text to see what the model would fill in.",
  note_no_nsp:
    "This model has no trained next-sentence head, so it is not asked whether the second text follows.",
  note_head: (name) =>
    `The head of this model (${name}) is not shown here: attention and embeddings only.`,
  masks_title: "What stands at [MASK]?",
  masks_lead:
    "Every layer is read through the masked-word head, as if BERT ended there. The last row " +
    "is the model's answer; the curves follow its words through the layers.",
  mask_at: (n) => `[MASK] at position ${n}`,
  layer_number: (n) => `Layer ${n}`,
  embeddings: "embeddings",
  answer: "answer",
  guesses: "Best guesses after each layer",
  course: (k, n) =>
    `Probability of the ${k < n ? `${k} best` : "final"} words, layer by layer`,
  pair_title: "Does the second text follow the first?",
  pair_lead:
    "The next-sentence head (NSP) reads the pooled vector of [CLS]. It was trained to tell a text " +
    "that follows from one taken at random.",
  pair_answer: "answer",
  follows: "B follows A",
  random: "B is random",
  classes_title: "Class and reasons",
  classes_lead:
    "Integrated gradients: how much each token moves the score of a class, on the road from " +
    "a text of [PAD] to this one. Together they make up the difference, but for what is said below.",
  class_name: "class",
  probability: "probability",
  logit: "score",
  reasons: (label) => `What speaks for “${label}”, and what against`,
  speaks_for: "for",
  speaks_against: "against",
  complete: (a) =>
    `Score ${num(a.logit)}, without words ${num(a.baseline_logit)}; the tokens add ` +
    `${num(a.logit - a.baseline_logit - a.gap)}, ${a.gap.toExponential(1)} is missing, ` +
    `${missing(a)} of the difference (${a.num_points} points).`,
  heads_title: "Head view",
  heads_lead:
    "A line runs from each token on the left to what it looks at on the right: the stronger, " +
    "the more attention. Point at a token to see its lines alone; click to keep them.",
  heads_shown: "Heads shown",
  all_heads: "All heads",
  one_head: (n) => `Head ${n}`,
  minimum: "Lines from",
  looking: "Tokens that look",
  looked_at: "Tokens that are looked at",
  lines_rest: (n, k) => `${k} of ${n} heads. Arrow keys move from token to token, Escape shows all lines.`,
  lines_cut: (n, w) => `Only the ${n} strongest lines are drawn, from ${w} on.`,
  lines_no_head: "No head is switched on: choose one by its number.",
  lines_none: (w) => `No weight in view reaches ${w}: lower the slider.`,
  lines_left: (t, parts) => `“${t}” looks at ${parts}.`,
  lines_right: (t, parts) => `“${t}” is looked at by ${parts}.`,
  matrix_title: "Matrix view",
  matrix_lead:
    "All weights of one head. A row is a token that looks; every row sums to 1. The colour " +
    "follows the square root, and the top hundredth shares the strongest colour.",
  matrix_keys: "Attention matrix; arrow keys read single weights",
  matrix_rest: "Point at a cell, or use the arrow keys, to read its weight.",
  weight: (a, b, w) => `“${a}” → “${b}”  ${w}`,
  model_title: "Model view",
  model_lead: "Every head of every layer. Click one to see it large, or walk with the arrow keys.",
  model_keys: "All heads; arrow keys choose one",
  layer_head: (l, h) => `Layer ${l}, head ${h}`,
  roles_title: "What the heads do",
  roles_lead:
    "Means over the tokens of the text. The largest share on the previous token, the next " +
    "token, [SEP] or [CLS] names the role if it is at least 40 %; otherwise a head is broad if it is spread " +
    "as over half of all tokens (entropy ≥ log₂ S − 1 bits), else mixed. Click a heading to sort.",
  role: "role",
  entropy: "entropy",
  distance: "distance",
  previous: "previous",
  next: "next",
  separator: "[SEP]",
  cls: "[CLS]",
  broad: "broad",
  mixed: "mixed",
  cls_title: "What [CLS] looks at",
  cls_lead:
    "[CLS] stands for the whole text in sentence tasks. Below, its attention in the chosen " +
    "layer, as the mean of the heads shown in the head view.",
  cls_heads: (l, n, k) => `Layer ${l}, ${k === n ? `all ${n}` : `${k} of ${n}`} heads`,
  cls_layers: "In every layer, mean over all heads",
  cls_keys: "Attention of [CLS] by layer; arrow keys read single weights",
  cls_weight: (l, t, w) => `Layer ${l}, [CLS] → “${t}”  ${w}`,
  tokens_title: "Tokens and embeddings",
  tokens_lead:
    "What BERT reads: the sum of three embeddings. The norms are their Euclidean lengths.",
  token: "token",
  input_id: "id",
  segment: "segment",
  position: "position",
  token_norm: "‖token‖",
  segment_norm: "‖segment‖",
  position_norm: "‖position‖",
  footer: "Made with bert inspect. This file needs no network.",
  old_browser: "This browser cannot unpack the page's data; one from 2023 or later can.",
  view_masks: "[MASK]",
  view_pair: "Pair",
  view_classes: "Class",
  view_heads: "Heads",
  view_matrix: "Matrix",
  view_model: "Model",
  view_roles: "Roles",
  view_cls: "[CLS]",
  view_tokens: "Tokens",
};
