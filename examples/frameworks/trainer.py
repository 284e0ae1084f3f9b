"""Transformers' own training loop on a tiny model and random texts; it knows nothing of Shoal."""

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

WORDS, LENGTH, SIZE = 100, 16, 256


class Texts(torch.utils.data.Dataset):
    """Random texts; the label says whether the first word is a frequent one."""

    def __init__(self) -> None:
        self._words = torch.randint(0, WORDS, (SIZE, LENGTH), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        words = self._words[index]
        return {"input_ids": words, "labels": (words[0] < WORDS // 2).long()}


def main() -> None:
    """Train for some steps on the CPU."""
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
    )
    arguments = TrainingArguments(
        output_dir="trainer", max_steps=300, logging_steps=20, save_strategy="no", use_cpu=True
    )
    Trainer(BertForSequenceClassification(config), arguments, train_dataset=Texts()).train()


if __name__ == "__main__":
    main()
