"""Which numbers a dropout leaves out: a hash of a seed and of their place."""

import triton
import triton.language as tl


@triton.jit
def _random_bits(key, program, rows, columns):
    """Hashes a place in the scores to 32 random bits."""
    # 三次乘法的散列就够丢弃用；通用的随机数发生器比注意力本身还慢
    bits = (rows[:, None] * 65536 + columns[None, :]).to(tl.uint32)
    key = key.to(tl.uint32) + program.to(tl.uint32) * 0x9E3779B9
    bits = (bits ^ key) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    bits = (bits ^ (bits >> 16) ^ key) * 0x9E3779B1
    return bits ^ (bits >> 16)


@triton.jit
def kept_share(key, program, rows, columns, dropout):
    """Returns what numbers are multiplied by: 0, or 1 / (1 - dropout)."""
    bits = _random_bits(key, program, rows, columns)
    # 比整数：换成浮点数的指令要慢四倍
    is_kept = (bits >> 8) >= tl.ceil(dropout * 16777216.0).to(tl.uint32)
    return tl.where(is_kept, 1 / (1 - dropout), 0.0)


@triton.jit
def read_key(seed, DROPS: tl.constexpr):
    """Returns what decides a dropout; nothing where there is none."""
    # 在循环之外读：在里面的话，流水会把每次读都改成经共享内存的拷贝
    return tl.load(seed).to(tl.uint32) if DROPS else 0
