#!/usr/bin/env python3
"""Makes the golden values of the ResNets' tests with torchvision.

Run it where torch, torchvision and safetensors are installed; neither the build nor the tests need them:

    python3 tests/golden/make_resnet_golden.py            # rewrites the files beside this script

Models are too large for files, so weights and inputs are a formula that the tests have, too (tests/models/golden_model.h), and of each
gradient a file holds a summary: its norm, and elements evenly spread. The same versions give the same files; they are in the files' metadata.

    resnet.safetensors
        "resnet18.small.", "resnet50.imagenet.": logits and loss of one batch of two in training mode in float64; "gradient.NAME" and "buffer.NAME" after it
        (summaries); float32_errors (for each parameter the norm of what PyTorch's own float32 gradient is off, with other weights).
    resnet_names.txt
        for each depth: number and hash of the names and shapes of parameters, and of buffers, in torchvision's order.
"""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from safetensors.torch import save_file

HERE = Path(__file__).parent
SUMMARY_ELEMENTS = 16


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def formula(name, shape, offset=0.0, scale=1.0):
    """offset + scale * u, u in [-1, 1): a hash of the name and the element's index (SplitMix64's finaliser). Rounded to float32."""
    n = int(np.prod(shape, dtype=np.int64))
    with np.errstate(over="ignore"):
        bits = np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(fnv1a(name))
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
    uniform = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1
    return torch.from_numpy(offset + scale * uniform).float().double().reshape(shape)


def summary(tensor):
    """[norm, elements evenly spread from the first to the last]."""
    flat = tensor.detach().double().reshape(-1)
    count = min(SUMMARY_ELEMENTS, flat.numel())
    at = torch.arange(count) * (flat.numel() - 1) // max(count - 1, 1)
    return torch.cat([flat.norm().reshape(1), flat[at]])


def save(file, entries, **versions):
    entries = {name: t.detach().clone().contiguous() for name, t in entries.items()}
    save_file(entries, HERE / file, metadata={"versions": " ".join(f"{k}={v}" for k, v in {"torch": torch.__version__, **versions}.items())})
    print(f"{file}: {len(entries)} tensors, {(HERE / file).stat().st_size / 1024:.0f} KiB")


def gradients(model, inputs, target):
    """Logits, loss, and gradients by the parameters' names."""
    model.zero_grad()
    logits = model(inputs)
    loss = F.cross_entropy(logits, target)
    loss.backward()
    return logits, loss, {name: p.grad.double().clone() for name, p in model.named_parameters()}


# ---- ResNet ----------------------------------------------------------------------------------------------------------


def make_resnet(depth, stem, classes):
    model = getattr(torchvision.models, f"resnet{depth}")(num_classes=classes)
    if stem == "small":
        model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
        model.maxpool = torch.nn.Identity()
    return model


def resnet_weight(name, shape, off_kinks):
    """`off_kinks`: norms put most values well to one side of ReLU's kink, about which float32 and float64 may disagree, and a single
    value changes the gradient a thousand times as much as rounding does. A third of the channels are below; the same ones in each layer,
    so that shortcuts do not undo it."""
    if len(shape) > 1:
        return formula(name, shape, 0.0, (6 * shape[0] / np.prod(shape)) ** 0.5)
    if name.endswith("weight"):
        return formula(name, shape, 0.3, 0.03) if off_kinks else formula(name, shape, 1.0, 0.3)
    if name == "fc.bias" or not off_kinks:
        return formula(name, shape, 0.0, 0.2)
    side = torch.where(torch.arange(shape[0]) % 3 == 0, -1.0, 1.0).double()
    return (formula(name, shape, 0.0, 0.05) + side).float().double()


def resnet():
    entries, target = {}, torch.tensor([3, 8])
    for depth, stem, size in ((18, "small", 32), (50, "imagenet", 64)):
        prefix = f"resnet{depth}.{stem}."
        inputs = formula("input", (2, 3, size, size))

        def fresh(dtype, off_kinks):
            model = make_resnet(depth, stem, 10).to(dtype)
            for name, p in model.named_parameters():
                p.data.copy_(resnet_weight(name, tuple(p.shape), off_kinks))
            return model

        exact = fresh(torch.float64, False)
        logits, loss, wanted = gradients(exact, inputs, target)
        entries.update({prefix + "logits": logits, prefix + "loss": loss})
        for name, gradient in wanted.items():
            entries[f"{prefix}gradient.{name}"] = summary(gradient)
        for name, buffer in exact.named_buffers():
            entries[f"{prefix}buffer.{name}"] = summary(buffer)
        errors = []
        _, _, wanted = gradients(fresh(torch.float64, True), inputs, target)
        for memory_format in (torch.contiguous_format, torch.channels_last):
            narrow = fresh(torch.float32, True).to(memory_format=memory_format)
            _, _, got = gradients(narrow, inputs.float().to(memory_format=memory_format), target)
            errors.append([(got[name] - wanted[name]).norm() for name in wanted])
        # One number for each parameter, in order: the larger of the two memory formats'.
        entries[prefix + "float32_errors"] = torch.tensor(errors).max(0).values.double()
    save("resnet.safetensors", entries, torchvision=torchvision.__version__)

    lines = []
    for depth in (18, 34, 50, 101, 152):
        model = make_resnet(depth, "imagenet", 1000)
        words = [f"resnet{depth}"]
        for members in (list(model.named_parameters()), list(model.named_buffers())):
            text = "".join(f"{name} {list(member.shape)}\n" for name, member in members)
            words += [str(len(members)), f"{fnv1a(text):016x}"]
        lines.append(" ".join(words) + "\n")
    (HERE / "resnet_names.txt").write_text("".join(lines))


if __name__ == "__main__":
    torch.set_num_threads(1)
    resnet()
