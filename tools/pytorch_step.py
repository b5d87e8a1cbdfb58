"""PyTorch's side of compare_pytorch and compare_ddp: the models of the house, a fixed batch for each, and its training step.

Imported by the Python that has torch; ResNets are torchvision's, BERTs those of transformers. Optimizers are the fused ones.
"""

import time

import torch
from torch import nn

BERT_SIZES = {"bert-tiny": (2, 128), "bert-mini": (4, 256), "bert-base": (12, 768), "bert-large": (24, 1024)}


def is_bert(name):
    return name in BERT_SIZES


def import_library(name):
    """What the model is taken from, so that its import can be told from the model's memory."""
    if is_bert(name):
        import transformers

        return transformers
    if name.startswith("resnet"):
        import torchvision

        return torchvision
    return nn


def peak_rss_mb():
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))


def make_mlp(*widths):
    layers = [layer for pair in zip(widths, widths[1:]) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def make_model(name, variant):
    """As models/ has it. `variant` says which attention a BERT has: "sdpa" or "eager"."""
    if is_bert(name):
        layers, hidden = BERT_SIZES[name]
        transformers = import_library(name)
        config = transformers.BertConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=hidden // 64, intermediate_size=4 * hidden,
                                         attn_implementation="eager" if "eager" in variant else "sdpa")
        return transformers.BertForMaskedLM(config)
    if name.startswith("resnet"):
        return import_library(name).models.get_model(name, weights=None)
    if name == "convnet":
        return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(),
                             nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
    return make_mlp(*{"tiny-mlp": [16, 32, 32, 10], "mlp": [784, 256, 10], "mlp-large": [784] + 7 * [2000] + [10]}[name])


def make_batch(name, batch, size, labelled):
    """Arguments of loss_of(). `size`: of images, or tokens of a sequence. `labelled`: "all" positions of a BERT, or 15 % of them ("masked")."""
    if is_bert(name):
        ids, labels = torch.randint(30522, (batch, size)), torch.randint(30522, (batch, size))
        if labelled == "masked":
            labels = torch.where(torch.rand(batch, size) < 0.15, labels, -100)
        return ids, labels
    shape = {"tiny-mlp": (16,), "convnet": (1, 28, 28)}.get(name, (3, size, size) if name.startswith("resnet") else (784,))
    return torch.rand(batch, *shape) * 2 - 1, torch.arange(batch) % 10


class Step:
    """One model in training; run() is a step. `wrap` is done to the model before its optimizer is made."""

    def __init__(self, name, variant, precision, batch, size, momentum, labelled="all", wrap=lambda model: model):
        torch.manual_seed(0)
        model = make_model(name, variant)
        self.input, self.target = make_batch(name, batch, size, labelled)
        if "channels-last" in variant:
            model, self.input = model.to(memory_format=torch.channels_last), self.input.contiguous(memory_format=torch.channels_last)
        self.name, self.is_bfloat16 = name, precision == "bf16"
        self.model = wrap(model)
        parameters = self.model.parameters()
        self.optimizer = (torch.optim.AdamW(parameters, lr=1e-3, fused=True) if is_bert(name) else
                          torch.optim.SGD(parameters, lr=0.01, momentum=momentum, fused=True))
        self.loss_of = torch.compile(self.forward) if "compile" in variant else self.forward

    def forward(self, x, target):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.is_bfloat16):
            if is_bert(self.name):
                return self.model(input_ids=x, labels=target).loss
            return nn.functional.cross_entropy(self.model(x), target)

    def run(self):
        """Milliseconds by part."""
        begin = time.perf_counter()
        loss = self.loss_of(self.input, self.target)
        forwarded = time.perf_counter()
        loss.backward()
        backwarded = time.perf_counter()
        self.optimizer.step()
        self.optimizer.zero_grad()
        end = time.perf_counter()
        loss.item()
        return {"step": (end - begin) * 1e3, "forward": (forwarded - begin) * 1e3, "backward": (backwarded - forwarded) * 1e3,
                "optimizer": (end - backwarded) * 1e3}


def use_threads(threads):
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
