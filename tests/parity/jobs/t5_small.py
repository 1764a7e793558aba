"""Makes the folder t5-base: a small T5 with random weights and a tokenizer of the words in `text`, where the example would download one."""
import sentencepiece
import torch
from transformers import T5Config, T5ForConditionalGeneration, T5Tokenizer

sentencepiece.SentencePieceTrainer.train(input="text", model_prefix="spiece", vocab_size=200, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2)
tokenizer = T5Tokenizer("spiece.model", legacy=False)
tokenizer.save_pretrained("t5-base")
torch.manual_seed(1)
model = T5ForConditionalGeneration(T5Config(vocab_size=len(tokenizer), d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, dropout_rate=0.1, decoder_start_token_id=0))
model.save_pretrained("t5-base")
print("T5 of %d weights, %.4f" % (sum(p.numel() for p in model.parameters()), sum(p.detach().double().abs().sum().item() for p in model.parameters())))
