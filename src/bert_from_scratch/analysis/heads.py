"""What each head does: how widely, how far, and at what it looks.

All numbers are means over the tokens of the text as the ones that look; [CLS]
and [SEP] are looked at, but do not count as looking.

Letters: N heads, S tokens.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bert_from_scratch.tokenizer.vocabulary import CLS, SEP

Role = Literal["previous", "next", "separator", "cls", "broad", "mixed"]

# 一个去处占到四成以上才算角色；论文式的热图上，这样的头一眼可见
ROLE_SHARE = 0.4


@dataclass(frozen=True)
class HeadSummary:
    """One head in numbers.

    Attributes:
        layer: Counted from 1.
        head: Counted from 1.
        entropy: Of the attention, in bits; log2 S: equal on all tokens.
        distance: Mean number of tokens between the one that looks and the
            one that it looks at.
        previous: Share of attention on the token before.
        next: Share on the token after.
        separator: Share on all [SEP].
        cls: Share on [CLS].
        role: See `find_role`.
    """

    layer: int
    head: int
    entropy: float
    distance: float
    previous: float
    next: float
    separator: float
    cls: float
    role: Role


def summarise_heads(
    weights: Tensor, layer: int, tokens: Sequence[str]
) -> list[HeadSummary]:
    """Describes all heads of one layer.

    Args:
        weights: Attention probabilities, float [N, S, S].
        layer: Counted from 1.
        tokens: S WordPieces.
    """
    looks = _looking(tokens)
    # 用双精度求和：长文本上每个头有几十万个数
    rows = weights.double()[:, looks]
    places = torch.arange(len(tokens))
    steps = places[None, :] - places[looks][:, None]
    entropies = -torch.special.xlogy(rows, rows).sum(-1).mean(-1) / math.log(2)
    distances = (rows * steps.abs()).sum(-1).mean(-1)
    shares = _shares(rows, steps, tokens)
    table = zip(entropies.tolist(), distances.tolist(), shares, strict=True)
    return [
        HeadSummary(
            layer=layer,
            head=number,
            entropy=entropy,
            distance=distance,
            role=find_role(entropy, share, len(tokens)),
            **share,
        )
        for number, (entropy, distance, share) in enumerate(table, 1)
    ]


def find_role(
    entropy: float, shares: Mapping[Role, float], num_tokens: int
) -> Role:
    """Names what a head mostly does.

    The largest of the shares on the previous token, on the next one, on
    [SEP] and on [CLS] gives the role where it is at least 0.4. Else a head is
    broad where it is spread as widely as equal attention on half of the
    tokens (entropy >= log2 S - 1), and mixed where it is not.

    Args:
        entropy: In bits.
        shares: Of the four roles that are places.
        num_tokens: S.
    """
    role = max(shares, key=lambda name: shares[name])
    if shares[role] >= ROLE_SHARE:
        return role
    return "broad" if 2**entropy >= num_tokens / 2 else "mixed"


def _shares(
    rows: Tensor, steps: Tensor, tokens: Sequence[str]
) -> list[dict[Role, float]]:
    """Returns how much of each head's attention goes where, N dicts."""
    is_there: dict[Role, Tensor] = {
        "previous": steps == -1,
        "next": steps == 1,
        "separator": torch.tensor([token == SEP for token in tokens]),
        "cls": torch.tensor([token == CLS for token in tokens]),
    }
    columns = [
        rows.where(where, 0).sum(-1).mean(-1) for where in is_there.values()
    ]
    table = torch.stack(columns, -1).tolist()
    return [dict(zip(is_there, row, strict=True)) for row in table]


def _looking(tokens: Sequence[str]) -> Tensor:
    """Returns the tokens of the text, bool [S]; all where it has none."""
    looks = torch.tensor([token not in (CLS, SEP) for token in tokens])
    return looks if bool(looks.any()) else torch.ones_like(looks)
