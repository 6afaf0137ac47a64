// Attention of the first block: what it may see, how scores come from queries and keys, which heads meet.
#include <algorithm>
#include <cmath>
#include <limits>

#include "plumb/base/error.h"
#include "plumb/study/audit.h"

namespace plumb {
namespace {

const std::string attn = "blocks.0.attn";

// Weights (B, H, T, T): how much lies on later keys, and how far ahead the farthest is.
void audit_mask(const Seen& s, FactSheet& facts) {
  const Grid<float>*weights = s.find(attn + ".weights"), *scores = s.find(attn + ".scores");
  if (!weights || !scores) return;
  const std::int64_t t = weights->cols;
  double ahead = 0, least = HUGE_VAL, most = -HUGE_VAL;
  std::int64_t reach = 0;
  for (std::int64_t r = 0; r < weights->rows; ++r) {
    const std::int64_t i = r % t;
    const auto w = row_of(*weights, r), score = row_of(*scores, r);
    for (std::int64_t j = i + 1; j < t; ++j) {
      const auto k = static_cast<std::size_t>(j);
      ahead += static_cast<double>(w[k]) / static_cast<double>(weights->rows);
      if (w[k] > 0) reach = std::max(reach, j - i);
      least = std::min(least, static_cast<double>(score[k]));
      most = std::max(most, static_cast<double>(score[k]));
    }
  }
  facts.add("future_weight", ahead);
  facts.add("future_reach", reach);
  // One number wherever a key lies ahead: -inf, or what a mask lowers scores to.
  if (t > 2 && least == most) facts.add("mask_value", least);
}

// More than rounding: products of other shapes (experts with other tokens) have other last bits.
bool differ(std::span<const float> a, std::span<const float> b, double size) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) <= 1e-5 * size)) return true;
  return false;
}

// Another last token: do the logits before it change?
bool sees_ahead(Patient& p, const Seen& base) {
  std::vector<std::int32_t> other = p.x;
  for (std::int64_t b = 0; b < p.sequences(); ++b) {
    auto& last = other[static_cast<std::size_t>((b + 1) * p.block() - 1)];
    last = static_cast<std::int32_t>((last + 1) % p.spec.vocab_size);
  }
  const Seen changed = p.pass(Mode::train, other);
  const Grid<float>*a = base.find("logits"), *b = changed.find("logits");
  for (std::int64_t i = 0; a && b && i < a->rows; ++i)
    if ((i + 1) % p.block() != 0 && differ(row_of(*a, i), row_of(*b, i), rms(*a))) return true;
  return false;
}

// Another first sequence: do the logits of the others change?
bool depends_on_others(Patient& p, Mode mode) {
  std::vector<std::int32_t> other = p.x;
  for (std::int64_t i = 0; i < p.block(); ++i)
    other[static_cast<std::size_t>(i)] =
        static_cast<std::int32_t>((other[static_cast<std::size_t>(i)] + 1 + i) % p.spec.vocab_size);
  const Seen one = p.pass(mode), two = p.pass(mode, other);
  const Grid<float>*a = one.find("logits"), *b = two.find("logits");
  for (std::int64_t i = p.block(); a && b && i < a->rows; ++i)
    if (differ(row_of(*a, i), row_of(*b, i), rms(*a))) return true;
  return false;
}

// score = c q.k where a query meets the key of its own position: no rotation and no mask changes that one. What is added
// to scores is taken away: it is what is left with queries of 0.
void audit_scores(Patient& p, const Seen& s, FactSheet& facts) {
  const Grid<float>*q = s.find(attn + ".q"), *k = s.find(attn + ".k"), *scores = s.find(attn + ".scores");
  const Grid<float>* in = s.find(attn + ".norm");
  if (!q || !k || !scores || p.spec.attention.qk_norm != "none") return;
  const Seen zero = p.pass(Mode::train, [&](std::string_view at, View<float> v, std::int64_t) {
    if (at == attn + ".q")
      for (std::int64_t i = 0; i < v.rows; ++i) std::fill_n(v.row(i), v.cols, 0.0F);
  });
  const Grid<float>* left = zero.find(attn + ".scores");
  if (!left) return;
  const std::int64_t t = p.block(), heads = p.spec.n_head, d = p.spec.d_head,
                     group = heads / p.spec.kv_heads();
  double along = 0, squares = 0;
  for (std::int64_t r = 0; r < q->rows; ++r)
    for (std::int64_t h = 0; h < heads; ++h) {
      double dot = 0;
      for (std::int64_t c = 0; c < d; ++c)
        dot += static_cast<double>(row_of(*q, r)[static_cast<std::size_t>(h * d + c)]) *
               static_cast<double>(row_of(*k, r)[static_cast<std::size_t>(h / group * d + c)]);
      const std::int64_t row = (r / t * heads + h) * t + r % t;
      const auto at = static_cast<std::size_t>(r % t);
      const double score =
          static_cast<double>(row_of(*scores, row)[at]) - static_cast<double>(row_of(*left, row)[at]);
      along += dot * score, squares += dot * dot;
    }
  if (!(squares > 0)) return;
  double scale = along / squares;
  // The queries, against those that their matrix makes of what attention reads.
  const bool reads_norm = in && p.spec.placement != "post" && p.spec.placement != "post_branch";
  const Grid<float>* x = reads_norm ? in : s.find("blocks.0.in");
  if (x && p.spec.weight_param == "plain" && p.spec.attention.qk_projection) {
    const View<float> w = p.store.param(attn + ".q.weight");
    double with = 0, own = 0;
    for (std::int64_t r = 0; r < std::min<std::int64_t>(16, x->rows); ++r)
      for (std::int64_t o = 0; o < w.rows; ++o) {
        double made = 0;
        for (std::int64_t c = 0; c < w.cols; ++c)
          made += static_cast<double>(w.row(o)[c]) *
                  static_cast<double>(row_of(*x, r)[static_cast<std::size_t>(c)]);
        with += made * static_cast<double>(row_of(*q, r)[static_cast<std::size_t>(o)]), own += made * made;
      }
    // The queries may have been put elsewhere (their order is another fact); their size says what they are multiplied by.
    double of_q = 0;
    for (std::int64_t r = 0; r < std::min<std::int64_t>(16, x->rows); ++r)
      for (const float v : row_of(*q, r)) of_q += static_cast<double>(v) * static_cast<double>(v);
    if (own > 0) scale *= std::sqrt(of_q / own);
  }
  facts.add("score_scale", scale);
}

// Values of one head of keys are doubled: which heads of queries read them?
void audit_heads(Patient& p, const Seen& s, FactSheet& facts) {
  const std::int64_t kv = p.spec.kv_heads(), d = p.spec.d_head, group = p.spec.n_head / kv;
  const Grid<float>* ctx = s.find(attn + ".ctx");
  if (!ctx || kv == 1 || rms(*ctx) == 0) return;
  bool right = true;
  for (std::int64_t h = 0; h < std::min<std::int64_t>(kv, 4); ++h) {
    const Seen other = p.pass(Mode::train, [&](std::string_view at, View<float> v, std::int64_t) {
      if (at != attn + ".v") return;
      for (std::int64_t i = 0; i < v.rows; ++i)
        for (std::int64_t c = h * d; c < (h + 1) * d; ++c) v.row(i)[c] *= 2;
    });
    const Grid<float>* now = other.find(attn + ".ctx");
    if (!now) return;
    for (std::int64_t of = 0; of < p.spec.n_head; ++of) {
      const auto cut = [&](const Grid<float>& g) {
        return row_of(g, 0).subspan(static_cast<std::size_t>(of * d), static_cast<std::size_t>(d));
      };
      const bool follows = !std::ranges::equal(cut(*ctx), cut(*now));
      right = right && follows == (of / group == h);
    }
  }
  facts.add("kv_heads_in_groups", right);
}

}  // namespace

void audit_attention(Patient& p, FactSheet& facts) {
  const Seen s = p.pass(Mode::train);
  audit_mask(s, facts);
  facts.add("causal", !sees_ahead(p, s));
  facts.add("train_depends_on_batch", depends_on_others(p, Mode::train));
  facts.add("eval_depends_on_batch", depends_on_others(p, Mode::eval));
  audit_scores(p, s, facts);
  audit_heads(p, s, facts);
  const Grid<float>*ctx = s.find(attn + ".ctx"), *out = s.find(attn + ".out");
  if (ctx && out && rms(*ctx) > 0) facts.add("output_projection", ctx->data != out->data);
}

}  // namespace plumb
