#include "plumb/spec/presets.h"

#include <fmt/core.h>

#include "plumb/base/error.h"
#include "plumb/base/text.h"

namespace plumb {
namespace {

constexpr Preset all[] = {
    {"chapter", "the default: 12 layers, Pre-LN, 1.7 million parameters", ""},
    {"post", "the same with the norm after the addition, as in the first Transformer",
     "[model]\nplacement = \"post\"\n"},
    {"tiny", "two narrow layers and 200 steps: seconds, to try things out",
     "[model]\nn_layer = 2\nd_model = 64\nn_head = 4\nd_ff = 128\n"
     "[train]\nsteps = 200\nbatch_size = 16\nwarmup = 20\neval_every = 100\ncheckpoint_every = 100\n"},
    {"text", "a text of one's own in an alphabet: a longer block, more of it; data.corpus is its path",
     "[model]\nn_layer = 6\nd_model = 192\nn_head = 6\nd_ff = 512\nblock_size = 128\n"
     "[train]\nlr = 1e-3\nbatch_size = 16\n[data]\ncorpus = \"my-book.txt\"\nvocab_size = 256\n"},
    {"gpt2", "GPT-2 small's shape (Radford et al. 2019), but for its vocabulary: slow on a CPU",
     "[model]\nn_layer = 12\nd_model = 768\nn_head = 12\nd_ff = 3072\nblock_size = "
     "1024\n[model.attention]\nbias = true\n[model.ffn]\nkind = \"gelu_tanh\"\n"
     "[train]\nlr = 6e-4\nbatch_size = 2\naccumulate = 8\n"},
    {"llama",
     "Llama's block (Touvron et al. 2023) at the chapter's size: RMSNorm, rotary positions, SwiGLU, no "
     "biases",
     "[model]\nnorm = \"rms\"\nposition = \"rope\"\ntied_embeddings = false\n"
     "[model.ffn]\nkind = \"swiglu\"\nbias = false\neight_thirds = true\n"},
    {"qwen3",
     "Qwen3's block (Yang et al. 2025) at the chapter's size: Llama's with grouped queries and a norm of "
     "each head",
     "[model]\nn_kv_head = 2\nnorm = \"rms\"\nnorm_eps = 1e-6\nposition = "
     "\"rope\"\n[model.attention]\nqk_norm = \"rms\"\n"
     "[model.rope]\nbase = 1e6\n[model.ffn]\nkind = \"swiglu\"\nbias = false\neight_thirds = true\n"},
    {"gemma2",
     "Gemma 2's block (2024) at the chapter's size: norms on both sides of a branch, gains 1 + w, soft caps, "
     "GeGLU; every layer "
     "sees all keys, where Gemma's alternate",
     "[model]\nn_kv_head = 2\nnorm = \"rms\"\nnorm_eps = 1e-6\nnorm_gain = \"plus_one\"\nplacement = "
     "\"sandwich\"\n"
     "position = \"rope\"\nembedding_scale = \"sqrt_d\"\nlogit_softcap = 30.0\n[model.attention]\nsoftcap = "
     "50.0\n"
     "[model.ffn]\nkind = \"geglu_tanh\"\nbias = false\neight_thirds = true\n"},
};

}  // namespace

std::span<const Preset> presets() { return all; }

Config preset_config(std::string_view name) {
  std::vector<std::string> known;
  for (const Preset& p : all) {
    if (p.name == name) return parse_config(p.toml, fmt::format("preset {}", name));
    known.emplace_back(p.name);
  }
  bad_input("{}", unknown_name("preset", name, known));
}

}  // namespace plumb
