// Embedding: y[i] = E[token i]; dE[token i] += dy[i], rows in order; an overwriting sink is cleared first.
// Loss: Σ_i logsumexp(z_i) − z_i[target i]; dz = (softmax z − onehot) / tokens; targets < 0 do not count.
// Label smoothing and z-loss are minimised with it: kernel/plain_loss.cpp has their formulas.
#include "plumb/model/ends.h"

#include "plumb/base/error.h"
#include "plumb/kernel/activation.h"

namespace plumb {
namespace {

template <class R>
class EmbedOp final : public Op<R> {
 public:
  OpInfo info() const override { return {.kind = "embed"}; }
  void forward(Run<R>& r) const override {
    for (const std::int32_t t : r.tokens())
      if (t < 0 || t >= r.in(0).rows)
        bad_input(
            "[embed] token {} is outside the vocabulary of {}; was the text encoded with this run's "
            "tokenizer?",
            t, r.in(0).rows);
    embedding_forward(r.tokens(), r.in(0), r.out());
  }
  void backward(Run<R>& r) const override { embedding_backward(r.tokens(), r.dout(), r.din(0)); }
};

// y = c tanh(x / c);  dx = (1 - (y / c)^2) dy
template <class R>
class SoftcapOp final : public Op<R> {
 public:
  explicit SoftcapOp(double cap) : cap_(cap) {}
  OpInfo info() const override { return {.kind = "softcap"}; }
  void forward(Run<R>& r) const override {
    axpby<R>(1 / cap_, r.in(0), 0, {}, r.out());
    activation_forward<R>({.act = Act::tanh, .gain = cap_}, r.out(), r.out());
  }
  void backward(Run<R>& r) const override {
    const Sink<R> dx = r.din(0);
    const R by = static_cast<R>(1 / cap_);
    for (std::int64_t i = 0; dx && i < dx.v.rows; ++i) {
      const R *y = r.out().row(i), *dy = r.dout().row(i);
      R* to = dx.v.row(i);
      for (std::int64_t j = 0; j < dx.v.cols; ++j) {
        const R t = y[j] * by, d = (1 - t * t) * dy[j];
        to[j] = dx.overwrite ? d : to[j] + d;
      }
    }
  }

 private:
  double cap_;
};

template <class R>
class TokenLossOp final : public Op<R> {
 public:
  TokenLossOp(std::int64_t ignore_index, const LossTerms& terms)
      : ignore_index_(ignore_index), terms_(terms) {}
  OpInfo info() const override { return {.kind = "cross_entropy"}; }
  void forward(Run<R>& r) const override {
    for (const std::int32_t t : r.targets())
      if (t != ignore_index_ && (t < 0 || t >= r.in(0).cols))
        bad_input(
            "[loss] target {} is outside the vocabulary of {}; was the text encoded with this run's "
            "tokenizer?",
            t, r.in(0).cols);
    r.add_loss(cross_entropy_forward(r.in(0), r.targets(), ignore_index_, r.kept()));
    if (terms_.any())
      r.add_terms(loss_terms<R>(r.in(0), r.targets(), ignore_index_, View<const R>(r.kept()), terms_));
    if (const View<R> each = r.stat(0))
      for (std::int64_t i = 0; i < each.rows; ++i) {
        const std::int32_t t = r.targets()[static_cast<std::size_t>(i)];
        *each.row(i) = t == ignore_index_ ? R(0) : *r.kept().row(i) - r.in(0).row(i)[t];
      }
  }
  void backward(Run<R>& r) const override {
    cross_entropy_backward(r.in(0), r.targets(), ignore_index_, View<const R>(r.kept()), r.loss_scale(),
                           r.din(0), terms_);
  }

 private:
  std::int64_t ignore_index_;
  LossTerms terms_;
};

}  // namespace

template <class R>
Value embed_tokens(Builder<R>& b, Value table, std::int64_t block) {
  const Dim channels = b.shape(table).dims.back();
  const Value y = b.node1(std::make_unique<EmbedOp<R>>(), {.name = "embed",
                                                           .in = {table},
                                                           .out = {Shape{{'B'}, {'T', block}, channels}},
                                                           .backward_reads_in = false,
                                                           .backward_reads_out = false});
  b.expected_var(y, b.rule(table).variance());
  return y;
}

template <class R>
Value softcapped(Builder<R>& b, Value x, double cap, const std::string& name) {
  return b.node1(std::make_unique<SoftcapOp<R>>(cap),
                 {.name = name, .in = {x}, .out = {b.shape(x)}, .backward_reads_in = false});
}

template <class R>
void token_loss(Builder<R>& b, Value logits, std::int64_t ignore_index, const LossTerms& terms) {
  Shape per_row = b.shape(logits);
  per_row.dims.back() = Dim{};
  b.node(std::make_unique<TokenLossOp<R>>(ignore_index, terms), {.name = "loss",
                                                                 .in = {logits},
                                                                 .kept = {per_row},
                                                                 .stats = {{"loss.token", per_row}},
                                                                 .is_loss = true});
}

#define PLUMB_INSTANTIATE(R)                                                 \
  template Value embed_tokens(Builder<R>&, Value, std::int64_t);             \
  template Value softcapped(Builder<R>&, Value, double, const std::string&); \
  template void token_loss(Builder<R>&, Value, std::int64_t, const LossTerms&);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
