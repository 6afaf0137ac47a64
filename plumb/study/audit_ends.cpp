// The head, the logits and the loss.
#include <algorithm>
#include <cmath>
#include <optional>

#include "plumb/study/audit.h"

namespace plumb {
namespace {

// Mean cross-entropy of the logits, computed here.
double loss_of(const Patient& p, const Grid<float>& logits) {
  double sum = 0;
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const std::int32_t y = p.y[static_cast<std::size_t>(i)];
    if (y == p.spec.ignore_index) continue;
    const auto row = row_of(logits, i);
    const double most = *std::ranges::max_element(row);
    double all = 0;
    for (const float v : row) all += std::exp(static_cast<double>(v) - most);
    sum += std::log(all) + most - static_cast<double>(row[static_cast<std::size_t>(y)]);
    ++n;
  }
  return n > 0 ? sum / static_cast<double>(n) : 0;
}

// Share of the rows that are probabilities: none negative, a sum of 1.
double probability_rows(const Grid<float>& logits) {
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    double sum = 0;
    float least = 0;
    for (const float v : row_of(logits, i)) sum += static_cast<double>(v), least = std::min(least, v);
    n += least >= 0 && std::abs(sum - 1) < 1e-3;
  }
  return logits.rows > 0 ? static_cast<double>(n) / static_cast<double>(logits.rows) : 0;
}

// Deviation over rows of each column, over the deviation within rows: 0 where every position is told the same.
double variation(const Grid<float>& g) {
  double across = 0, all = 0, mean = 0;
  for (const float v : g.data) mean += static_cast<double>(v) / static_cast<double>(g.data.size());
  for (std::int64_t j = 0; j < g.cols; ++j) {
    double m = 0;
    for (std::int64_t i = 0; i < g.rows; ++i)
      m += static_cast<double>(row_of(g, i)[static_cast<std::size_t>(j)]) / static_cast<double>(g.rows);
    for (std::int64_t i = 0; i < g.rows; ++i) {
      const auto v = static_cast<double>(row_of(g, i)[static_cast<std::size_t>(j)]);
      across += (v - m) * (v - m), all += (v - mean) * (v - mean);
    }
  }
  return all > 0 ? std::sqrt(across / all) : 0;
}

// The factor between the logits and the product of what the head reads with its matrix; empty where something is known to
// stand between them.
std::optional<double> logit_scale(const Patient& p, const Seen& s) {
  const Grid<float>*read = s.find("final_norm"), *logits = s.find("logits");
  if (!read || !logits || p.spec.d_embed > 0 || p.spec.logit_softcap > 0 || p.spec.weight_param != "plain" ||
      p.spec.init.scheme == "mup")
    return {};
  const View<float> w = p.store.param(p.spec.tied_embeddings ? "embed.weight" : "head.weight");
  double along = 0, squares = 0;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(8, read->rows); ++i)
    for (std::int64_t o = 0; o < w.rows; ++o) {
      double z = 0;
      for (std::int64_t c = 0; c < w.cols; ++c)
        z += static_cast<double>(w.row(o)[c]) *
             static_cast<double>(row_of(*read, i)[static_cast<std::size_t>(c)]);
      along += z * static_cast<double>(row_of(*logits, i)[static_cast<std::size_t>(o)]), squares += z * z;
    }
  return squares > 0 ? std::optional(along / squares) : std::nullopt;
}

}  // namespace

void audit_ends(Patient& p, const Seen& base, FactSheet& facts) {
  if (const Grid<float>* logits = base.find("logits")) {
    const double own = loss_of(p, *logits);
    if (own > 0) facts.add("loss_over_mean", base.loss.cross_entropy / own);
    facts.add("probability_rows", probability_rows(*logits));
    facts.add("logit_rms", rms(*logits));
  }
  if (const auto scale = logit_scale(p, base)) facts.add("logit_scale", *scale);
  if (const Grid<float>* read = base.find("final_norm")) facts.add("head_input_rms", rms(*read));
  const Seen once = p.pass(Mode::eval), again = p.pass(Mode::eval, p.x, {}, 7);
  if (const Grid<float>* a = once.find("logits"), *b = again.find("logits"); a && b) {
    facts.add("output_variation", variation(*a));
    facts.add("eval_repeats", a->data == b->data);
    // Of an empty stream the head has nothing to say: what is left was put in behind the blocks.
    const std::string last = block_point(p.spec.n_layer - 1, ".out");
    const Seen silent = p.pass(Mode::eval, [&](std::string_view point, View<float> v, std::int64_t) {
      if (point != last) return;
      for (std::int64_t i = 0; i < v.rows; ++i) std::fill_n(v.row(i), v.cols, 0.0F);
    });
    if (const double left = rms(*silent.find("logits")); rms(*a) > 0 && std::isfinite(left))
      facts.add("head_offset", left / rms(*a));
  }
  const bool own_head = std::ranges::any_of(p.store.layout().params, [](const ParamInfo& i) {
    return i.spec.role == Role::readout && i.spec.shape.dims.size() == 2;
  });
  facts.add("tied", !own_head);
  facts.add("tied_declared", p.config.model.tied_embeddings.value_or(true));
}

}  // namespace plumb
