// The one table of symptoms. Which causes show which of them is said by each cause, in plumb/doctor/.
#include "plumb/report/symptoms.h"

namespace plumb {

const std::vector<Symptom>& symptom_table() {
  static const std::vector<Symptom> all{
      {"stuck_uniform", "the loss is stuck at ln V",
       "does not move, does not decrease, does not go down, does not learn at all, flat from the first step, "
       "stays at log vocab size, stays at "
       "uniform, stuck "
       "where it began, random guessing, never falls, constant loss, stuck at ln(vocab)",
       "The loss is within a few hundredths of ln V (10.82 for 50,257 tokens; `plumb train` prints it as "
       "uniform) and "
       "has been from the first step on.",
       "The gradient norm of the blocks: exactly 0 means that the head lets nothing through; not 0, that the "
       "updates are "
       "lost or far too small. Then the spread of the logits."},
      {"stuck_unigram", "the loss is stuck at the unigram, or at another tidy value",
       "plateau, plateaus, stops decreasing, does not decrease any more, falls and then stops, stays at "
       "unigram entropy, same prediction everywhere, "
       "predicts the "
       "most frequent token, ignores the context, stuck after the first fall, stuck at 7, learns only token "
       "frequencies, output does not depend on the input, repeats one token, does not go down any more",
       "It fell from ln V within the first hundred steps and then stays within 0.05 nats of the unigram's "
       "loss, which "
       "`plumb train` prints. A value above that is another symptom: slow, or a little worse.",
       "Adjacent KL: near 0, every position is given the same answer, and the blocks are bypassed or shut. "
       "Then the "
       "gradient by layer, and a run with a tenth of the learning rate."},
      {"too_good", "the loss is 0, or too good to be true",
       "zero loss, loss goes to 0, near zero, unrealistically low, suspiciously low, perfect accuracy, below "
       "the "
       "entropy floor, too low, good loss but the generated text is poor, generates garbage although the "
       "loss is low, "
       "leak, cheating, samples are gibberish",
       "Within some hundred steps the loss is below what the text can be predicted to (`plumb train` prints "
       "the "
       "floor of generated corpora; a trigram's is hard to halve on text), or text that the model writes is "
       "far worse "
       "than its loss.",
       "Change the last token of a sequence: no logit before it may move. Then decode a batch, and read "
       "inputs and "
       "targets side by side."},
      {"nan_rising", "NaN after gradients that rose",
       "nan loss, inf, infinite, overflow, not finite, becomes nan after some steps, gradient norm explodes "
       "before nan, "
       "gradients explode, exploding gradients, loss is nan",
       "The trace has a gradient norm that grew over many steps, tenfold or more, before the loss was not "
       "finite.",
       "The learning rate at that step and the largest attention score of each block: which of them grew "
       "first?"},
      {"nan_sudden", "NaN without rising gradients",
       "nan loss, inf, infinite, not finite, nan from the first step, sudden nan, nan out of nowhere, nan at "
       "a certain "
       "batch, nan in half precision, loss is nan",
       "The step before was as any other: loss and gradient norm had not moved.",
       "The first tensor that is not finite (`plumb train` names it, and the step): a norm, a softmax or a "
       "table. Run that "
       "batch again in fp32."},
      {"slightly_worse", "it is a little worse than it should be",
       "slightly worse than the paper, cannot reproduce the published loss, gap to the reference, a bit "
       "higher than "
       "expected, worse than baseline, a few percent worse, underperforms, worse than the other "
       "implementation",
       "It learns as the reference does, without spikes, and ends some hundredths to tenths of a nat above "
       "it; with three "
       "seeds each the difference is larger than the spread.",
       "`plumb bisect` of two configs of which one is as it should be. Without one: attention's scale, "
       "scaled init, and "
       "whether every block does something."},
      {"slow", "it learns, but far too slowly",
       "slow, slow to converge, slow convergence, takes too long, loss decreases very slowly, hardly learns, "
       "stops "
       "improving early, high training loss, underfits, underfitting",
       "The loss goes on falling at every step, and ten times the steps would get it where it should be.",
       "The size of an update over the size of the weights: about 1/1,000 is usual. Far below in all "
       "matrices it is the "
       "learning rate, in some it is they."},
      {"validation_rises", "validation rises while training falls",
       "overfits, overfitting, generalisation gap, generalization gap, validation loss goes up, val loss "
       "increases, "
       "eval loss rises, training loss keeps falling, memorises, memorizes, test loss higher than train",
       "The validation loss has a lowest point and ends more than 0.1 nats above it, while the training loss "
       "went on "
       "falling.",
       "How often each training token is seen (steps x batch x block over the tokens of the split). More "
       "than a few times "
       "is enough for it."},
      {"train_eval_differ", "training and evaluation differ",
       "train and eval mode give different results, model.eval changes the loss, validation differs each "
       "time, different "
       "output in evaluation, eval loss much worse than train from the start, validation depends on the "
       "batch size, "
       "different at inference, inference mismatch, generation differs from training",
       "The same tokens in training and in evaluating mode, dropout off, have different losses; or the same "
       "validation has "
       "another value when it is repeated or cut into other batches.",
       "Evaluate twice, then with another batch size. What changes is noise (dropout) or the company of "
       "other "
       "sequences (statistics of the batch)."},
      {"seed_dependent", "it depends on the seed",
       "some seeds work, only some runs train, unlucky seed, another seed works, sometimes trains, not "
       "reproducible, "
       "irreproducible, nondeterministic, different every run, run to run variance, unstable between runs, "
       "same seed "
       "different result",
       "Several seeds of one config end far apart, some stuck and some not. One seed that gives two results "
       "is the same "
       "symptom and another cause: nondeterminism.",
       "Run one seed twice. When it gives the same bits, run three seeds with half the learning rate and "
       "twice the "
       "warm-up."},
      {"spikes", "the loss spikes",
       "spike, jumps up and comes back, sudden jump, bumps, loss instability, unstable training, loss jumps "
       "and "
       "recovers, sawtooth",
       "A loss that is 0.5 nats or more above the steps before it, for some steps, and then comes down "
       "again. A step "
       "every epoch or at each resume is the data's order or the resume.",
       "The gradient norm at that step and before: was it clipped? Then the largest attention score, and the "
       "batch of that "
       "step."},
      {"diverges", "the loss diverges",
       "blows up, explodes, goes up and stays up, rises without end, loss increases, loss goes up, runs "
       "away, "
       "grows instead of falling, divergence, worse than random, above ln V after training, "
       "blew up, never recovers, never comes back",
       "It fell, and ends far above its best (0.5 nats); it does not come back.",
       "At which learning rate it broke away: during the warm-up it is the rate's height, after it what "
       "grows while "
       "training (scores, the stream, the logits)."},
      {"worse_with_depth", "slower or worse with depth",
       "deep model does not train, deeper is worse, more layers do not help, works with few layers, 24 "
       "layers fail, "
       "fails when deep, adding layers hurts, vanishing gradients, gradient vanishes, first layers get no "
       "gradient, "
       "does not scale with depth, activations grow with depth",
       "The same config with 2 or 4 layers learns as it should; with more it is slower, worse, or stuck.",
       "`plumb profile`: the stream and the gradient by layer. Both should change by a factor of a few from "
       "the first "
       "block to the last, not by orders of magnitude."},
      {"worse_with_length", "worse as the context grows",
       "long context, longer sequences are worse, fails past the training length, longer than block size, "
       "loss rises "
       "with position, late positions are worse, length extrapolation, long prompts break, context window, "
       "quality drops with length, perplexity rises after so many tokens",
       "`plumb eval --block-sizes`, or the loss by position: later positions, which have seen more, are "
       "worse than "
       "earlier ones.",
       "Where it turns: at the trained length it is the range of positions, at a power of two their "
       "precision, from the "
       "beginning how they are told."},
      {"resume_departs", "a resumed run departs",
       "loss jumps after resume, checkpoint, resume from checkpoint, restart, continue training, after "
       "loading the loss is "
       "higher, different after reload, resuming differs, jump at restart, save and load",
       "Run 20 steps at once, and 10, a resume, and 10: the losses of the last ten should be the same to the "
       "last digit.",
       "The first loss after the resume: the same as without it means that the weights are back, and what is "
       "missing is the "
       "optimiser, the step counter or the data's order."},
      {"import_differs", "an imported model gives other logits",
       "converted weights, loaded from hugging face, pretrained weights, logits do not match, port, imported "
       "checkpoint, "
       "conversion, output differs from the original, different from transformers, gguf, wrong logits after "
       "loading, "
       "outputs do not match the reference implementation",
       "The same token ids in both, in fp32 and evaluating, and logits that differ by more than rounding "
       "(1e-4).",
       "`plumb inspect` of the checkpoint, then the output of the first norm, the first attention and the "
       "first block in "
       "both: the first that differs is where to look."},
      {"first_loss", "the first loss is far from ln V",
       "initial loss, loss starts too high, starts far above, loss at step 0, starts at 50, huge initial "
       "loss, loss begins "
       "in the hundreds, initial loss too low, starts below ln vocab",
       "Before any update the loss should be ln V and a few tenths at most; it is several nats above, or "
       "below.",
       "The rms of the logits at step 0: above 1 the init, or a head tied at the embedding's scale. Below ln "
       "V, how the "
       "mean is taken and what the targets are."},
  };
  return all;
}

}  // namespace plumb
