// Generation, one token at a time, with a key-value cache.
#pragma once

#include "plumb/base/rng.h"
#include "plumb/data/tokenizer.h"
#include "plumb/model/components.h"
#include "plumb/plan/plan.h"

namespace plumb {

/// A model that decodes: feed a token, read the logits of the next one.
class CachedDecoder {
 public:
  /// Copies parameters and saved state of `trained`. `context`: positions that attention keeps; past it the
  /// oldest drop out.
  CachedDecoder(const DecoderSpec&, const Components&, const ParamStore<float>& trained,
                std::int64_t context);

  /// Logits (V) after the tokens so far and this one; valid until the next call. bad_input when a learned
  /// position code has no row for it.
  std::span<const float> next(std::int32_t token);
  /// Forgets the tokens fed so far.
  void restart() { position_ = 0; }

 private:
  struct Logits final : Hook<float> {
    std::vector<float> row;
    bool wants(std::string_view point, Dir dir) const override {
      return point == "logits" && dir == Dir::forward;
    }
    void at(std::string_view, Dir, View<float> v, int) override { row.assign(v.row(0), v.row(0) + v.cols); }
  };
  DecoderSpec spec_;
  ThreadPool pool_{1};
  ParamStore<float> store_;
  Logits logits_;
  std::array<Hook<float>*, 1> hooks_{&logits_};
  Plan<float> plan_;
  std::int64_t position_ = 0;
};

/// How many tokens can follow `used` ones: as many as there are positions left, or any number (-1).
std::int64_t room_after(const DecoderSpec&, std::int64_t used);

struct Sampling {
  double temperature = 1.0;  // 0: always the most probable token
  std::int64_t top_k = 0;    // only the k most probable; 0: all
  std::uint64_t seed = 0;
  std::int32_t never =
      CharTokenizer::unknown_id;  // a token that is not drawn: the unknown one of a tokenizer; -1: none
};

/// Draws token number `index` of sample number `sample` from softmax(logits / temperature), over the top k.
/// Depends on (seed, sample, index) and the logits only.
std::int32_t draw(std::span<const float> logits, const Sampling&, std::int64_t sample, std::int64_t index);

}  // namespace plumb
