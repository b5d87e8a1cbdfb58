#!/usr/bin/env python3
"""Makes the golden values of the optimizers' tests with PyTorch, which lacks LARS and LAMB: they are written here from their papers.

Run it as make_golden.py, whose random numbers it has:

    python3 tests/golden/make_optimizer_golden.py            # rewrites the file beside this script

    optimizers.safetensors
        "dtype.setting.p0.0" (parameter 0 before step 0), ".g0.0" (its gradient in step 0), ".p0.3" (after three steps), and state.
"""

import torch
from make_golden import random, save


class LayerWise(torch.optim.Optimizer):
    """What LARS and LAMB have in common: a factor on the rate from two norms of each parameter, where its group says `adapt`."""

    def __init__(self, params, **options):
        super().__init__(params, dict(adapt=True) | options)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, p.grad, self.state[p], **group)

    @staticmethod
    def ratio(adapt, above, below, value):
        return value if adapt and above > 0 and below > 0 else 1.0


class Lars(LayerWise):
    """You, Gitman, Ginsburg 2017, algorithm 1, with the rate outside the velocity."""

    def update(self, p, g, state, *, lr, momentum, weight_decay, trust, eps, adapt, **_):
        w, d = p.norm(), g.norm()
        step = self.ratio(adapt, w, d, trust * w / (d + weight_decay * w + eps)) * (g + weight_decay * p)
        if momentum:
            state["momentum_buffer"] = step = momentum * state.get("momentum_buffer", 0) + step
        p -= lr * step


class Lamb(LayerWise):
    """You et al. 2020, algorithm 2 with phi(z) = z."""

    def update(self, p, g, state, *, lr, betas, eps, weight_decay, adapt, **_):
        t = state["step"] = state.get("step", 0) + 1
        state["exp_avg"] = betas[0] * state.get("exp_avg", 0) + (1 - betas[0]) * g
        state["exp_avg_sq"] = betas[1] * state.get("exp_avg_sq", 0) + (1 - betas[1]) * g * g
        m, v = state["exp_avg"] / (1 - betas[0] ** t), state["exp_avg_sq"] / (1 - betas[1] ** t)
        u = m / (v.sqrt() + eps) + weight_decay * p
        p -= lr * self.ratio(adapt, p.norm(), u.norm(), p.norm() / u.norm()) * u


def matrices_only(**of_others):
    """Parameter groups: what has at most one dimension is treated as `of_others` says."""
    return lambda parameters: [dict(params=[p for p in parameters if p.ndim > 1]),
                               dict(params=[p for p in parameters if p.ndim <= 1], **of_others)]


def main():
    lars, lamb = dict(momentum=0.9, weight_decay=0.05, trust=0.02, eps=1e-8), dict(betas=(0.9, 0.999), eps=1e-6, weight_decay=0.1)
    settings = {
        "sgd": (torch.optim.SGD, dict(lr=0.1)),
        "sgd_weight_decay": (torch.optim.SGD, dict(lr=0.1, weight_decay=0.05)),
        "sgd_momentum": (torch.optim.SGD, dict(lr=0.1, momentum=0.9)),
        "sgd_dampening": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.05)),
        "sgd_nesterov": (torch.optim.SGD, dict(lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.05)),
        "adam": (torch.optim.Adam, dict(lr=0.01)),
        "adam_weight_decay": (torch.optim.Adam, dict(lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
        "adamw": (torch.optim.AdamW, dict(lr=0.02, weight_decay=0.1)),
        "lars": (Lars, dict(lr=2.0, **lars)),
        "lars_no_momentum": (Lars, dict(lr=2.0) | lars | dict(momentum=0)),
        "lamb": (Lamb, dict(lr=0.05, **lamb)),
        "lamb_options": (Lamb, dict(lr=0.05, betas=(0.8, 0.95), eps=0.1, weight_decay=0.5)),
        "sgd_groups": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.05), matrices_only(weight_decay=0, lr=0.02)),
        "adam_groups": (torch.optim.Adam, dict(lr=0.02, weight_decay=0.1), matrices_only(weight_decay=0, lr=0.004)),
        "adamw_groups": (torch.optim.AdamW, dict(lr=0.02, weight_decay=0.1), matrices_only(weight_decay=0, lr=0.004)),
        "lars_groups": (Lars, dict(lr=2.0, **lars), matrices_only(weight_decay=0, adapt=False, lr=0.4)),
        "lamb_groups": (Lamb, dict(lr=0.05, **lamb), matrices_only(weight_decay=0, adapt=False, lr=0.01)),
    }
    shapes = ((3, 4), (5,), (), (2, 3, 2, 2), (0, 3))
    entries = {}
    for dtype in (torch.float64, torch.float32):
        for setting, (optimizer_class, options, *groups) in settings.items():
            name = f"{str(dtype).removeprefix('torch.')}.{setting}"
            parameters = [random(f"{setting}.p{i}", shape).to(dtype).requires_grad_() for i, shape in enumerate(shapes)]
            for i, p in enumerate(parameters):
                entries[f"{name}.p{i}.0"] = p.detach().clone()
            optimizer = optimizer_class(groups[0](parameters) if groups else parameters, **options)
            for step in range(3):
                for i, p in enumerate(parameters):
                    if i == 1 and step == 1:
                        p.grad = None  # this one sits out the second step
                        continue
                    p.grad = random(f"{setting}.g{i}.{step}", shapes[i]).to(dtype)
                    entries[f"{name}.g{i}.{step}"] = p.grad
                optimizer.step()
                for i, p in enumerate(parameters):
                    entries[f"{name}.p{i}.{step + 1}"] = p.detach().clone()
            for i, p in enumerate(parameters):
                for key, value in optimizer.state[p].items():
                    if isinstance(value, torch.Tensor) and key != "step":
                        entries[f"{name}.state.{i}.{key}"] = value
        for case, max_norm in (("clip", 1.5), ("no_clip", 1e3)):
            name = f"{str(dtype).removeprefix('torch.')}.{case}"
            parameters = [random(f"clip.p{i}", shape).to(dtype).requires_grad_() for i, shape in enumerate(shapes)]
            for i, p in enumerate(parameters):
                if i != 1:
                    p.grad = random(f"clip.g{i}", shapes[i]).to(dtype)
                    entries[f"{name}.g{i}.before"] = p.grad.clone()
            entries[f"{name}.norm"] = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
            for i, p in enumerate(parameters):
                if i != 1:
                    entries[f"{name}.g{i}.after"] = p.grad.clone()
    save("optimizers.safetensors", entries)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
