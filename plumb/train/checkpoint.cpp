#include "plumb/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>

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
void each_tensor(const ParamStore<float>& store, const AdamW<float>& optim, const F& f) {
  for (const ParamInfo& p : store.layout().params) {
    f(p.spec.name, sizes(p.spec.shape), store.view(p));
    f("optim.m." + p.spec.name, sizes(p.spec.shape), optim.m(p));
    f("optim.v." + p.spec.name, sizes(p.spec.shape), optim.v(p));
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
  return i;
}

std::string text(const std::vector<std::int64_t>& v) {
  std::vector<std::string> s;
  for (const auto n : v) s.push_back(std::to_string(n));
  return "(" + join(s) + ")";
}

}  // namespace

void save_checkpoint(const fs::path& path, const CheckpointInfo& i, const ParamStore<float>& store,
                     const AdamW<float>& optim) {
  std::vector<TensorView> tensors;
  each_tensor(store, optim, [&](const std::string& name, std::vector<std::int64_t> shape, View<float> v) {
    tensors.push_back(tensor_view<float>(name, std::move(shape), {v.data, static_cast<std::size_t>(v.size())}));
  });
  save_tensors(path, tensors,
               {{"format", std::string(format)},
                {"config", config_to_json(i.config).dump()},
                {"spec", spec_to_json(i.spec).dump()},
                {"tokenizer", i.tokenizer.dump()},
                {"step", std::to_string(i.step)},
                {"target", i.target}});
}

CheckpointInfo load_checkpoint(const fs::path& path, ParamStore<float>& store, AdamW<float>& optim) {
  const TensorFile f = load_tensors(path);
  CheckpointInfo i = info_of(f);
  // Everything is checked before anything is overwritten.
  std::vector<std::pair<View<float>, std::span<const float>>> copies;
  each_tensor(store, optim, [&](const std::string& name, const std::vector<std::int64_t>& shape, View<float> v) {
    const StoredTensor& t = f.at(name);
    if (t.shape != shape)
      bad_input("{}: {} has shape {}, the model wants {}; resume with the config that the run was made with", f.name,
                name, text(t.shape), text(shape));
    copies.emplace_back(v, t.values<float>());
  });
  for (const auto& [to, from] : copies) std::ranges::copy(from, to.data);
  optim.steps(i.step);
  return i;
}

CheckpointInfo read_checkpoint_info(const fs::path& path) { return info_of(load_tensors(path)); }

std::string checkpoint_name(std::int64_t step) { return "checkpoint-" + std::to_string(step) + ".safetensors"; }

void prune_checkpoints(const fs::path& run, std::int64_t keep) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  for (const auto& e : fs::directory_iterator(run)) {
    const std::string name = e.path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with("checkpoint-")) continue;
    const auto [end, error] = std::from_chars(name.data() + 11, name.data() + name.size(), step);
    if (error == std::errc() && std::string_view(end) == ".safetensors") found.emplace_back(step, e.path());
  }
  std::ranges::sort(found);
  for (std::size_t i = 0; i + static_cast<std::size_t>(std::max<std::int64_t>(1, keep)) < found.size(); ++i)
    fs::remove(found[i].second);
}

}  // namespace plumb
