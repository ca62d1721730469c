"use strict";

// 页面上的全部文字，英文与中文各一份；两份的键必须相同（有测试）
const STRINGS = {
  en: {
    other_language: "中文",
    skip: "Skip to attention",
    toolbar: "Layer and head",
    layer: "Layer",
    head: "Head",
    toolbar_hint: "for all views below",
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
    course: "Probability of the final words, layer by layer",
    classes_title: "Class and reasons",
    classes_lead:
      "Integrated gradients: how much each token moves the score of a class, on the road from " +
      "a text of [PAD] to this one. Together they make up the whole difference.",
    class_name: "class",
    probability: "probability",
    logit: "score",
    reasons: (label) => `What speaks for “${label}”, and what against`,
    speaks_for: "for",
    speaks_against: "against",
    complete: (a) =>
      `Score ${num(a.logit)}, without words ${num(a.baseline_logit)}; the tokens add ` +
      `${num(a.logit - a.baseline_logit - a.gap)}, ${a.gap.toExponential(1)} is missing ` +
      `(${a.num_points} points).`,
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
    lines_none: (w) => `No weight in view reaches ${w}: lower the slider.`,
    lines_left: (t, parts) => `“${t}” looks at ${parts}`,
    lines_right: (t, parts) => `“${t}” is looked at by ${parts}`,
    matrix_title: "Matrix view",
    matrix_lead:
      "All weights of one head. A row is a token that looks; every row sums to 1. The colour " +
      "follows the square root, and the top hundredth shares the darkest.",
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
      "token or [SEP] names the role if it is at least 40 %; otherwise a head is broad if it is spread as over " +
      "half of all tokens (entropy ≥ log₂ S − 1 bits), else mixed. Click a heading to sort.",
    role: "role",
    entropy: "entropy",
    distance: "distance",
    previous: "previous",
    next: "next",
    separator: "separator",
    broad: "broad",
    mixed: "mixed",
    cls_title: "What [CLS] looks at",
    cls_lead:
      "[CLS] stands for the whole text in sentence tasks. Below, its attention in the chosen " +
      "layer, as the mean of the heads shown in the head view.",
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
    view_classes: "Class",
    view_heads: "Heads",
    view_matrix: "Matrix",
    view_model: "Model",
    view_roles: "Roles",
    view_cls: "[CLS]",
    view_tokens: "Tokens",
  },
  zh: {
    other_language: "English",
    skip: "跳到注意力",
    toolbar: "层与头",
    layer: "层",
    head: "头",
    toolbar_hint: "对下面所有视图生效",
    exact: "精确（float32）",
    rounded: "8 位，误差不超过 1/510",
    facts: (m, n) =>
      `${n} 个词片 · ${m.num_hidden_layers} 层 × ${m.num_attention_heads} 头 · ` +
      `宽度 ${m.hidden_size} · 词表 ${m.vocab_size.toLocaleString("en")} · ` +
      `${(m.num_parameters / 1e6).toFixed(1)} M 参数 · ${m.architecture}`,
    note_rounded: (layer) =>
      `文本超过 128 个词片：第 ${layer} 层是精确值，其余各层的图取整到 8 位。` +
      `用 --layer 选择哪一层精确。各头的统计表始终由精确值算出。`,
    note_no_mlm: "这个模型没有掩码词预测头，所以不预测 [MASK]。",
    note_no_mask: "在文本里写上 [MASK]，就能看到模型会填什么。",
    note_head: (name) => `这里不显示该模型的任务头（${name}）：只有注意力与嵌入。`,
    masks_title: "[MASK] 处该填什么？",
    masks_lead:
      "把每一层都交给掩码词预测头来读，就像 BERT 到此为止。最后一行是模型的回答；" +
      "曲线跟随这些词走过各层。",
    mask_at: (n) => `位置 ${n} 的 [MASK]`,
    layer_number: (n) => `第 ${n} 层`,
    embeddings: "嵌入",
    answer: "回答",
    guesses: "每一层之后的最佳猜测",
    course: "最终各词的概率，逐层",
    classes_title: "类别与理由",
    classes_lead:
      "积分梯度：从一段全是 [PAD] 的文本走到这段文本，每个词片把某类的分数推动了多少；" +
      "加起来正好是全部差值。",
    class_name: "类别",
    probability: "概率",
    logit: "分数",
    reasons: (label) => `支持与反对“${label}”的词片`,
    speaks_for: "支持",
    speaks_against: "反对",
    complete: (a) =>
      `分数 ${num(a.logit)}，没有词时 ${num(a.baseline_logit)}；各词片合计 ` +
      `${num(a.logit - a.baseline_logit - a.gap)}，尚差 ${a.gap.toExponential(1)}` +
      `（${a.num_points} 个点）。`,
    heads_title: "头视图",
    heads_lead:
      "线从左边的词片连到它所看的右边词片：线越浓，注意力越大。指向一个词片只看它的线，" +
      "点击则保留。",
    heads_shown: "显示的头",
    all_heads: "全部头",
    one_head: (n) => `第 ${n} 头`,
    minimum: "连线下限",
    looking: "看的词片",
    looked_at: "被看的词片",
    lines_rest: (n, k) => `显示 ${n} 个头中的 ${k} 个。方向键在词片间移动，Esc 恢复全部连线。`,
    lines_cut: (n, w) => `只画最强的 ${n} 条线，下限 ${w}。`,
    lines_none: (w) => `视野内没有权重达到 ${w}：请调低下限。`,
    lines_left: (t, parts) => `“${t}”看向 ${parts}`,
    lines_right: (t, parts) => `看“${t}”的有 ${parts}`,
    matrix_title: "矩阵视图",
    matrix_lead: "一个头的全部权重。一行是一个在看的词片，每行之和为 1。颜色按平方根取，最大的百分之一同为最深色。",
    matrix_keys: "注意力矩阵；用方向键读取单个权重",
    matrix_rest: "指向一格，或用方向键，读取它的权重。",
    weight: (a, b, w) => `“${a}” → “${b}”  ${w}`,
    model_title: "模型视图",
    model_lead: "每一层的每一个头。点击放大，或用方向键逐个走。",
    model_keys: "全部头；用方向键选择",
    layer_head: (l, h) => `第 ${l} 层，第 ${h} 头`,
    roles_title: "各头在做什么",
    roles_lead:
      "对文本各词片取平均。在前一个词、后一个词与 [SEP] 三者中占比最大者，达到 40 % 即为该头的角色；" +
      "否则，若分布之广相当于均匀看一半的词片（熵 ≥ log₂ S − 1 比特）则为“广”，再否则为“混合”。点击表头排序。",
    role: "角色",
    entropy: "熵",
    distance: "距离",
    previous: "前一个",
    next: "后一个",
    separator: "分隔符",
    broad: "广",
    mixed: "混合",
    cls_title: "[CLS] 在看什么",
    cls_lead: "在句子任务里 [CLS] 代表整段文本。下面是它在所选层的注意力，取头视图中所显示各头的平均。",
    cls_layers: "每一层，全部头的平均",
    cls_keys: "[CLS] 逐层的注意力；用方向键读取单个权重",
    cls_weight: (l, t, w) => `第 ${l} 层，[CLS] → “${t}”  ${w}`,
    tokens_title: "词片与嵌入",
    tokens_lead: "BERT 读到的内容：三种嵌入之和。表中是各嵌入的欧氏长度。",
    token: "词片",
    input_id: "编号",
    segment: "分段",
    position: "位置",
    token_norm: "‖词‖",
    segment_norm: "‖分段‖",
    position_norm: "‖位置‖",
    footer: "由 bert inspect 生成。本文件不需要网络。",
    old_browser: "这个浏览器无法解开页面里的数据；请用 2023 年或更新的浏览器。",
    view_masks: "[MASK]",
    view_classes: "类别",
    view_heads: "头",
    view_matrix: "矩阵",
    view_model: "模型",
    view_roles: "角色",
    view_cls: "[CLS]",
    view_tokens: "词片",
  },
};

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

/** Writes a weight as a percentage: two decimals where it is small. */
function percent(value) {
  return `${(100 * value).toFixed(value < 0.1 ? 2 : 1)} %`;
}
