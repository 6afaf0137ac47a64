// Kernels, in double and in float, against the reference vectors.
#include <gtest/gtest.h>

#include <cmath>

#include "plumb/kernel/activation.h"
#include "plumb/kernel/adamw.h"
#include "plumb/kernel/attention.h"
#include "plumb/kernel/rows.h"
#include "tests/optim/reference.h"
#include "tests/optim/rig.h"
#include "tests/support/reference.h"

namespace plumb {
namespace {

using test::Entry;
using test::heads_first;
using test::heads_last;
using test::matches;
using test::Matrix;
using test::reference;
using test::Tensor;
using test::What;

template <class R>
class ReferenceTest : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(ReferenceTest, Reals);

TYPED_TEST(ReferenceTest, LayerNorm) {
  using R = TypeParam;
  const Entry& e = reference("layernorm");
  const double eps = e.param("eps");
  const Matrix<R> x(e.in("x")), gamma(e.in("gamma")), beta(e.in("beta")), dy(e.in("dy"));
  Matrix<R> y(x.rows, x.cols), mean(x.rows, 1), rstd(x.rows, 1);
  layer_norm_forward<R>(x.view(), gamma.view(), beta.view(), eps, y.view(), mean.view(), rstd.view());
  EXPECT_TRUE(matches(y, e, e.out("y"), What::value));

  Matrix<R> dx(x.rows, x.cols), dgamma(1, x.cols), dbeta(1, x.cols);
  layer_norm_backward<R>(dy.view(), x.view(), gamma.view(), std::as_const(mean).view(),
                         std::as_const(rstd).view(), dx.sink(), dgamma.sink(), dbeta.sink());
  EXPECT_TRUE(matches(dx, e, e.grad("x"), What::gradient));
  EXPECT_TRUE(matches(dgamma, e, e.grad("gamma"), What::gradient));
  EXPECT_TRUE(matches(dbeta, e, e.grad("beta"), What::gradient));
}

TYPED_TEST(ReferenceTest, LayerNormWithEachEps) {
  using R = TypeParam;
  for (const char* eps : {"0", "1e-12", "1e-08", "1e-06", "1e-05", "0.001", "0.01", "0.1"}) {
    const Entry& e = reference(std::string("layernorm_eps_") + eps);
    const Matrix<R> x(e.in("x"));
    Matrix<R> y(x.rows, x.cols), mean(x.rows, 1), rstd(x.rows, 1);
    layer_norm_forward<R>(x.view(), {}, {}, e.param("eps"), y.view(), mean.view(), rstd.view());
    EXPECT_TRUE(matches(y, e, e.out("y"), What::value));
  }
}

TYPED_TEST(ReferenceTest, LayerNormOfAConstantRow) {
  using R = TypeParam;
  const Entry& e = reference("layernorm_constant_row");
  const Matrix<R> x(e.in("x")), dy(e.in("dy"));
  Matrix<R> y(x.rows, x.cols), mean(x.rows, 1), rstd(x.rows, 1), dx(x.rows, x.cols);
  layer_norm_forward<R>(x.view(), {}, {}, e.param("eps"), y.view(), mean.view(), rstd.view());
  layer_norm_backward<R>(dy.view(), x.view(), {}, std::as_const(mean).view(), std::as_const(rstd).view(),
                         dx.sink(), {}, {});
  EXPECT_TRUE(matches(y, e, e.out("y"), What::value));
  EXPECT_TRUE(matches(dx, e, e.grad("x"), What::gradient));
}

TYPED_TEST(ReferenceTest, RmsNorm) {
  using R = TypeParam;
  const Entry& e = reference("rmsnorm");
  const Matrix<R> x(e.in("x")), weight(e.in("weight")), dy(e.in("dy"));
  Matrix<R> y(x.rows, x.cols), rstd(x.rows, 1), dx(x.rows, x.cols), dweight(1, x.cols);
  rms_norm_forward<R>(x.view(), weight.view(), e.param("eps"), y.view(), rstd.view());
  rms_norm_backward<R>(dy.view(), x.view(), weight.view(), std::as_const(rstd).view(), dx.sink(),
                       dweight.sink());
  EXPECT_TRUE(matches(y, e, e.out("y"), What::value));
  EXPECT_TRUE(matches(dx, e, e.grad("x"), What::gradient));
  EXPECT_TRUE(matches(dweight, e, e.grad("weight"), What::gradient));
}

TYPED_TEST(ReferenceTest, RmsNormOfTheChaptersExample) {
  using R = TypeParam;
  const Entry& e = reference("rmsnorm_seed_example");
  const Matrix<R> x(e.in("x"));
  Matrix<R> y(x.rows, x.cols), rstd(x.rows, 1);
  rms_norm_forward<R>(x.view(), {}, e.param("eps"), y.view(), rstd.view());
  EXPECT_TRUE(matches(y, e, e.out("y"), What::value));
}

template <class R>
void check_activation(const char* name, const Activation& a) {
  const Entry& e = reference(name);
  const Matrix<R> x(e.in("x")), dy(x.rows, x.cols, R(1));
  Matrix<R> y(x.rows, x.cols), dx(x.rows, x.cols);
  activation_forward<R>(a, x.view(), y.view());
  activation_backward<R>(a, dy.view(), x.view(), dx.sink());
  EXPECT_TRUE(matches(y, e, e.out("y"), What::value)) << name;
  EXPECT_TRUE(matches(dx, e, e.grad("x"), What::gradient)) << name;
}

TYPED_TEST(ReferenceTest, Activations) {
  using R = TypeParam;
  check_activation<R>("gelu_erf", {.act = Act::gelu});
  check_activation<R>("gelu_tanh", {.act = Act::gelu_tanh});
  check_activation<R>("relu", {.act = Act::relu});
  check_activation<R>("silu", {.act = Act::silu});
  check_activation<R>("tanh", {.act = Act::tanh});
}

TYPED_TEST(ReferenceTest, CrossEntropyLeavesIgnoredRowsOut) {
  using R = TypeParam;
  const Entry& e = reference("softmax_cross_entropy");
  const Matrix<R> logits(e.in("logits"));
  const auto target = e.in("target").ids();
  const auto ignore = static_cast<std::int64_t>(e.param("ignore_index"));
  const auto counted = static_cast<double>(target.size()) -
                       static_cast<double>(std::count(target.begin(), target.end(), ignore));
  Matrix<R> lse(logits.rows, 1), dlogits(logits.rows, logits.cols);
  const double loss = cross_entropy_forward<R>(logits.view(), target, ignore, lse.view()) / counted;
  cross_entropy_backward<R>(logits.view(), target, ignore, std::as_const(lse).view(), 1 / counted,
                            dlogits.sink());
  EXPECT_TRUE(matches<R>(loss, e, e.out("loss"), What::value));
  EXPECT_TRUE(matches(lse, e, e.out("logsumexp"), What::value));
  EXPECT_TRUE(matches(dlogits, e, e.grad("logits"), What::gradient));
}

/// The z-loss alone: the gradient with it less the one without.
TYPED_TEST(ReferenceTest, ZLoss) {
  using R = TypeParam;
  const Entry& e = reference("z_loss");
  const Matrix<R> logits(e.in("logits"));
  const std::vector<std::int32_t> target{3, 0, 1, 6};
  const double rows = static_cast<double>(logits.rows);
  const LossTerms terms{.z_loss = e.param("coef")};
  Matrix<R> lse(logits.rows, 1), with(logits.rows, logits.cols), without(logits.rows, logits.cols);
  cross_entropy_forward<R>(logits.view(), target, -1, lse.view());
  const double loss = loss_terms<R>(logits.view(), target, -1, std::as_const(lse).view(), terms) / rows;
  EXPECT_TRUE(matches<R>(loss, e, e.out("loss"), What::value));
  // Times 1e4, so that float's rounding of the cross-entropy does not hide it.
  const LossTerms much{.z_loss = 1e4 * e.param("coef")};
  cross_entropy_backward<R>(logits.view(), target, -1, std::as_const(lse).view(), 1 / rows, with.sink(),
                            much);
  cross_entropy_backward<R>(logits.view(), target, -1, std::as_const(lse).view(), 1 / rows, without.sink());
  for (std::size_t i = 0; i < with.data.size(); ++i) with.data[i] = (with.data[i] - without.data[i]) / R(1e4);
  EXPECT_TRUE(matches(with, e, e.grad("logits"), What::gradient));
}

/// Against PyTorch's cross_entropy with label_smoothing = 0.1 and an ignored row (optim_reference.py).
TYPED_TEST(ReferenceTest, LabelSmoothing) {
  using R = TypeParam;
  Matrix<R> logits(4, 7), lse(4, 1), dlogits(4, 7);
  const auto drawn = test::drawn(28, 3);
  for (std::size_t i = 0; i < drawn.size(); ++i) logits.data[i] = static_cast<R>(4 * drawn[i]);
  const std::vector<std::int32_t> target{3, 0, -100, 6};
  const LossTerms terms{.label_smoothing = 0.1};
  double loss = cross_entropy_forward<R>(logits.view(), target, -100, lse.view());
  loss += loss_terms<R>(std::as_const(logits).view(), target, -100, std::as_const(lse).view(), terms);
  cross_entropy_backward<R>(std::as_const(logits).view(), target, -100, std::as_const(lse).view(), 1.0 / 3,
                            dlogits.sink(), terms);
  const double tolerance = sizeof(R) == 8 ? 1e-14 : 1e-6;
  EXPECT_NEAR(loss / 3, test::smoothed_loss[0], tolerance);
  for (std::size_t i = 0; i < 28; ++i)
    EXPECT_NEAR(static_cast<double>(dlogits.data[i]), test::smoothed_grad[i], tolerance) << i;
}

TYPED_TEST(ReferenceTest, CrossEntropyOfExtremeLogits) {
  using R = TypeParam;
  const Entry& e = reference("softmax_cross_entropy_extreme");
  const Matrix<R> logits(e.in("logits"));
  const auto target = e.in("target").ids();
  Matrix<R> lse(logits.rows, 1), dlogits(logits.rows, logits.cols), loss(logits.rows, 1);
  for (std::int64_t i = 0; i < logits.rows; ++i)  // the entry gives the loss of each row
    loss.view().row(i)[0] = static_cast<R>(cross_entropy_forward<R>(
        logits.view().slice(i, 1), std::span(target).subspan(static_cast<std::size_t>(i), 1), -100,
        lse.view().slice(i, 1)));
  cross_entropy_backward<R>(logits.view(), target, -100, std::as_const(lse).view(), 1, dlogits.sink());
  EXPECT_TRUE(matches(loss, e, e.out("loss"), What::value));
  EXPECT_TRUE(matches(dlogits, e, e.grad("logits"), What::gradient));
}

template <class R>
struct Attended {
  AttentionShape shape;
  Matrix<R> q, k, v, o, lse, entropy, max_logit;
  std::vector<R> scratch;

  explicit Attended(const Entry& e, double softcap = 0)
      : q(heads_last<R>(e.in("q"))), k(heads_last<R>(e.in("k"))), v(heads_last<R>(e.in("v"))) {
    const Tensor& t = e.in("q");
    shape = {.n_seq = t.dim(0),
             .block = t.dim(2),
             .n_head = t.dim(1),
             .n_kv_head = e.in("k").dim(1),
             .d_head = t.dim(3),
             .scale = 1 / std::sqrt(static_cast<double>(t.dim(3))),
             .softcap = softcap};
    o = q;
    lse = entropy = max_logit = Matrix<R>(q.rows, shape.n_head);
    scratch.resize(attention_scratch<R>(shape));
    attention_forward<R>(shape, view(q), view(k), view(v), nullptr, {}, o.view(), lse.view(), entropy.view(),
                         max_logit.view(), scratch.data());
  }
  static View<const R> view(const Matrix<R>& m) { return m.view(); }
};

TYPED_TEST(ReferenceTest, CausalAttentionWithAnyNumberOfKeyHeads) {
  using R = TypeParam;
  for (const char* name :
       {"attention_causal_mha", "attention_causal_gqa", "attention_causal_mqa", "attention_softcap"}) {
    const Entry& e = reference(name);
    Attended<R> a(e, name == std::string("attention_softcap") ? e.param("cap") : 0);
    EXPECT_TRUE(matches(heads_first(a.o, e.out("o")), e, e.out("o"), What::value));

    const Matrix<R> dy = heads_last<R>(e.in("dy"));
    Matrix<R> dq(a.q.rows, a.q.cols), dk(a.k.rows, a.k.cols), dv(a.v.rows, a.v.cols);
    attention_backward<R>(a.shape, a.view(a.q), a.view(a.k), a.view(a.v), nullptr, {}, a.view(a.o),
                          a.view(a.lse), dy.view(), dq.sink(), dk.sink(), dv.sink(), {}, a.scratch.data());
    EXPECT_TRUE(matches(heads_first(dq, e.grad("q")), e, e.grad("q"), What::gradient));
    EXPECT_TRUE(matches(heads_first(dk, e.grad("k")), e, e.grad("k"), What::gradient));
    EXPECT_TRUE(matches(heads_first(dv, e.grad("v")), e, e.grad("v"), What::gradient));
  }
}

/// The entry holds the entropies of the rows of attention_causal_mha's p, (B, H, T).
TYPED_TEST(ReferenceTest, AttentionEntropyOfTheKernel) {
  using R = TypeParam;
  const Entry& e = reference("attention_entropy");
  Attended<R> a(reference("attention_causal_mha"));
  const Tensor& want = e.out("entropy");
  Tensor with_columns = want;
  with_columns.shape.push_back(1);
  EXPECT_TRUE(matches(heads_first(a.entropy, with_columns), e, want, What::value));
}

/// Three clipped steps; weight decay on the matrix, none on the vector.
TYPED_TEST(ReferenceTest, AdamWWithClipping) {
  using R = TypeParam;
  const Entry& e = reference("adamw_clip");
  const double beta1 = 0.9, beta2 = 0.95;  // the entry's betas
  const std::string groups[] = {"decay", "nodecay"};
  Matrix<R> p[2], m[2], v[2];
  for (std::size_t g = 0; g < 2; ++g) {
    p[g] = Matrix<R>(e.in("p_" + groups[g]));
    m[g] = v[g] = Matrix<R>(p[g].rows, p[g].cols);
  }
  for (int t = 0; t < 3; ++t) {
    const std::string n = std::to_string(t);
    Matrix<R> grad[2];
    double squares = 0;
    for (std::size_t g = 0; g < 2; ++g) {
      grad[g] = Matrix<R>(e.in("g_" + groups[g] + n));
      squares += sum_squares<R>(std::as_const(grad[g]).view());
    }
    const double norm = std::sqrt(squares);
    EXPECT_TRUE(matches<R>(norm, e, e.out("total_norm" + n), What::value));
    for (std::size_t g = 0; g < 2; ++g) {
      const AdamWStep step{.lr = e.param("lr"),
                           .beta1 = beta1,
                           .beta2 = beta2,
                           .eps = e.param("eps"),
                           .shrink = g == 0 ? e.param("lr") * e.param("weight_decay") : 0,
                           .grad_scale = std::min(1.0, e.param("max_norm") / (norm + 1e-6)),
                           .bias1 = 1 - std::pow(beta1, t + 1),
                           .bias2 = 1 - std::pow(beta2, t + 1)};
      adamw<R>(static_cast<std::int64_t>(p[g].data.size()), step, grad[g].data.data(), p[g].data.data(),
               m[g].data.data(), v[g].data.data());
      EXPECT_TRUE(matches(p[g], e, e.out("p_" + groups[g] + "_after" + n), What::value));
    }
  }
}

}  // namespace
}  // namespace plumb
