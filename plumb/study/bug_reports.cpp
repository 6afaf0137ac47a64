#include "plumb/study/bug_reports.h"

#include <fmt/format.h>

#include <algorithm>

#include "plumb/base/text.h"
#include "plumb/doctor/doctor.h"
#include "plumb/study/audit.h"

namespace plumb {

std::vector<BugReport> bug_reports() {
  return {
      {"huggingface/transformers #47458",
       "residual projections start at std 0.02 at any depth",
       {"init.scheme=gpt2", "fault.inject=residual_scale_wrong", "fault.strength=-1"},
       {"residual_scale_wrong"}},
      {"NX-AI/xlstm #83; Modalities PR #456",
       "a tied model starts at a loss of hundreds: the matrix kept the embedding's scale",
       {"fault.inject=tied_embedding_broken", "fault.strength=2"},
       {"tied_embedding_broken"}},
      {"NVIDIA-NeMo/Speech PR #2197; marian-dev PR #719",
       "a Pre-LN stack without a final norm",
       {"model.placement=pre", "fault.inject=no_final_norm"},
       {"no_final_norm"}},
      {"attention-is-all-you-need-pytorch PR #17",
       "mean and deviation over the sequence axis",
       {"fault.inject=norm_wrong_axis"},
       {"norm_wrong_axis"}},
      {"Liger-Kernel #74",
       "Gemma's gain 1 + w read as w",
       {"model.norm=rms", "fault.inject=norm_gain_convention"},
       {"norm_gain_convention"}},
      {"candle PR #271",
       "eps 1e-5 for 1e-6",
       {},
       {},
       "`inspect` and a comparison of logits: the model by itself is healthy"},
      {"pytorch PR #133085",
       "fp16 RMSNorm: the sum of squares overflows",
       {"model.norm=rms", "fault.inject=norm_eps_lost"},
       {"norm_eps_lost"}},
      {"pytorch PR #189581",
       "bf16 RMSNorm: eps of the format, 7.8e-3, above the variance",
       {"model.norm=rms", "fault.inject=norm_eps_large", "fault.strength=0.0078125"},
       {"norm_eps_large"}},
      {"transformers #31673; keras #23038",
       "the causal mask dropped: the loss collapses",
       {"fault.inject=causal_leak", "fault.strength=64"},
       {"causal_leak", "mask_value_finite"}},
      {"nanoGPT PR #240",
       "dropout active in evaluation",
       {"train.dropout=0.1", "fault.inject=dropout_in_eval"},
       {"dropout_in_eval"}},
      {"transformers PR #34191",
       "the loss scales with accumulation",
       {"train.accumulate=4", "fault.inject=loss_normaliser"},
       {"loss_normaliser"}},
      {"transformers PR #35927", "norm gains decay", {"fault.inject=decay_on_gains"}, {"decay_on_gains"}},
      {"transformers PR #29285; modded-nanogpt #39",
       "bf16 cannot hold positions past 256",
       {"fault.inject=position_precision"},
       {"position_precision"}},
      {"mlx #343, PR #3071",
       "ALiBi's slopes for 3, 6, 12 heads",
       {},
       {},
       "a test: slopes for counts that are no power of two, against the reference (tests/position)"},
      {"pretrained-models.pytorch #5",
       "BatchNorm: train fine, evaluation bad",
       {"model.norm=batch", "fault.inject=batchnorm_in_eval"},
       {"batchnorm_in_eval"}},
      {"lerobot #3668",
       "dropout gone after the first evaluation: the mode is not restored",
       {},
       {},
       "a test: a step after validation has the bits of a step without it (tests/train)"},
      {"Megatron-Bridge PR #3832",
       "a resumed run departs: Adam's step counter is lost",
       {"fault.inject=resume_mismatch"},
       {"resume_mismatch"}},
      {"flash-attention #414, #384",
       "same seed, another loss: atomic additions",
       {"fault.inject=nondeterministic"},
       {"nondeterministic"}},
      {"pixeli99/MixLN, lmsdss/LayerNorm-Scaling (in their code)",
       "DeepNorm with (8L)^(+1/4) for a gain, alpha for 32 layers",
       {},
       {},
       "a test: alpha and beta against the paper (tests/residual)"},
      {"mup #42, not to be blamed",
       "a readout whose coordinates slope at the start is expected",
       {"init.scheme=mup", "model.d_model=128", "init.base_d_model=64"},
       {}},
      {"transfuser #146, not to be blamed",
       "dead ReLUs of no established cause: the count is reported, no cause is named",
       {"model.ffn.kind=relu"},
       {}},
  };
}

ReportAnswer answer_to(const BugReport& r, const Components& components, const Corpus& corpus,
                       const std::function<bool()>& interrupted) {
  Config c;
  for (const char* s : {"model.n_layer=4", "model.d_model=64", "model.d_ff=128", "data.vocab_size=300",
                        "train.steps=600", "train.batch_size=8", "train.threads=1"})
    set_value(c, s);
  for (const std::string& s : r.set) set_value(c, s);
  const Diagnosis d = diagnose(audit(c, components, corpus, {.interrupted = interrupted}), doctor_table());
  ReportAnswer a{d.verdict, {}, false};
  for (const Finding& f : d.findings) a.named.push_back(f.cause);
  a.right = r.names.empty()
                ? a.named.empty()
                : !a.named.empty() && std::ranges::find(r.names, a.named.front()) != r.names.end();
  return a;
}

std::string bug_reports_markdown(const Components& components, const Corpus& corpus,
                                 const std::function<bool()>& interrupted) {
  std::string out = "| public thread | what was seen | answer | |\n| --- | --- | --- | --- |\n";
  for (const BugReport& r : bug_reports()) {
    if (r.set.empty()) {
      out += fmt::format("| {} | {} | not the doctor's: {} | – |\n", r.reference, r.symptom, r.elsewhere);
      continue;
    }
    const ReportAnswer a = answer_to(r, components, corpus, interrupted);
    out += fmt::format("| {} | {} | {} | {} |\n", r.reference, r.symptom,
                       a.named.empty() ? a.verdict : join(a.named), a.right ? "right" : "**wrong**");
  }
  return out;
}

}  // namespace plumb
