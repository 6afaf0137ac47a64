#include "plumb/study/check.h"

namespace plumb {

std::span<const CheckGroup> check_groups() {
  static constexpr CheckGroup all[] = {
      {"a", "LayerNorm against its formula in double", check_layer_norm},
      {"b", "RMSNorm against its formula, and what a shift does to both", check_rms_norm},
      {"c", "BatchNorm in training and in evaluation", check_batch_norm},
      {"d", "gradients of the last and the first block of 48, over 20 seeds", check_gradient_by_depth},
      {"e", "the second moment behind a ReLU", check_kaiming},
      {"f", "the variance of a stream of 100 writes", check_residual_growth},
      {"norms", "what shifting and scaling the input does to each norm", check_norm_responses},
      {"group_norm", "GroupNorm of one and of all groups on (B, C)", check_group_norm},
      {"rope", "rotary positions: distances alone, and the permutation between the layouts", check_rope},
      {"causality", "no position sees a later one, for every position code, norm and kind of attention", check_causality},
      {"cache", "one token at a time is all at once", check_caches},
      {"permutation", "without positions and mask, order does not matter", check_permutation},
      {"products", "gradients through chains: g^L, F = -x, and the expansion of a product", check_products},
      {"identity", "rules that start as the identity", check_identity_starts},
  };
  return all;
}

Json checks_json(const std::vector<Check>& all) {
  Json j = Json::object(), list = Json::array();
  bool pass = true;
  for (const Check& c : all) {
    Json one = Json::object();
    one["id"] = c.id, one["name"] = c.name, one["value"] = c.value, one["expected"] = c.expected, one["pass"] = c.pass;
    if (!c.published.empty()) one["published"] = c.published;
    list.push_back(std::move(one));
    pass &= c.pass;
  }
  j["checks"] = std::move(list), j["pass"] = pass;
  return j;
}

}  // namespace plumb
