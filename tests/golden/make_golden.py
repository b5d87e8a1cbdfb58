#!/usr/bin/env python3
"""Makes the golden values of the tests with PyTorch.

Run it where torch, numpy and safetensors are installed; neither the build nor the tests need them:

    python3 tests/golden/make_golden.py            # rewrites the files beside this script

Everything is seeded, so the same torch version gives the same files; the version is in the files' metadata. The files:

    operators_float64.safetensors, operators_float32.safetensors
        for each case "op.case": in0, in1, ... (inputs), dout (gradient of the output), out, din0, din1, ... (gradients of the inputs).
        Shapes, options and integer arguments are repeated in tests/autograd/*_cases.cpp under the same names.
    batch_norm.safetensors, losses.safetensors
        batch norm in training and evaluation with its running statistics, and with what is fused with it; the losses that are not operators.
"""

import zlib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = Path(__file__).parent
EPS = 1e-5


def random(name, shape, low=-2.0, high=2.0):
    """Float64 values that float32 holds exactly; a function of `name`."""
    generator = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    return torch.from_numpy(np.asarray(generator.uniform(low, high, shape)).astype(np.float32).astype(np.float64))


def indices(shape, bound):
    n = int(np.prod(shape, dtype=np.int64))
    return ((7 * torch.arange(n) + 3) % bound).reshape(shape)


def condition(shape):
    n = int(np.prod(shape, dtype=np.int64))
    return (torch.arange(n) % 3 == 0).reshape(shape)


def ramp(n, first, step, dtype):
    return (first + step * torch.arange(n, dtype=torch.float64)).to(dtype)


class Cases:
    """A list of (op, case, input shapes or tensors, function)."""

    def __init__(self):
        self.all = []

    def add(self, op, case, inputs, function, positive=()):
        tensors = []
        for i, spec in enumerate(inputs):
            if isinstance(spec, torch.Tensor):
                tensors.append(spec)
            else:
                low, high = (0.3, 2.5) if i in positive else (-2.0, 2.0)
                tensors.append(random(f"{op}.{case}.{i}", spec, low, high))
        self.all.append((f"{op}.{case}", tensors, function))

    def save(self, dtype):
        entries = {}
        for name, values, function in self.all:
            inputs = [v.detach().clone().to(dtype).requires_grad_() for v in values]
            output = function(*inputs)
            gradient = random(name + ".dout", tuple(output.shape)).to(output.dtype)
            output.backward(gradient)
            for i, x in enumerate(inputs):
                entries[f"{name}.in{i}"] = x
                entries[f"{name}.din{i}"] = x.grad
            entries[f"{name}.out"] = output
            entries[f"{name}.dout"] = gradient
        save(f"operators_{str(dtype).removeprefix('torch.')}.safetensors", entries)


def save(file, entries):
    entries = {name: t.detach().clone().contiguous() for name, t in entries.items()}
    save_file(entries, HERE / file, metadata={"torch": torch.__version__})  # one entry: their order is random
    print(f"{file}: {len(entries)} tensors, {(HERE / file).stat().st_size / 1024:.0f} KiB")


KINKS = torch.tensor([-2.0, -1.0, -0.0, 0.0, 0.25, 0.5, 2.0], dtype=torch.float64)


def elementwise(cases):
    unary = {
        "neg": torch.neg, "abs": torch.abs, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "square": torch.square,
        "reciprocal": torch.reciprocal, "relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
        "pow": lambda x: x.pow(2.5), "clamp": lambda x: x.clamp(-1, 0.5), "add_scalar": lambda x: x + 1.25,
        "mul_scalar": lambda x: x * -1.25,
    }
    for op, f in unary.items():
        positive = (0,) if op in ("log", "sqrt", "reciprocal", "pow") else ()
        for case, shape in {"matrix": (3, 4), "scalar": (), "empty": (0, 3), "transposed": (2, 3, 5)}.items():
            cases.add(op, case, [shape], f, positive)
    for op in ("abs", "relu"):  # not clamp: on its bounds PyTorch's gradient is 0 (2.15) or 1 (older); ops.h says 1
        cases.add(op, "kinks", [KINKS], unary[op])
    for exponent, name in ((0, "exponent0"), (1, "exponent1"), (3, "exponent3"), (-2, "exponent_minus2")):
        cases.add("pow", name, [(2, 3)], lambda x, e=exponent: x.pow(float(e)))
    cases.add("cast", "to_float32", [(3, 4)], lambda x: x.to(torch.float32))

    binary = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum}
    shapes = {
        "same": [(3, 4), (3, 4)], "row": [(2, 3, 4), (4,)], "row_first": [(4,), (2, 3, 4)], "outer": [(3, 1), (1, 4)],
        "scalar": [(2, 3), ()], "scalars": [(), ()], "size1": [(1, 1), (1,)], "empty": [(0, 3), (3,)], "empty_by_one": [(2, 0), (2, 1)],
        "sliced_and_stepped": [(3, 4), (3, 4)], "channels_last_by_channel": [(2, 3, 4, 5), (3, 1, 1)],
        "two_layouts": [(2, 3, 2, 2), (2, 3, 2, 2)],
    }
    for op, f in binary.items():
        for case, pair in shapes.items():
            cases.add(op, case, pair, f, (1,) if op == "div" else ())
        cases.add(op, "with_itself", [(3, 4)], lambda a, f=f: f(a, a), (0,))
    for op in ("maximum", "minimum"):
        cases.add(op, "kinks", [KINKS, torch.tensor([-2.0, 3.0, 0.0, 0.0, 0.25, -0.5, 2.0], dtype=torch.float64)], binary[op])
    operators = {
        "operator+": lambda a, b: (a + b) + (a + 2.0) + (3.0 + b), "operator-": lambda a, b: (a - b) - (b - 2.0) - (3.0 - a) - (-b),
        "operator*": lambda a, b: (a * b) * (b * 2.0) * (3.0 * a), "operator/": lambda a, b: (a / b) / (2.0 / a) + a / 4.0,
    }
    for op, f in operators.items():
        cases.add(op, "all", [(2, 3), (3,)], f, (1,))
    for case, c, a, b in (("same", (3, 4), (3, 4), (3, 4)), ("broadcast", (2, 1, 4), (3, 1), (4,)), ("scalar", (2, 3), (), (2, 3)),
                          ("empty", (0, 3), (0, 3), (3,)), ("channels_last", (2, 3, 4, 5), (2, 3, 4, 5), (3, 1, 1))):
        cases.add("where", case, [a, b], lambda x, y, c=c: torch.where(condition(c), x, y))


def reductions(cases):
    for op, f in (("sum", torch.sum), ("mean", torch.mean)):
        for case, shape, dims, keepdim in (
                ("all", (2, 3, 4), None, False), ("all_kept", (2, 3, 4), (0, 1, 2), True), ("scalar", (), None, False), ("first", (3, 4), 0, False),
                ("last", (3, 4), -1, False), ("middle_kept", (2, 3, 4), -2, True), ("two", (2, 3, 4), (2, 0), False),
                ("size1", (1, 1), 1, False), ("empty_kept_rows", (0, 3), 1, False), ("channels_last", (2, 3, 4, 5), (0, 2, 3), False),
                ("channels_last_spatial", (2, 3, 4, 5), (-1, -2), True)):
            if dims is None:
                cases.add(op, case, [shape], lambda x, f=f: f(x))
            else:
                cases.add(op, case, [shape], lambda x, f=f, d=dims, k=keepdim: f(x, dim=d, keepdim=k))
    ties = torch.tensor([[1.0, 2.0, 2.0, -1.0], [-3.0, -3.0, -3.0, -3.0]], dtype=torch.float64)
    for op, f in (("max", torch.max), ("min", torch.min)):
        for case, shape, dim, keepdim in (("first", (3, 4), 0, False), ("last", (3, 4), -1, False), ("middle_kept", (2, 3, 4), 1, True),
                                          ("size1", (1, 1), 0, False), ("empty", (0, 3), 1, False), ("channels_last", (2, 3, 4, 5), 1, False)):
            cases.add(op, case, [shape], lambda x, f=f, d=dim, k=keepdim: f(x, d, keepdim=k).values)
        cases.add(op, "kinks", [ties], lambda x, f=f: f(x, 1).values)


def matrices(cases):
    for case, a, b in (("plain", (3, 4), (4, 5)), ("size1", (1, 1), (1, 1)), ("row_by_column", (1, 6), (6, 1)),
                       ("column_by_row", (6, 1), (1, 5)), ("batched", (2, 3, 4), (2, 4, 5)), ("broadcast", (2, 1, 3, 4), (5, 4, 2)),
                       ("broadcast_matrix", (3, 4), (2, 4, 5)), ("batches_by_matrix", (2, 3, 4), (4, 5)),
                       ("inner_zero", (2, 0), (0, 3)), ("empty", (0, 3), (3, 2)), ("empty_batch", (0, 2, 3), (3, 2)),
                       ("transposed", (3, 4), (4, 5)), ("channels_last", (2, 2, 3, 4), (2, 2, 4, 3))):
        cases.add("matmul", case, [a, b], torch.matmul)
    for case, x, w, bias in (("plain", (3, 4), (5, 4), True), ("no_bias", (3, 4), (5, 4), False), ("sequences", (2, 3, 4), (5, 4), True),
                             ("vector", (4,), (5, 4), True), ("size1", (1, 1), (1, 1), True), ("empty_batch", (0, 4), (5, 4), True),
                             ("transposed", (3, 4), (5, 4), True)):
        cases.add("linear", case, [x, w] + [(w[0],)] * bias, F.linear)
    for case, x, w, options in (
            ("plain", (2, 3, 6, 5), (4, 3, 3, 3), {}), ("no_bias", (2, 3, 6, 5), (4, 3, 3, 3), {"bias": False}),
            ("padding", (2, 3, 4, 5), (4, 3, 3, 3), {"padding": (1, 2)}), ("stride", (2, 3, 7, 6), (4, 3, 3, 2), {"stride": (2, 3)}),
            ("unused_border", (1, 2, 6, 6), (2, 2, 3, 3), {"stride": (2, 2)}), ("dilation", (2, 3, 7, 6), (4, 3, 3, 2), {"dilation": (2, 3)}),
            ("everything", (2, 4, 8, 7), (6, 2, 3, 3), {"stride": (2, 1), "padding": (2, 1), "dilation": (2, 2), "groups": 2}),
            ("groups", (2, 4, 5, 5), (6, 2, 3, 3), {"groups": 2}), ("depthwise", (1, 3, 5, 5), (6, 1, 3, 3), {"padding": (1, 1), "groups": 3}),
            ("pointwise", (2, 3, 4, 4), (5, 3, 1, 1), {}), ("kernel_is_input", (2, 3, 4, 5), (4, 3, 4, 5), {}),
            ("one_channel", (2, 1, 6, 6), (4, 1, 3, 3), {}), ("size1", (1, 1, 1, 1), (1, 1, 1, 1), {}),
            ("empty_batch", (0, 3, 6, 5), (4, 3, 3, 3), {}), ("relu", (2, 3, 6, 5), (4, 3, 3, 3), {"relu": True}),
            ("channels_last", (2, 3, 6, 5), (4, 3, 3, 3), {"padding": (1, 1)})):
        options = dict(options)
        bias, relu = options.pop("bias", True), options.pop("relu", False)

        def convolve(x, w, b=None, options=options, relu=relu):
            y = F.conv2d(x, w, b, **options)
            return torch.relu(y) if relu else y

        cases.add("conv2d", case, [x, w] + [(w[0],)] * bias, convolve)


def pooling(cases):
    windows = (
        ("plain", (2, 3, 4, 6), dict(kernel_size=2)), ("border_left_over", (2, 3, 5, 7), dict(kernel_size=2)),
        ("overlap", (2, 3, 7, 7), dict(kernel_size=3, stride=2)), ("padding", (2, 3, 6, 7), dict(kernel_size=3, stride=2, padding=1)),
        ("ceil_mode", (1, 2, 5, 5), dict(kernel_size=2, stride=2, ceil_mode=True)),
        ("ceil_mode_padding", (1, 2, 6, 6), dict(kernel_size=3, stride=2, padding=1, ceil_mode=True)),
        ("ceil_mode_window_outside", (1, 2, 4, 4), dict(kernel_size=2, stride=3, padding=1, ceil_mode=True)),
        ("rectangular", (2, 3, 6, 5), dict(kernel_size=(1, 3), stride=(2, 1))), ("gaps", (1, 2, 7, 7), dict(kernel_size=2, stride=3)),
        ("whole", (2, 3, 4, 5), dict(kernel_size=(4, 5))), ("size1", (1, 1, 1, 1), dict(kernel_size=1)),
        ("empty_batch", (0, 3, 4, 6), dict(kernel_size=2)),
        ("channels_last_overlap", (2, 3, 6, 7), dict(kernel_size=3, stride=2, padding=1)))
    for case, x, options in windows:
        cases.add("max_pool2d", case, [x], lambda x, o=options: F.max_pool2d(x, **o))
        cases.add("avg_pool2d", case, [x], lambda x, o=options: F.avg_pool2d(x, **o))
    ties = torch.tensor([1.0, 2.0, 2.0, 1.0] * 4 + [0.0] * 16, dtype=torch.float64).reshape(1, 2, 4, 4)
    cases.add("max_pool2d", "kinks", [ties], lambda x: F.max_pool2d(x, 3, 1, 1))
    for case, ceil_mode in (("without_pad", False), ("without_pad_ceil_mode", True)):
        cases.add("avg_pool2d", case, [(2, 3, 6, 6)],
                  lambda x, c=ceil_mode: F.avg_pool2d(x, 3, 2, 1, ceil_mode=c, count_include_pad=False))
    for op, f in (("adaptive_avg_pool2d", F.adaptive_avg_pool2d), ("adaptive_max_pool2d", F.adaptive_max_pool2d)):
        for case, x, size in (("global", (2, 3, 4, 5), (1, 1)), ("uneven", (2, 3, 5, 7), (3, 2)), ("same", (2, 3, 4, 5), (4, 5)),
                              ("larger", (1, 2, 3, 3), (5, 4)), ("size1", (1, 1, 1, 1), (1, 1)), ("channels_last", (2, 3, 5, 7), (3, 2))):
            cases.add(op, case, [x], lambda x, f=f, s=size: f(x, s))


def normalization(cases):
    def training(x, w=None, b=None):
        return F.batch_norm(x, None, None, w, b, training=True, eps=EPS)

    def inference(x, w=None, b=None):
        c = x.shape[1]
        return F.batch_norm(x, ramp(c, -0.25, 0.125, x.dtype), ramp(c, 0.5, 0.25, x.dtype), w, b, training=False, eps=EPS)

    for op, f in (("batch_norm_training", training), ("batch_norm_inference", inference)):
        for case, x, parameters in (("matrix", (4, 3), 2), ("images", (2, 3, 4, 5), 2), ("no_affine", (2, 3, 4, 5), 0), ("no_bias", (2, 3, 4, 5), 1),
                                    ("one_channel", (2, 1, 3, 3), 2), ("one_pixel", (3, 4, 1, 1), 2), ("one_image", (1, 2, 2, 3), 2),
                                    ("channels_last", (2, 3, 4, 5), 2)):
            cases.add(op, case, [x] + [(x[1],)] * parameters, f)
    extreme = torch.tensor([[1000.0, -1000.0, 999.0, 0.0], [-1e30, -2.0, -1.0, -1e4]], dtype=torch.float32).double()
    for op, f in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        for case, x, dim in (("last", (3, 4), 1), ("negative_dim", (2, 3, 4), -1), ("first", (3, 4), 0), ("middle", (2, 3, 4), 1),
                             ("size1", (3, 1), 1), ("empty_rows", (0, 3), 1), ("empty_dim", (3, 0), 1), ("channels_last", (2, 3, 4, 5), 1),
                             ("extreme", extreme, 1)):
            cases.add(op, case, [x], lambda x, f=f, d=dim: f(x, d))

    def loss(reduction="mean", smoothing=0.0, ignore=False, weights=False):
        def f(x):
            target = indices(tuple(x.shape[:1]) + tuple(x.shape[2:]), x.shape[1])
            if ignore:
                target.view(-1)[1::3] = -7
            return F.cross_entropy(x, target, ramp(x.shape[1], 0.5, 0.25, x.dtype) if weights else None, ignore_index=-7,
                                   reduction=reduction, label_smoothing=smoothing)
        return f

    for case, x, f in (
            ("mean", (4, 5), loss()), ("sum", (4, 5), loss("sum")), ("none", (4, 5), loss("none")), ("smoothing", (4, 5), loss(smoothing=0.1)),
            ("ignore", (4, 5), loss(ignore=True)), ("ignore_none", (4, 5), loss("none", 0.2, True)), ("weights", (4, 5), loss(weights=True)),
            ("all", (4, 5), loss("mean", 0.1, True, True)), ("all_sum", (4, 5), loss("sum", 0.1, True, True)),
            ("all_none", (4, 5), loss("none", 0.1, True, True)), ("positions", (2, 3, 4), loss("mean", 0.1, True, True)),
            ("images_none", (2, 3, 2, 2), loss("none")), ("images_channels_last", (2, 3, 2, 2), loss(smoothing=0.1)),
            ("one_row", (1, 3), loss()), ("one_class", (3, 1), loss()), ("empty_sum", (0, 3), loss("sum")), ("empty_none", (0, 3), loss("none")),
            ("extreme", extreme, loss())):
        cases.add("cross_entropy", case, [x], f)


def transformers(cases):
    def layer_norm(x, w=None, b=None):
        return F.layer_norm(x, x.shape[-1:], w, b, EPS)

    for case, x, parameters in (("matrix", (4, 5), 2), ("sequences", (2, 3, 6), 2), ("vector", (7,), 2), ("no_affine", (4, 5), 0),
                                ("no_bias", (4, 5), 1), ("one_row", (1, 5), 2), ("empty_batch", (0, 5), 2), ("channels_last", (2, 3, 4, 5), 2)):
        cases.add("layer_norm", case, [x] + [(x[-1],)] * parameters, layer_norm)
    for case, x, parameters in (("none", (4, 5), 2), ("none_no_affine", (2, 3, 4), 0), ("none_layouts", (4, 5), 2), ("empty_batch", (0, 5), 2)):
        cases.add("dropout_add_layer_norm", case, [x, x] + [(x[-1],)] * parameters, lambda x, r, *p: layer_norm(r + x, *p))
    for suffix, approximation in (("", "none"), ("_tanh", "tanh")):
        for case, x in (("matrix", (3, 4)), ("scalar", ()), ("empty", (0, 3)), ("transposed", (2, 3, 5)), ("channels_last", (2, 3, 4, 5))):
            cases.add("gelu", case + suffix, [x], lambda x, a=approximation: F.gelu(x, approximate=a))
        for case, x in (("matrix", (3, 4)), ("sequences", (2, 3, 5)), ("vector", (6,)), ("size1", (3, 1)), ("empty_batch", (0, 3))):
            cases.add("bias_gelu", case + suffix, [x, x[-1:]], lambda x, b, a=approximation: F.gelu(x + b, approximate=a))

    def attention(q, k, v, heads=2, mask=None, scale=None):  # as Hugging Face's BERT has it
        n, s, d = q.shape
        t = k.shape[1]
        split = lambda x: x.view(n, x.shape[1], heads, d // heads).transpose(1, 2)
        scores = split(q) @ split(k).transpose(-1, -2) * (scale or (d // heads) ** -0.5)
        if mask is not None:
            i = torch.arange(n * t).reshape(n, t)
            keep = i % 3 != 0 if mask == "some" else i % t <= i // t
            scores = scores + (~keep)[:, None, None, :].to(q.dtype) * torch.finfo(q.dtype).min
        return (scores.softmax(-1) @ split(v)).transpose(1, 2).reshape(n, s, d)

    for case, q, t, options in (("one_head", (2, 3, 4), 3, dict(heads=1)), ("heads", (2, 5, 6), 5, {}), ("cross", (2, 3, 6), 5, dict(heads=3)),
                                ("cross_longer_queries", (2, 5, 4), 2, {}), ("scale", (1, 4, 4), 4, dict(scale=0.25)),
                                ("mask", (2, 5, 4), 5, dict(mask="some")), ("mask_bool", (2, 5, 4), 5, dict(mask="some")),
                                ("padding", (3, 5, 4), 5, dict(mask="padding")), ("size1", (1, 1, 1), 1, dict(heads=1)),
                                ("one_place", (2, 3, 4), 1, {}), ("one_query", (2, 1, 4), 3, {}), ("empty_batch", (0, 3, 4), 3, {}),
                                ("transposed", (2, 3, 4), 3, {})):
        kv = (q[0], t, q[2])
        cases.add("attention", case, [q, kv, kv], lambda q, k, v, o=options: attention(q, k, v, **o))


def movement(cases):
    views = (
        ("reshape", "plain", (2, 6), lambda x: x.reshape(3, 4)), ("reshape", "inferred", (2, 6), lambda x: x.reshape(4, -1)),
        ("reshape", "scalar", (1, 1), lambda x: x.reshape(())), ("reshape", "empty", (0, 6), lambda x: x.reshape(3, 0)),
        ("reshape", "transposed", (3, 4), lambda x: x.reshape(2, 6)), ("reshape", "channels_last", (2, 3, 4, 5), lambda x: x.reshape(2, 3, 20)),
        ("flatten", "plain", (2, 3, 4), lambda x: x.flatten(1)), ("flatten", "all", (2, 3, 4), lambda x: x.flatten()),
        ("flatten", "negative", (2, 3, 4), lambda x: x.flatten(-2)), ("transpose", "plain", (2, 3, 4), lambda x: x.transpose(0, 1)),
        ("transpose", "negative", (2, 3, 4), lambda x: x.transpose(-1, 0)), ("transpose", "empty", (0, 3), lambda x: x.transpose(0, 1)),
        ("permute", "plain", (2, 3, 4), lambda x: x.permute(2, 0, 1)), ("permute", "negative", (2, 3, 4), lambda x: x.permute(-1, 0, -2)),
        ("slice", "plain", (3, 6), lambda x: x[:, 1:5]), ("slice", "negative", (3, 6), lambda x: x[:, -4:-1]),
        ("slice", "step", (3, 6), lambda x: x[:, 1:6:2]), ("slice", "past_the_end", (3, 6), lambda x: x[1:100]),
        ("slice", "nothing", (3, 6), lambda x: x[:, 4:2]), ("select", "plain", (3, 4), lambda x: x[:, 2]),
        ("select", "negative", (2, 3, 4), lambda x: x.select(-2, -1)), ("select", "to_scalar", (4,), lambda x: x[3]),
        ("squeeze", "plain", (2, 1, 3), lambda x: x.squeeze(1)), ("squeeze", "negative", (2, 3, 1), lambda x: x.squeeze(-1)),
        ("unsqueeze", "plain", (2, 3), lambda x: x.unsqueeze(1)), ("unsqueeze", "negative", (2, 3), lambda x: x.unsqueeze(-1)),
        ("unsqueeze", "scalar", (), lambda x: x.unsqueeze(0)), ("expand", "plain", (2, 1, 3), lambda x: x.expand(2, 4, 3)),
        ("expand", "in_front", (2, 1), lambda x: x.expand(3, 2, 4)), ("expand", "scalar", (), lambda x: x.expand(2, 3)),
        ("expand", "to_nothing", (2, 1), lambda x: x.expand(2, 0)), ("expand", "then_used", (3, 1), lambda x: x.expand(3, 4).square()),
        ("contiguous", "transposed", (3, 4), lambda x: x.contiguous()),
        ("contiguous", "to_channels_last", (2, 3, 4, 5), lambda x: x.contiguous(memory_format=torch.channels_last)))
    for op, case, shape, f in views:
        cases.add(op, case, [shape], f)
    for case, x, dim, index in (("rows", (3, 4), 0, (2, 4)), ("columns", (3, 4), 1, (3, 6)), ("negative", (2, 3, 4), -2, (2, 2, 3)),
                                ("smaller", (3, 4), 1, (2, 2)), ("vector", (5,), 0, (7,)), ("size1", (1, 1), 0, (1, 1)), ("nothing", (3, 4), 1, (3, 0))):
        cases.add("gather", case, [x], lambda t, d=dim, i=index: t.gather(d, indices(i, t.shape[d])))
    for case, w, i, padding in (("vector", (5, 3), (4,), None), ("repeated", (3, 4), (2, 6), None), ("padding", (5, 3), (2, 5), 3),
                                ("scalar", (5, 3), (), None), ("size1", (1, 1), (1,), None), ("nothing", (5, 3), (0,), None)):
        cases.add("embedding", case, [w], lambda w, i=i, p=padding: F.embedding(indices(i, w.shape[0]), w, p))
    for case, parts, dim in (("rows", [(2, 3), (1, 3)], 0), ("columns", [(2, 3), (2, 1), (2, 4)], 1), ("negative", [(2, 3, 2), (2, 1, 2)], -2),
                             ("one", [(2, 3)], 0), ("with_empty", [(2, 3), (0, 3), (1, 3)], 0),
                             ("channels_last", [(2, 3, 4, 5), (2, 2, 4, 5)], 1)):
        cases.add("cat", case, parts, lambda *p, d=dim: torch.cat(p, d))
    cases.add("cat", "twice_the_same", [(2, 3)], lambda x: torch.cat([x, x], 0))


def batch_norm():
    entries = {}
    for case, options in (("batch_norm", {}), ("batch_norm_options", dict(eps=1e-3, momentum=0.3, affine=False))):
        layer = torch.nn.BatchNorm2d(3, **options).double()
        if layer.affine:
            layer.weight.data, layer.bias.data = random("bn.weight", 3), random("bn.bias", 3)
            entries[f"{case}.weight"], entries[f"{case}.bias"] = layer.weight.data.clone(), layer.bias.data.clone()
        for step in range(2):
            x = random(f"{case}.x{step}", (4, 3, 2, 5))
            entries[f"{case}.x{step}"], entries[f"{case}.y{step}"] = x, layer(x)
            entries[f"{case}.running_mean{step}"] = layer.running_mean.clone()
            entries[f"{case}.running_var{step}"] = layer.running_var.clone()
        layer.eval()
        x = random(f"{case}.eval", (2, 3, 2, 2)).requires_grad_()
        y = layer(x)
        gradient = random(f"{case}.dout", tuple(y.shape))
        y.backward(gradient)
        entries[f"{case}.eval.x"], entries[f"{case}.eval.y"] = x, y
        entries[f"{case}.eval.dy"], entries[f"{case}.eval.dx"] = gradient, x.grad
    for case, add, relu in (("relu", False, True), ("add", True, False), ("add_relu", True, True)):
        for mode in ("train", "eval"):
            layer = torch.nn.BatchNorm2d(3).double().train(mode == "train")
            name = f"batch_norm_{case}.{mode}"
            for key, values in (("weight", random("bn.weight", 3)), ("bias", random("bn.bias", 3)), ("running_mean", random("bn.mean", 3)),
                                ("running_var", random("bn.variance", 3, 0.5, 2.0))):
                getattr(layer, key).data.copy_(values)
                entries[f"{name}.{key}"] = values
            x = random(f"{name}.x", (2, 3, 4, 5)).requires_grad_()
            residual = random(f"{name}.residual", tuple(x.shape)).requires_grad_()
            y = layer(x) + residual if add else layer(x)
            y = torch.relu(y) if relu else y
            gradient = random(f"{name}.dout", tuple(y.shape))
            y.backward(gradient)
            entries.update({f"{name}.x": x, f"{name}.y": y, f"{name}.dy": gradient, f"{name}.dx": x.grad,
                            f"{name}.dweight": layer.weight.grad, f"{name}.dbias": layer.bias.grad})
            if add:
                entries.update({f"{name}.residual": residual, f"{name}.dresidual": residual.grad})
    save("batch_norm.safetensors", entries)


def losses():
    entries = {}
    for case, f in (("mse", F.mse_loss), ("bce", F.binary_cross_entropy_with_logits)):
        for reduction in ("mean", "sum", "none"):
            x = random(f"{case}.x", (3, 4))
            x[0, 0], x[1, 1], x[2, 2] = 0.0, 60.0, -60.0  # where a careless bce breaks
            x.requires_grad_()
            target = random(f"{case}.target", (3, 4), 0, 1)
            y = f(x, target, reduction=reduction)
            gradient = random(f"{case}.dout", tuple(y.shape))
            y.backward(gradient)
            name = f"{case}.{reduction}"
            entries.update({f"{name}.x": x, f"{name}.target": target, f"{name}.y": y, f"{name}.dy": gradient, f"{name}.dx": x.grad})
    x = random("nll.x", (3, 4)).requires_grad_()
    y = F.nll_loss(F.log_softmax(x, 1), indices((3,), 4))
    y.backward()
    entries.update({"nll.x": x, "nll.y": y, "nll.dx": x.grad})
    save("losses.safetensors", entries)


def main():
    torch.set_num_threads(1)
    cases = Cases()
    for family in (elementwise, reductions, matrices, pooling, normalization, transformers, movement):
        family(cases)
    for dtype in (torch.float64, torch.float32):
        cases.save(dtype)
    batch_norm()
    losses()


if __name__ == "__main__":
    main()
