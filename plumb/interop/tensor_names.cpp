#include "plumb/interop/tensor_names.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "plumb/base/text.h"

namespace plumb {
namespace {

struct Rule {
  std::string_view module;
  Part part;
  std::string_view under = {};  // the word before the module, where that decides too
};

// Under an attention module (self_attn, attn, attention, self_attention), or at a layer's own level.
constexpr Rule attention_rules[] = {{"q_proj", Part::q},
                                    {"wq", Part::q},
                                    {"q", Part::q},
                                    {"k_proj", Part::k},
                                    {"wk", Part::k},
                                    {"k", Part::k},
                                    {"v_proj", Part::v},
                                    {"wv", Part::v},
                                    {"v", Part::v},
                                    {"c_attn", Part::qkv},
                                    {"query_key_value", Part::qkv},
                                    {"qkv_proj", Part::qkv},
                                    {"Wqkv", Part::qkv},
                                    {"qkv", Part::qkv},
                                    {"kv_a_proj_with_mqa", Part::latent},
                                    {"kv_b_proj", Part::latent},
                                    {"q_a_proj", Part::latent},
                                    {"q_b_proj", Part::latent},
                                    {"o_proj", Part::attn_out},
                                    {"out_proj", Part::attn_out},
                                    {"c_proj", Part::attn_out},
                                    {"dense", Part::attn_out},
                                    {"wo", Part::attn_out},
                                    {"o", Part::attn_out}};

constexpr Rule ffn_rules[] = {{"gate_proj", Part::gate}, {"w1", Part::gate},
                              {"up_proj", Part::up},     {"w3", Part::up},
                              {"c_fc", Part::up},        {"fc1", Part::up},
                              {"fc_in", Part::up},       {"dense_h_to_4h", Part::up},
                              {"in", Part::up},          {"gate_up_proj", Part::gate_up},
                              {"down_proj", Part::down}, {"w2", Part::down},
                              {"c_proj", Part::down},    {"fc2", Part::down},
                              {"fc_out", Part::down},    {"dense_4h_to_h", Part::down},
                              {"out", Part::down},       {"gate", Part::router},
                              {"router", Part::router},  {"shared_expert_gate", Part::router}};

constexpr Rule outer_rules[] = {{"wte", Part::token_embed},
                                {"embed_tokens", Part::token_embed},
                                {"word_embeddings", Part::token_embed},
                                {"embed_in", Part::token_embed},
                                {"tok_embeddings", Part::token_embed},
                                {"embed", Part::token_embed},
                                {"tokens_embed", Part::token_embed},
                                {"positions_embed", Part::pos_embed},
                                {"wpe", Part::pos_embed},
                                {"embed_positions", Part::pos_embed},
                                {"position_embeddings", Part::pos_embed},
                                {"pos", Part::pos_embed},
                                {"lm_head", Part::head},
                                {"embed_out", Part::head},
                                {"output", Part::head},
                                {"head", Part::head},
                                {"readout", Part::head},
                                {"project_in", Part::project_in},
                                {"project_out", Part::project_out},
                                {"project", Part::project_in, "embed"},
                                {"project", Part::project_out, "head"},
                                {"word_embeddings_layernorm", Part::embed_norm}};

// By the leaf: numbers that plumb learns beside its matrices and norms (embedding scale, residual rules,
// Fixup, DyT, gains of reparametrised weights).
constexpr Rule own_rules[] = {
    {"scale", Part::scalar, "embed"}, {"read", Part::scalar, "hc"}, {"mix", Part::scalar, "hc"},
    {"write", Part::scalar, "hc"},    {"alpha", Part::scalar},      {"lambda", Part::scalar},
    {"skip_gain", Part::scalar},      {"gain", Part::scalar},       {"shift", Part::scalar},
    {"weight_gain", Part::scalar},    {"weight_g", Part::scalar}};

constexpr std::string_view layer_words[] = {"h", "layers", "layer", "blocks", "block"};
constexpr std::string_view attention_words[] = {"self_attn", "attn", "attention", "self_attention"};
constexpr std::string_view ffn_words[] = {"mlp", "ffn", "feed_forward", "block_sparse_moe", "moe"};
constexpr std::string_view buffer_leaves[] = {
    "masked_bias",         "tril",         "mask",        "position_ids",
    "num_batches_tracked", "running_mean", "running_var", "attn_mask"};

constexpr std::size_t max_layer_norms = 64;  // more are no layer of anything

template <class Words>
bool among(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != std::end(words);
}

template <class Rules>
Part look_up(const Rules& rules, std::string_view module, std::string_view under = {}) {
  for (const Rule& r : rules)
    if (r.module == module && (r.under.empty() || r.under == under)) return r.part;
  return Part::unknown;
}

std::vector<std::string> split(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (c == '.')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

bool is_norm_word(std::string_view word) {
  return word.find("norm") != std::string_view::npos || word.starts_with("ln_") || word == "ln1" ||
         word == "ln2" || word == "ln";
}

bool is_side_word(std::string_view word) {
  for (const std::string_view side : {"vision", "visual", "audio", "image", "multi_modal", "projector"})
    if (word.find(side) != std::string_view::npos) return true;
  return false;
}

bool layer_number(std::string_view word, std::int64_t& number) {
  const auto [stop, bad] = std::from_chars(word.data(), word.data() + word.size(), number);
  return bad == std::errc() && stop == word.data() + word.size() && number >= 0 && number < 100'000;
}

// `words`: the whole name.
bool is_ours(const std::vector<std::string>& words) {
  static constexpr std::string_view roots[] = {"blocks", "embed", "final_norm", "head"};
  return among(roots, words.front());
}

// `path`: the words between the layer's number and the leaf.
Part layer_part(const std::vector<std::string>& path) {
  if (path.empty()) return Part::unknown;
  const auto any = [&](const auto& words) {
    return std::ranges::any_of(path, [&](const auto& w) { return among(words, w); });
  };
  static constexpr std::string_view q_norms[] = {"q_norm", "q_layernorm"},
                                    k_norms[] = {"k_norm", "k_layernorm"},
                                    latent_norms[] = {"q_a_layernorm", "kv_a_layernorm"};
  if (any(q_norms)) return Part::q_norm;
  if (any(k_norms)) return Part::k_norm;
  if (any(latent_norms)) return Part::latent_norm;
  const std::string& last = path.back();
  if (is_norm_word(last)) return Part::norm;
  if (any(attention_words) && !among(attention_words, last)) return look_up(attention_rules, last);
  static constexpr std::string_view ours[] = {"ffn"};  // whose gate is a matrix, not a router
  if (last == "gate" && any(ours)) return Part::gate;
  if (any(ffn_words) || path.size() == 1) return look_up(ffn_rules, last);
  return Part::unknown;
}

Part outer_part(const std::vector<std::string>& path) {
  if (path.empty()) return Part::unknown;
  const std::string& last = path.back();
  const std::string under = path.size() > 1 ? path[path.size() - 2] : std::string();
  if (const Part p = look_up(outer_rules, last, under); p != Part::unknown) return p;
  if (!is_norm_word(last)) return Part::unknown;
  if (under == "embed") return Part::embed_norm;
  return last.find("emb") != std::string::npos ? Part::embed_norm : Part::final_norm;
}

}  // namespace

std::string_view part_name(Part part) {
  switch (part) {
    case Part::q:
      return "q";
    case Part::k:
      return "k";
    case Part::v:
      return "v";
    case Part::qkv:
      return "qkv";
    case Part::latent:
      return "latent";
    case Part::attn_out:
      return "attn_out";
    case Part::gate:
      return "ffn_gate";
    case Part::up:
      return "ffn_up";
    case Part::gate_up:
      return "ffn_gate_up";
    case Part::down:
      return "ffn_down";
    case Part::router:
      return "router";
    case Part::norm:
      return "norm";
    case Part::q_norm:
      return "q_norm";
    case Part::k_norm:
      return "k_norm";
    case Part::latent_norm:
      return "latent_norm";
    case Part::scalar:
      return "scalar";
    case Part::token_embed:
      return "token_embed";
    case Part::pos_embed:
      return "pos_embed";
    case Part::head:
      return "head";
    case Part::project_in:
      return "project_in";
    case Part::project_out:
      return "project_out";
    case Part::embed_norm:
      return "embed_norm";
    case Part::final_norm:
      return "final_norm";
    case Part::rope_frequency:
      return "rope_frequency";
    case Part::buffer:
      return "buffer";
    case Part::optimizer:
      return "optimizer";
    case Part::side:
      return "side";
    default:
      return "unknown";
  }
}

TensorName read_tensor_name(std::string_view name) {
  for (const std::string_view wrapper : {"_orig_mod.", "module."})  // torch.compile, DataParallel
    if (name.starts_with(wrapper)) name.remove_prefix(wrapper.size());
  TensorName n;
  std::vector<std::string> words = split(name);
  if (words.front() == "optim" || words.front() == "state") {
    n.part = words.front() == "optim" ? Part::optimizer : Part::buffer;
    return n;
  }
  std::vector<std::string> path;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (n.layer < 0 && i > 0 && among(layer_words, words[i - 1]) && layer_number(words[i], n.layer)) {
      n.tower = join(path, ".");
      path.clear();
    } else {
      path.push_back(words[i]);
    }
  }
  const std::string leaf = path.empty() ? std::string() : path.back();
  if (!path.empty()) path.pop_back();
  n.bias = leaf == "bias" || leaf == "beta";
  n.expert = std::ranges::any_of(path, [](const std::string& w) { return w.starts_with("expert"); });
  // stablelm has one norm a head: q_layernorm.norms.3
  n.module = path.empty() ? leaf : path.back();
  if (std::ranges::any_of(words, is_side_word)) {
    n.part = Part::side;
  } else if (leaf == "inv_freq" || leaf == "original_inv_freq") {
    n.part = Part::rope_frequency;
  } else if (among(buffer_leaves, leaf) || (n.bias && !path.empty() && among(attention_words, path.back()))) {
    n.part = Part::buffer;  // gpt2's h.0.attn.bias is its causal mask
  } else if (const Part own = look_up(own_rules, leaf, path.empty() ? std::string() : path.back());
             own != Part::unknown && is_ours(words)) {
    n.part = own;
  } else if (leaf != "weight" && leaf != "bias" && leaf != "gamma" && leaf != "beta" && leaf != "w" &&
             leaf != "temperature" && !n.expert) {
    n.part = Part::unknown;
  } else {
    n.part = n.layer >= 0 ? layer_part(path) : outer_part(path);
    if (n.expert && n.part == Part::unknown) {
      for (auto word = path.rbegin(); word != path.rend() && n.part == Part::unknown; ++word)
        n.part = look_up(ffn_rules, *word);
      if (n.part == Part::unknown) n.part = look_up(ffn_rules, leaf);
    }
  }
  return n;
}

const SourceTensor* TensorMap::find(Part part) const {
  for (const NamedTensor& t : tensors)
    if (t.name.part == part && !t.name.bias) return t.tensor;
  return nullptr;
}

bool TensorMap::has_bias(Part part) const {
  return std::ranges::any_of(tensors,
                             [&](const NamedTensor& t) { return t.name.part == part && t.name.bias; });
}

const SourceTensor* TensorMap::find_expert() const {
  for (const NamedTensor& t : tensors)
    if (t.name.expert && t.name.layer >= 0 && t.name.part < Part::norm) return t.tensor;
  return nullptr;
}

bool TensorMap::has_module(std::string_view module) const {
  return std::ranges::any_of(
      tensors, [&](const NamedTensor& t) { return t.name.layer >= 0 && t.name.module == module; });
}

std::vector<std::string> TensorMap::layer_norms() const {
  std::vector<std::string> names;
  std::int64_t layer = -1;
  for (const NamedTensor& t : tensors) {
    if (t.name.part != Part::norm || t.name.bias || (layer >= 0 && t.name.layer != layer)) continue;
    layer = t.name.layer;
    if (std::ranges::find(names, t.name.module) == names.end()) names.push_back(t.name.module);
    if (names.size() == max_layer_norms) break;
  }
  return names;
}

TensorMap map_tensors(const CheckpointSource& source) {
  TensorMap map;
  std::map<std::string, std::set<std::int64_t>> towers;
  for (const SourceTensor& t : source.tensors) {
    map.tensors.push_back({&t, read_tensor_name(t.name)});
    const TensorName& n = map.tensors.back().name;
    if (n.layer >= 0 && n.part != Part::side) towers[n.tower].insert(n.layer);
  }
  std::size_t most = 0;
  for (const auto& [tower, layers] : towers) {
    const std::size_t rank = layers.size() + (tower.find("encoder") == std::string::npos ? 1'000'000 : 0);
    if (rank > most) most = rank, map.tower = tower, map.n_layer = *layers.rbegin() + 1;
  }
  for (NamedTensor& t : map.tensors) {
    if (t.name.layer >= 0 && t.name.part != Part::side && t.name.tower != map.tower) t.name.part = Part::side;
    if (t.name.part == Part::side) ++map.side;
    if (t.name.part == Part::unknown) map.unknown.push_back(t.tensor->name);
  }
  std::ranges::stable_sort(map.tensors, {}, [](const NamedTensor& t) { return t.name.layer; });
  return map;
}

}  // namespace plumb
