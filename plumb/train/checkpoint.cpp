#include "plumb/train/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "plumb/base/error.h"
#include "plumb/base/text.h"
#include "plumb/spec/from_config.h"
#include "plumb/tensor/safetensors.h"

namespace plumb {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view format = "plumb-checkpoint/1";

std::vector<std::int64_t> sizes(const Shape& s) {
  std::vector<std::int64_t> v;
  for (const Dim& d : s.dims) v.push_back(d.n);
  return v;
}

/// Calls f(name, sizes, view) for every tensor of a checkpoint, in one order for writing and reading.
template <class F>
void each_tensor(const ParamStore<float>& store, const Optimizer<float>& optim, const F& f) {
  for (const ParamInfo& p : store.layout().params) {
    f(p.spec.name, sizes(p.spec.shape), store.view(p));
    for (const OptimState<float>& s : optim.state(p))
      f(fmt::format("optim.{}.{}", s.kind, p.spec.name), sizes(p.spec.shape), s.view);
  }
  for (const StateInfo& s : store.layout().states)
    if (s.spec.saved) f("state." + s.spec.name, sizes(s.spec.shape), store.view(s));
}

CheckpointInfo info_of(const TensorFile& f) {
  auto get = [&](const std::string& key) -> const std::string& {
    const auto it = f.metadata.find(key);
    if (it == f.metadata.end())
      bad_input("{}: the metadata has no '{}'; this is not a checkpoint of plumb", f.name, key);
    return it->second;
  };
  if (get("format") != format)
    bad_input("{}: the format is '{}', this version reads '{}'", f.name, get("format"), format);
  CheckpointInfo i;
  i.config = config_from_json(Json::parse(get("config"), f.name), f.name);
  i.spec = spec_from_json(Json::parse(get("spec"), f.name), f.name);
  i.tokenizer = Json::parse(get("tokenizer"), f.name);
  i.step = Json::parse(get("step"), f.name).as_int(f.name + ": step");
  i.target = get("target");
  if (f.metadata.contains("corpus_sha256")) i.corpus_sha256 = get("corpus_sha256");
  if (f.metadata.contains("probes")) i.probes = get("probes");
  return i;
}

// The state of an optimiser is worth nothing to another, even where it has the shape.
void refuse_other_optimizer(const TensorFile& f, const CheckpointInfo& i, const ParamStore<float>& store,
                            const Optimizer<float>& optim) {
  std::map<std::string_view, std::set<std::string_view>> found;  // parameter -> kinds
  constexpr std::string_view prefix = "optim.";
  for (const StoredTensor& t : f.tensors) {
    if (!t.name.starts_with(prefix)) continue;
    const std::string_view rest = std::string_view(t.name).substr(prefix.size());
    const std::size_t dot = std::min(rest.find('.'), rest.size() - 1);
    found[rest.substr(dot + 1)].insert(rest.substr(0, dot));
  }
  for (const ParamInfo& p : store.layout().params) {
    if (!f.find(p.spec.name)) continue;  // another model: that is said better elsewhere
    std::set<std::string_view> wanted;
    for (const OptimState<float>& s : optim.state(p)) wanted.insert(s.kind);
    const auto kinds = [](const std::set<std::string_view>& k) {
      return k.empty() ? "nothing" : join(std::vector<std::string>(k.begin(), k.end()));
    };
    if (const auto& has = found[p.spec.name]; has != wanted)
      bad_input(
          "{} holds the state of another optimiser (its config says '{}'): {} for {}, wanted is {}; resume "
          "it with its own config, or start a new run from its weights alone with `plumb train --from`",
          f.name, i.config.train.optimizer, kinds(has), p.spec.name, kinds(wanted));
  }
}

std::string text(const std::vector<std::int64_t>& v) {
  std::vector<std::string> s;
  for (const auto n : v) s.push_back(std::to_string(n));
  return "(" + join(s) + ")";
}

}  // namespace

void save_checkpoint(const fs::path& path, const CheckpointInfo& i, const ParamStore<float>& store,
                     const Optimizer<float>& optim) {
  std::vector<TensorView> tensors;
  each_tensor(store, optim, [&](const std::string& name, std::vector<std::int64_t> shape, View<float> v) {
    tensors.push_back(
        tensor_view<float>(name, std::move(shape), {v.data, static_cast<std::size_t>(v.size())}));
  });
  std::map<std::string, std::string> about{
      {"format", std::string(format)},       {"config", config_to_json(i.config).dump()},
      {"spec", spec_to_json(i.spec).dump()}, {"tokenizer", i.tokenizer.dump()},
      {"step", std::to_string(i.step)},      {"target", i.target},
      {"corpus_sha256", i.corpus_sha256}};
  if (!i.probes.empty()) about["probes"] = i.probes;
  save_tensors(path, tensors, about);
}

CheckpointInfo load_checkpoint(const fs::path& path, ParamStore<float>& store, Optimizer<float>& optim) {
  const TensorFile f = load_tensors(path);
  CheckpointInfo i = info_of(f);
  // Everything is checked before anything is overwritten.
  refuse_other_optimizer(f, i, store, optim);
  std::vector<std::pair<View<float>, std::span<const float>>> copies;
  each_tensor(
      store, optim, [&](const std::string& name, const std::vector<std::int64_t>& shape, View<float> v) {
        const StoredTensor& t = f.at(name);
        if (t.shape != shape)
          bad_input(
              "{}: {} has shape {}, the model wants {}; resume with the config that the run was made with",
              f.name, name, text(t.shape), text(shape));
        copies.emplace_back(v, t.values<float>());
      });
  for (const auto& [to, from] : copies) std::ranges::copy(from, to.data);
  optim.steps(i.step);
  return i;
}

CheckpointInfo read_checkpoint_info(const fs::path& path) { return info_of(load_tensors(path)); }

WeightsReport load_weights(const fs::path& path, ParamStore<float>& store) {
  const TensorFile f = load_tensors(path);
  info_of(f);  // refuses what is no checkpoint of ours
  WeightsReport r;
  std::vector<std::pair<View<float>, std::span<const float>>> copies;
  auto want = [&](const std::string& name, const Shape& shape, View<float> v) {
    const StoredTensor* t = f.find(name);
    if (!t) return false;
    if (t->shape != sizes(shape))
      bad_input("{}: {} has shape {}, the new model's is {}; --from needs equal shapes for equal names",
                f.name, name, text(t->shape), text(sizes(shape)));
    copies.emplace_back(v, t->values<float>());
    return true;
  };
  std::set<std::string, std::less<>> known;
  for (const ParamInfo& p : store.layout().params) {
    known.insert(p.spec.name);
    if (want(p.spec.name, p.spec.shape, store.view(p)))
      ++r.taken;
    else
      r.missing.push_back(p.spec.name);
  }
  for (const StateInfo& s : store.layout().states)
    if (s.spec.saved) want("state." + s.spec.name, s.spec.shape, store.view(s));
  if (r.taken == 0)
    bad_input("{} shares no parameter with the new model; name a run of a similar model after --from",
              f.name);
  for (const StoredTensor& t : f.tensors)
    if (!t.name.starts_with("optim.") && !t.name.starts_with("state.") && !known.contains(t.name))
      r.unused.push_back(t.name);
  for (const auto& [to, from] : copies) std::ranges::copy(from, to.data);
  return r;
}

}  // namespace plumb
