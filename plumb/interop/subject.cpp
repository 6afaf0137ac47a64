#include "plumb/interop/subject.h"

#include "plumb/base/error.h"
#include "plumb/spec/from_config.h"

namespace plumb {
namespace {

using Size = std::optional<std::int64_t>;

bool is_matrix(const SourceTensor* t) {
  return t != nullptr && t->shape.size() == 2 && t->size() > 0 && !is_packed(*t);
}

void name_architecture(Subject& s) {
  const std::string type = s.config.model_type();
  if (const auto format = s.source.metadata.find("format");
      format != s.source.metadata.end() && format->second == "plumb-checkpoint/1") {
    const auto spec = s.source.metadata.find("spec");
    if (spec == s.source.metadata.end())
      bad_input("{}: the metadata has no 'spec'; this is not a checkpoint of plumb", s.source.name);
    s.spec = spec_from_json(Json::parse(spec->second, s.source.name, 64, 10'000), s.source.name);
    s.architecture = "plumb";
    s.architecture_because = "the metadata say that plumb wrote it";
  } else if (!type.empty()) {
    s.arch = find_architecture(type);
    s.architecture = s.arch ? std::string(s.arch->model_type) : "unknown";
    s.architecture_because = type == "nanogpt" ? "the checkpoint has nanoGPT's model_args"
                             : s.arch ? fmt::format("{} says model_type = \"{}\"", s.config_said(), type)
                                      : fmt::format("{} says model_type = \"{}\", which plumb does not know",
                                                    s.config_said(), type);
  } else if ((s.arch = architecture_of_names(s.map)) != nullptr) {
    s.architecture = s.arch->model_type;
    s.architecture_because =
        "no model_type is given, but the tensors have the names of this architecture alone";
  } else {
    s.architecture = "unknown";
    s.architecture_because =
        "no model_type is given, and the tensor names are not those of one architecture alone";
  }
}

// Heads that the config gives keys and values: by the architecture's own rule.
Size kv_heads_of_config(const Subject& s) {
  const auto value = [](const auto& n) { return n ? Size(n->value) : std::nullopt; };
  const Size kv = value(s.config.n_kv_head()), heads = value(s.config.n_head());
  switch (s.arch ? s.arch->kv : KvRule::config) {
    case KvRule::config:
      return kv;
    case KvRule::or_queries:
      return kv ? kv : heads;
    case KvRule::queries:
      return heads;
    case KvRule::falcon:
      break;
  }
  // Falcon's keys count only in the new architecture; the first Falcons have one key head, or as many as
  // query heads.
  const Said grouped = s.flag_or("new_decoder_architecture", s.config.model_type() == "RefinedWeb"),
             one = s.flag_or("multi_query", true);
  if (grouped == Said::yes || one == Said::no) return kv ? kv : heads;
  if (grouped == Said::unclear || one == Said::unclear) return {};
  return s.config ? Size(1) : std::nullopt;
}

void read_config_sizes(Subject& s) {
  const auto value = [](const auto& n) { return n ? Size(n->value) : std::nullopt; };
  s.n_layer = value(s.config.n_layer());
  s.d_model = value(s.config.d_model());
  s.n_head = value(s.config.n_head());
  s.n_kv_head = kv_heads_of_config(s);
  s.d_head = value(s.config.d_head());
  s.d_ff = value(s.config.d_ff());
  s.vocab_size = value(s.config.vocab_size());
  if (s.has_latent_attention()) {
    // Queries and keys have a part with positions and one without; the number of key heads says nothing.
    s.n_kv_head.reset();
    s.d_head.reset();
    const auto with = s.config.size("qk_rope_head_dim"), without = s.config.size("qk_nope_head_dim");
    if (with && without) s.d_head = *with + *without;
  }
  s.block_size = value(s.config.block_size());
  if (!s.arch || !s.config) return;
  if (!s.d_head && s.arch->d_head > 0) s.d_head = s.arch->d_head;
  if (!s.d_head && s.d_model && s.n_head && *s.n_head > 0) s.d_head = *s.d_model / *s.n_head;
  if (!s.d_ff && s.d_model && s.arch->d_ff_factor > 0) s.d_ff = s.arch->d_ff_factor * *s.d_model;
}

// The tensors' value takes the place of the config's; a difference is a warning with both.
void settle(Subject& s, Size& known, std::int64_t tensors, const std::string& what,
            const std::string& where) {
  if (known && *known != tensors)
    s.warnings.push_back(fmt::format("{} gives {} {}, but {} has {}; the tensors count.", s.config_said(),
                                     what, *known, where, tensors));
  known = tensors;
}

void read_tensor_sizes(Subject& s) {
  const SourceTensor *q = s.map.find(Part::q), *k = s.map.find(Part::k), *qkv = s.map.find(Part::qkv),
                     *out = s.map.find(Part::attn_out), *embed = s.map.find(Part::token_embed);
  s.transposed = has_conv1d(s.map);

  if (s.map.n_layer > 0 && s.complete) settle(s, s.n_layer, s.map.n_layer, "n_layer", "the checkpoint");
  if (is_matrix(q)) {
    settle(s, s.d_model, s.in_of(*q), "d_model", q->name);
    s.q_width = s.out_of(*q);
    if (is_matrix(k)) s.kv_width = s.out_of(*k);
  } else if (is_matrix(qkv)) {
    settle(s, s.d_model, s.in_of(*qkv), "d_model", qkv->name);
    if (is_matrix(out)) {
      s.q_width = s.in_of(*out);
      if (const std::int64_t rest = s.out_of(*qkv) - *s.q_width; rest > 0 && rest % 2 == 0)
        s.kv_width = rest / 2;
    }
  } else if (is_matrix(embed) && !s.map.has(Part::project_in)) {
    settle(s, s.d_model, embed->shape[1], "d_model", embed->name);
  }
  // Where the code takes d_head from the config, a gain of another size is a fault and no size.
  const bool by_config = s.arch && s.arch->qk == QkRule::layer_if_set && s.d_head;
  if (const SourceTensor* gain = s.map.find(Part::q_norm);
      gain && !by_config && gain->shape.size() == 1 && s.q_width && gain->shape[0] != *s.q_width)
    settle(s, s.d_head, gain->shape[0], "d_head", gain->name);
  // Whoever the author is, the heads share the query channels.
  if (!s.d_head && s.q_width && s.n_head && *s.n_head > 0 && *s.q_width % *s.n_head == 0)
    s.d_head = *s.q_width / *s.n_head;
  if (s.kv_width && s.d_head && *s.d_head > 0 && *s.kv_width % *s.d_head == 0)
    settle(s, s.n_kv_head, *s.kv_width / *s.d_head, "n_kv_head",
           fmt::format("the key projection with {} channels of {} a head", *s.kv_width, *s.d_head));
  if (s.q_width && s.d_head && *s.d_head > 0 && *s.q_width % *s.d_head == 0)
    settle(s, s.n_head, *s.q_width / *s.d_head, "n_head",
           fmt::format("the query projection with {} channels of {} a head", *s.q_width, *s.d_head));
  const bool experts = s.map.has(Part::router) || s.map.find_expert() != nullptr;
  if (const SourceTensor* up = s.map.find(Part::up); is_matrix(up) && !experts)
    settle(s, s.d_ff, s.out_of(*up), "d_ff", up->name);
  if (is_matrix(embed)) settle(s, s.vocab_size, embed->shape[0], "vocab_size", embed->name);
}

}  // namespace

bool is_packed(const SourceTensor& t) { return t.type == StoredType::u8 || t.unread.ends_with("_x2"); }

Subject::Subject(const CheckpointSource& from) : source(from), map(map_tensors(from)), config(from.config) {
  has_tensors = !map.tensors.empty();
  complete = has_tensors && !source.is_shard;
  name_architecture(*this);
  if (spec) {
    n_layer = spec->n_layer, d_model = spec->d_model, n_head = spec->n_head, n_kv_head = spec->kv_heads();
    d_head = spec->d_head, d_ff = spec->d_ff, vocab_size = spec->vocab_size, block_size = spec->block_size;
    return;
  }
  read_config_sizes(*this);
  if (has_tensors) read_tensor_sizes(*this);
}

Said Subject::flag_or(FlagKey key, bool otherwise) const {
  const Said said = config.flag(key);
  return said != Said::nothing ? said : otherwise ? Said::yes : Said::no;
}

bool Subject::has_latent_attention() const {
  if (map.has(Part::latent)) return true;
  return !map.has(Part::k) && !map.has(Part::qkv) && config.size("kv_lora_rank").value_or(0) > 0;
}

std::string Subject::config_said() const {
  if (source.config_name.starts_with("model_args in ")) return "model_args";
  const auto slash = source.config_name.rfind('/');
  return slash == std::string::npos ? source.config_name : source.config_name.substr(slash + 1);
}

}  // namespace plumb
