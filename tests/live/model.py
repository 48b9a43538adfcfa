"""A tiny model with random weights and a tokenizer, made on the spot: whatever it answers, it always answers the same."""

from __future__ import annotations

from pathlib import Path

WORDS = 512
"""The vocabulary: token ``n`` is the word ``wn``, so a text names its tokens."""
CONTEXT = 512
"""The longest prompt with its answer, in tokens."""
_SPECIAL = 3  # padding, begin and end of a text


def make_model(folder: Path, seed: int) -> None:
    """Write the model and its tokenizer into ``folder``. Its weights are large and the two ends of the network not tied, so that
    an answer depends on all of the prompt instead of repeating the last word.
    """
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import OPTConfig, OPTForCausalLM, PreTrainedTokenizerFast
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.manual_seed(seed)
    model = OPTForCausalLM(
        OPTConfig(
            vocab_size=WORDS,
            hidden_size=64,
            word_embed_proj_dim=64,
            ffn_dim=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=CONTEXT,
            do_layer_norm_before=True,
            init_std=0.3,
            tie_word_embeddings=False,
            dropout=0.0,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    )
    model.save_pretrained(folder)
    tokenizer = Tokenizer(WordLevel({f"w{number}": number for number in range(WORDS)}, unk_token="w0"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="w0", bos_token="w1", eos_token="w2", unk_token="w0"
    ).save_pretrained(folder)


def prompt(number: int, tokens: int, seed: int) -> list[int]:
    """Prompt ``number`` as token ids; the same for the same arguments."""
    import random

    choice = random.Random(f"{seed} {number}")
    return [choice.randrange(_SPECIAL, WORDS) for _ in range(tokens)]
