"""Recipes of pre-training: options that go well together.

The names are those of the options of `bert pretrain`; whatever is typed beside
a recipe comes before it.
"""

from typing import Any

# 九分钟从进程启动算起，编译与保存都在内；学习率由短试验而定，见
# docs/design-notes.md
TEN_MINUTES = {
    "preset": "base",
    "minutes": 9.0,
    "optimizer": "muon",
    "lr": 1.5e-3,
    "warmup_steps": 150,
    "dropout": 0.0,
    # 每换一种形状都要编译几十秒；不编译，每步只慢四十分之一
    "compiles": False,
    # 先小步快走，离开一元熵的平台；再用大步，Muon 自己的开销就少了一半；最后
    # 像论文那样用长句，不然 128 以后的位置一次也没学过
    "batch_tokens": 65536,
    "phases": "128:0.35,128:0.55:131072,512:0.1:131072",
    "held_out": 0.0,
    "log_every": 50,
    "eval_every": 0,
    "checkpoint_every": 0,
}

RECIPES: dict[str, dict[str, Any]] = {"ten-minutes": TEN_MINUTES}
