#!/usr/bin/env python3
"""Makes the golden values of BERT's tests with Hugging Face's transformers.

Run it where torch, transformers and safetensors are installed; neither the build nor the tests need them:

    python3 tests/golden/make_bert_golden.py          # rewrites bert.safetensors beside this script

bert.safetensors, float64 but for tokens and labels and without dropout, of a BERT with two layers of 16:
    "input_ids", "attention_mask", "token_type_ids", "labels", "next_sentence"      one batch of three, with padding
    "pre_training.state.NAME", ".gradient.NAME"     BertForPreTraining: weights and the gradients of its loss
    "pre_training.loss", ".token_logits", ".next_sentence_logits", ".hidden"
    "masked_lm.*"                                   BertForMaskedLM with the tanh form of GELU, the same way
    "classification.*"                              BertForSequenceClassification with three labels: "labels" are its own
"""

from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

HERE = Path(__file__).parent
SIZES = dict(vocab_size=61, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40, max_position_embeddings=12,
             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.2)
N, S = 3, 10


def batch():
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 61, (N, S), generator=generator)
    mask = torch.ones(N, S, dtype=torch.int64)
    mask[1, 7:] = 0
    mask[2, 4:] = 0
    ids[mask == 0] = 0
    types = (torch.arange(S) >= 4).long().expand(N, S) * mask
    labels = torch.full((N, S), -100)
    for row, column in ((0, 1), (0, 5), (0, 8), (1, 2), (2, 3)):
        labels[row, column] = ids[row, column]
        ids[row, column] = 4
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types.contiguous(), "labels": labels,
            "next_sentence": torch.tensor([0, 1, 1])}


def build(kind, **more):
    torch.manual_seed(2)
    config = transformers.BertConfig(**SIZES, attn_implementation="eager", **more)
    model = kind(config).double()
    with torch.no_grad():  # biases and norms away from 0 and 1
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn(parameter.shape, dtype=torch.float64)
    return model.train()


def record(entries, prefix, model, output, loss, hidden):
    loss.backward()
    for name, parameter in model.named_parameters():
        entries[f"{prefix}.state.{name}"] = parameter
        entries[f"{prefix}.gradient.{name}"] = parameter.grad
    entries[f"{prefix}.loss"] = loss
    entries[f"{prefix}.hidden"] = hidden
    entries.update({f"{prefix}.{name}": value for name, value in output.items()})


def main():
    entries = batch()
    inputs = {name: entries[name] for name in ("input_ids", "attention_mask", "token_type_ids")}

    model = build(transformers.BertForPreTraining)
    out = model(**inputs, labels=entries["labels"], next_sentence_label=entries["next_sentence"], output_hidden_states=True)
    record(entries, "pre_training", model, {"token_logits": out.prediction_logits, "next_sentence_logits": out.seq_relationship_logits},
           out.loss, out.hidden_states[-1])

    model = build(transformers.BertForMaskedLM, hidden_act="gelu_new")
    out = model(**inputs, labels=entries["labels"], output_hidden_states=True)
    record(entries, "masked_lm", model, {"token_logits": out.logits}, out.loss, out.hidden_states[-1])

    model = build(transformers.BertForSequenceClassification, num_labels=3)
    entries["classification.labels"] = torch.tensor([2, 0, 1])
    out = model(**inputs, labels=entries["classification.labels"], output_hidden_states=True)
    record(entries, "classification", model, {"logits": out.logits}, out.loss, out.hidden_states[-1])

    entries = {name: tensor.detach().clone().contiguous() for name, tensor in entries.items()}
    save_file(entries, HERE / "bert.safetensors", metadata={"transformers": transformers.__version__})
    print(f"bert.safetensors: {len(entries)} tensors, {(HERE / 'bert.safetensors').stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
