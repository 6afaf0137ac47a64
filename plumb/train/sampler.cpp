#include "plumb/train/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plumb/base/error.h"
#include "plumb/model/decoder.h"

namespace plumb {
namespace {

// Parameters lie at the same offsets in both layouts; saved states are found by name among those that only
// decoding has.
void copy_model(const ParamStore<float>& from, ParamStore<float>& to) {
  std::ranges::copy(from.values(), to.values().begin());
  for (const StateInfo& s : from.layout().states)
    for (const StateInfo& t : to.layout().states)
      if (s.spec.saved && t.spec.name == s.spec.name) {
        const View<float> v = from.view(s);
        std::copy_n(v.data, v.size(), to.view(t).data);
      }
}

}  // namespace

CachedDecoder::CachedDecoder(const DecoderSpec& spec, const Components& components,
                             const ParamStore<float>& trained, std::int64_t context)
    : spec_(spec),
      store_(decoder_layout<float>(spec, components, context), 0),
      plan_(make_plan<float>(spec, components, store_,
                             {.mode = Mode::eval, .batch = 1, .block = 1, .context = context}, pool_,
                             hooks_)) {
  if (trained.values().size() != store_.values().size())
    fail("[sampler] the parameters belong to another model");
  copy_model(trained, store_);
}

std::span<const float> CachedDecoder::next(std::int32_t token) {
  const auto ignored = static_cast<std::int32_t>(spec_.ignore_index);
  plan_.loss({&token, 1}, {&ignored, 1}, {.position = position_});
  ++position_;
  return logits_.row;
}

std::int64_t room_after(const DecoderSpec& s, std::int64_t used) {
  if (s.position != "learned" || s.position_overflow != "error") return -1;
  return std::max<std::int64_t>(0, s.block_size - used);
}

std::int32_t draw(std::span<const float> logits, const Sampling& s, std::int64_t sample, std::int64_t index) {
  if (!std::ranges::all_of(logits, [](float l) { return std::isfinite(l); }))
    throw Error("the model's logits are not finite; take an earlier checkpoint", 4);
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::erase(ids, s.never);
  if (ids.empty()) bad_input("the model has no token that may be drawn");
  // Equal logits by id, so that the result does not depend on the sort.
  std::ranges::sort(ids, [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  if (s.top_k > 0) ids.resize(std::min(ids.size(), static_cast<std::size_t>(s.top_k)));
  const auto top = static_cast<double>(logits[static_cast<std::size_t>(ids.front())]);
  if (s.temperature == 0) return ids.front();
  std::vector<double> p;
  double total = 0;
  for (const std::int32_t id : ids) {
    p.push_back(std::exp((static_cast<double>(logits[static_cast<std::size_t>(id)]) - top) / s.temperature));
    total += p.back();
  }
  const double u = stream(s.seed, "sample")
                       .uniform(static_cast<std::uint64_t>(sample), 0, static_cast<std::uint64_t>(index));
  double seen = 0;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if ((seen += p[i]) > u * total) return ids[i];
  return ids.back();
}

}  // namespace plumb
