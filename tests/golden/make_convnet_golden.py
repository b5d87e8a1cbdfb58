#!/usr/bin/env python3
"""Makes the golden values of convnet's test with PyTorch.

Run it as make_golden.py, whose random numbers it has:

    python3 tests/golden/make_convnet_golden.py            # rewrites the file beside this script

    convnet.safetensors
        the model `convnet` without dropout in float64: loss and all gradients of one batch of two.
"""

import torch
import torch.nn.functional as F
from make_golden import random, save


def main():
    """Of fc1.weight's 1.2 million elements the file has none: they are a formula, and of their gradient it has a grid and sums."""
    fc1_weight = ((torch.arange(128 * 9216) * 7919 % 10007).double() / 10007 - 0.5).reshape(128, 9216) / 48
    shapes = {"conv1.weight": (32, 1, 3, 3), "conv1.bias": (32,), "conv2.weight": (64, 32, 3, 3), "conv2.bias": (64,),
              "fc1.bias": (128,), "fc2.weight": (10, 128), "fc2.bias": (10,)}
    fan_in = {"conv1": 9, "conv2": 288, "fc1": 9216, "fc2": 128}
    p = {}
    for name, shape in shapes.items():
        bound = fan_in[name.split(".")[0]] ** -0.5
        p[name] = random("convnet." + name, shape, -bound, bound).requires_grad_()
    entries = {f"parameter.{name}": t.detach().clone() for name, t in p.items()}
    p["fc1.weight"] = fc1_weight.requires_grad_()
    x = random("convnet.x", (2, 1, 28, 28)).requires_grad_()
    target = torch.tensor([3, 8])
    y = torch.relu(F.conv2d(x, p["conv1.weight"], p["conv1.bias"]))
    y = torch.relu(F.conv2d(y, p["conv2.weight"], p["conv2.bias"]))
    y = F.max_pool2d(y, 2).flatten(1)
    y = torch.relu(F.linear(y, p["fc1.weight"], p["fc1.bias"]))
    logits = F.linear(y, p["fc2.weight"], p["fc2.bias"])
    loss = F.cross_entropy(logits, target)
    loss.backward()
    entries.update({"input": x, "target": target, "logits": logits, "loss": loss, "gradient.input": x.grad})
    for name in shapes:
        entries[f"gradient.{name}"] = p[name].grad
    g = p["fc1.weight"].grad
    entries.update({"gradient.fc1.weight.grid": g[::16, ::64], "gradient.fc1.weight.row_sums": g.sum(1),
                    "gradient.fc1.weight.column_sums": g.sum(0)})
    save("convnet.safetensors", entries)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
