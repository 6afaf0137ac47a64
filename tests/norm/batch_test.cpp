// BatchNorm's kernel against the reference vectors, and what its op does with state.
#include "plumb/kernel/batch_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plumb/model/decoder.h"
#include "tests/support/error_text.h"
#include "tests/support/reference.h"

namespace plumb {
namespace {

using test::Entry;
using test::matches;
using test::Matrix;
using test::reference;
using test::row_tensor;
using test::rows_of;
using test::What;

template <class R>
class BatchNormTest : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(BatchNormTest, Reals);

template <class R>
struct Net {
  explicit Net(const Entry& entry)
      : e(entry),
        gamma(e.in("gamma")),
        beta(e.in("beta")),
        mean(1, 3),
        rstd(1, 3),
        unbiased(1, 3),
        running_mean(1, 3),
        running_var(1, 3, R(1)),
        count(1, 1) {}

  Matrix<R> train(const Matrix<R>& x) {
    Matrix<R> y(x.rows, x.cols);
    batch_norm_statistics<R>(x.view(), e.param("eps"), mean.view(), rstd.view(), unbiased.view());
    batch_norm_forward<R>(x.view(), std::as_const(mean).view(), std::as_const(rstd).view(), gamma.view(),
                          beta.view(), y.view());
    const double momentum = e.params.contains("momentum") ? e.param("momentum") : 0;
    batch_norm_merge<R>(momentum, std::as_const(mean).view(), std::as_const(unbiased).view(),
                        running_mean.view(), running_var.view(), count.view());
    return y;
  }

  void expect_gradients(const Matrix<R>& dy, const Matrix<R>& x, bool of_batch, const std::string& which,
                        const std::string& kind) {
    Matrix<R> dx(x.rows, x.cols), dgamma(1, 3), dbeta(1, 3);
    batch_norm_backward<R>(dy.view(), x.view(), std::as_const(mean).view(), std::as_const(rstd).view(),
                           gamma.view(), of_batch, dx.sink(), dgamma.sink(), dbeta.sink());
    EXPECT_TRUE(matches(dx, e, row_tensor(e.grad(which)), What::gradient));
    EXPECT_TRUE(matches(dgamma, e, e.grad(kind + "_gamma"), What::gradient));
    EXPECT_TRUE(matches(dbeta, e, e.grad(kind + "_beta"), What::gradient));
    // A sink that adds, adds.
    Matrix<R> twice(1, 3);
    for (bool overwrite : {true, false})
      batch_norm_backward<R>(dy.view(), x.view(), std::as_const(mean).view(), std::as_const(rstd).view(),
                             gamma.view(), of_batch, {}, {}, twice.sink(overwrite));
    for (std::size_t j = 0; j < 3; ++j)
      EXPECT_FLOAT_EQ(static_cast<float>(twice.data[j]), static_cast<float>(2 * dbeta.data[j]));
  }

  const Entry& e;
  const Matrix<R> gamma, beta;
  Matrix<R> mean, rstd, unbiased, running_mean, running_var, count;
};

TYPED_TEST(BatchNormTest, ThreeUpdatesThenEvaluation) {
  using R = TypeParam;
  for (const char* name : {"batchnorm1d_momentum_0.1", "batchnorm1d_momentum_None",
                           "batchnorm2d_momentum_0.1", "batchnorm2d_momentum_None"}) {
    SCOPED_TRACE(name);
    Net<R> net(reference(name));
    const Entry& e = net.e;
    for (const char* k : {"0", "1", "2"}) {
      const Matrix<R> x = rows_of<R>(e.in(std::string("x") + k));
      EXPECT_TRUE(matches(net.train(x), e, row_tensor(e.out(std::string("y") + k)), What::value));
      EXPECT_TRUE(matches(net.running_mean, e, e.out(std::string("running_mean_after") + k), What::value));
      EXPECT_TRUE(matches(net.running_var, e, e.out(std::string("running_var_after") + k), What::value));
    }
    net.expect_gradients(rows_of<R>(e.in("dy2")), rows_of<R>(e.in("x2")), true, "train_x2", "train");

    const Matrix<R> x = rows_of<R>(e.in("x_eval"));
    Matrix<R> y(x.rows, x.cols);
    net.mean = net.running_mean;
    for (std::size_t j = 0; j < 3; ++j)
      net.rstd.data[j] =
          static_cast<R>(1 / std::sqrt(static_cast<double>(net.running_var.data[j]) + e.param("eps")));
    batch_norm_forward<R>(x.view(), std::as_const(net.mean).view(), std::as_const(net.rstd).view(),
                          net.gamma.view(), net.beta.view(), y.view());
    EXPECT_TRUE(matches(y, e, row_tensor(e.out("y_eval")), What::value));
    net.expect_gradients(rows_of<R>(e.in("dy_eval")), x, false, "eval_x", "eval");
  }
}

// The rows of two ranks are one batch here: the statistics are those that synchronised batch norm agrees on.
TYPED_TEST(BatchNormTest, UnevenRanksAreOneBatch) {
  using R = TypeParam;
  const Entry& e = reference("syncbatchnorm_stats");
  Matrix<R> all(8, 2), mean(1, 2), rstd(1, 2), unbiased(1, 2), biased(1, 2);
  const Matrix<R> first(e.in("x_rank0")), second(e.in("x_rank1"));
  std::ranges::copy(second.data, std::ranges::copy(first.data, all.data.begin()).out);
  batch_norm_statistics<R>(all.view(), 0, mean.view(), rstd.view(), unbiased.view());
  for (std::size_t j = 0; j < 2; ++j) biased.data[j] = 1 / (rstd.data[j] * rstd.data[j]);
  EXPECT_TRUE(matches(mean, e, e.out("mean"), What::value));
  EXPECT_TRUE(matches(biased, e, e.out("var_biased"), What::value));
  EXPECT_TRUE(matches(unbiased, e, e.out("var_unbiased"), What::value));
}

// Rows that do not count change neither the statistics nor the others' results: as if they were not there.
TYPED_TEST(BatchNormTest, PaddedRowsAreLeftOut) {
  using R = TypeParam;
  Matrix<R> x(5, 2), short_x(3, 2), dy(5, 2), short_dy(3, 2);
  x.data = {1, 2, 100, -7, 4, 4, 9, 9, 3, 8};
  short_x.data = {1, 2, 4, 4, 3, 8};
  dy.data = {1, 0, 0, 0, -2, 1, 0, 0, 3, 1};
  short_dy.data = {1, 0, -2, 1, 3, 1};
  const std::vector<std::int32_t> targets{5, -100, 0, -100, 2};
  const CountedRows counted(targets, -100);
  EXPECT_EQ(counted.count(5), 3);
  struct Result {
    Matrix<R> mean{1, 2}, rstd{1, 2}, unbiased{1, 2}, dx, dgamma{1, 2}, dbeta{1, 2};
  };
  const auto run = [](const Matrix<R>& of, const Matrix<R>& grad, const CountedRows& rows) {
    Result r;
    r.dx = Matrix<R>(of.rows, 2);
    batch_norm_statistics<R>(of.view(), 1e-5, r.mean.view(), r.rstd.view(), r.unbiased.view(), rows);
    batch_norm_backward<R>(grad.view(), of.view(), std::as_const(r.mean).view(), std::as_const(r.rstd).view(),
                           {}, true, r.dx.sink(), r.dgamma.sink(), r.dbeta.sink(), rows);
    return r;
  };
  const Result all = run(x, dy, counted), those = run(short_x, short_dy, {});
  EXPECT_EQ(all.mean.data, those.mean.data);
  EXPECT_EQ(all.rstd.data, those.rstd.data);
  EXPECT_EQ(all.unbiased.data, those.unbiased.data);
  EXPECT_EQ(all.dgamma.data, those.dgamma.data);
  const std::size_t kept[] = {0, 2, 4};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 2; ++j) EXPECT_EQ(all.dx.data[2 * kept[i] + j], those.dx.data[2 * i + j]);
  const std::vector<std::int32_t> lone{3, -100};
  EXPECT_EQ(CountedRows(lone, -100).count(2), 2) << "one row has no variance: all count";
}

TYPED_TEST(BatchNormTest, NanReachesItsWholeChannelAndNoOther) {
  using R = TypeParam;
  Matrix<R> x(4, 2, R(1)), y(4, 2), mean(1, 2), rstd(1, 2);
  x.data = {1, 2, 3, 4, 5, 6, 7, 9};
  x.data[2] = static_cast<R>(NAN);
  batch_norm_statistics<R>(std::as_const(x).view(), 1e-5, mean.view(), rstd.view(), {});
  batch_norm_forward<R>(std::as_const(x).view(), std::as_const(mean).view(), std::as_const(rstd).view(), {},
                        {}, y.view());
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(std::isnan(y.view().row(i)[0]));
    EXPECT_TRUE(std::isfinite(y.view().row(i)[1]));
  }
}

// -- in a model

DecoderSpec small_model() {
  DecoderSpec s;
  s.n_layer = 1, s.d_model = 6, s.n_head = 2, s.n_kv_head = 2, s.d_head = 3, s.d_ff = 8, s.block_size = 4;
  s.vocab_size = 7;
  s.norm = "batch";
  return s;
}
const std::vector<std::int32_t> x{0, 1, 2, 3, 4, 5, 6, 0}, y{1, 2, 3, 4, 5, 6, 0, 1};

std::vector<double> state(const ParamStore<double>& store, const std::string& name) {
  for (const StateInfo& s : store.layout().states)
    if (s.spec.name == name) {
      const auto v = store.view(s);
      return {v.data, v.data + v.size()};
    }
  ADD_FAILURE() << "no state is called " << name;
  return {};
}

TEST(BatchNormInAModel, OnlyCommitChangesSavedState) {
  const DecoderSpec s = small_model();
  const Components c;
  ParamStore<double> store(decoder_layout<double>(s, c), 1);
  ThreadPool pool(1);
  auto train = make_plan<double>(s, c, store, {.batch = 2, .block = 4}, pool);
  auto eval = make_plan<double>(s, c, store, {.mode = Mode::eval, .batch = 2, .block = 4}, pool);
  const std::string before = store.hash();
  train.loss_and_grad(x, y);
  train.first_non_finite(x, y);
  const double start = eval.loss(x, y).loss;
  EXPECT_EQ(store.hash(), before);
  EXPECT_EQ(state(store, "final_norm.count"), std::vector<double>{0});

  train.loss_and_grad(x, y);
  train.commit();
  EXPECT_NE(store.hash(), before);
  EXPECT_EQ(state(store, "final_norm.count"), std::vector<double>{1});
  const auto running = state(store, "final_norm.running_var"),
             pending = state(store, "final_norm.pending_var");
  for (std::size_t i = 0; i < running.size(); ++i) EXPECT_DOUBLE_EQ(running[i], 0.9 + 0.1 * pending[i]);
  EXPECT_NE(eval.loss(x, y).loss, start) << "evaluation uses the running statistics";
}

TEST(BatchNormInAModel, TheBatchIsOneShardAndTheFutureIsSeen) {
  const DecoderSpec s = small_model();
  const Components c;
  ParamStore<double> store(decoder_layout<double>(s, c), 1);
  ThreadPool pool(1);
  const auto plan = make_plan<double>(s, c, store, {.batch = 2, .block = 4, .shard_tokens = 4}, pool);
  EXPECT_EQ(plan.schedule().n_shard, 1);
  EXPECT_TRUE(plan.graph().sees_future());
}

TEST(BatchNormInAModel, OneValueAChannelIsRefusedInTraining) {
  const DecoderSpec s = small_model();
  const Components c;
  ParamStore<double> store(decoder_layout<double>(s, c), 1);
  ThreadPool pool(1);
  const std::string text =
      test::error_text([&] { make_plan<double>(s, c, store, {.batch = 1, .block = 1}, pool); });
  EXPECT_NE(text.find("[batch_norm] one value a channel"), std::string::npos) << text;
  make_plan<double>(s, c, store, {.mode = Mode::eval, .batch = 1, .block = 1},
                    pool);  // evaluation needs no variance
}

}  // namespace
}  // namespace plumb
