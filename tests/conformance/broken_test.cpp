// The suite can fail: for each check a component that is broken on purpose, appended to a copy of the tables,
// as a program outside the tree would append its own.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "plumb/base/error.h"
#include "tests/conformance/harness.h"

namespace plumb::conformance {
namespace {

// What is wrong with the norm below.
enum class Fault : std::uint8_t {
  none,
  gradient,         // one factor of the gradient is 2 % off
  small_gradient,   // a term of 1e-3 of the gradient is missing
  parameter_added,  // the parameter's gradient is added where it must overwrite
  float_only,       // float rounds to 10 bits
  call_order,       // depends on how many calls came before
  watched,          // another result when somebody looks
  hides_nan,        // a NaN becomes 0
  one_position,     // cannot do blocks of one
  evaluation,       // another result in evaluation
  decoding,         // another result past the first position of a sequence that comes one at a time
  future,           // reads the next position, and does not say so
  silent            // always 0
};

// y = tanh(a x), a a gain.
template <class R>
class TanhOp final : public Op<R> {
 public:
  explicit TanhOp(Fault f) : f_(f) {}
  OpInfo info() const override { return {.kind = "broken"}; }

  void forward(Run<R>& r) const override {
    const auto x = r.in(0);
    const R a = *r.in(1).data;
    if (f_ == Fault::one_position && x.rows == r.sequences()) bad_input("[broken] a block of one position");
    R factor = 1;
    if (f_ == Fault::call_order) factor += R(1e-3) * static_cast<R>(++calls % 1000);
    if (f_ == Fault::watched && r.stat(0)) factor = R(1.0001);
    if (f_ == Fault::evaluation && r.mode() == Mode::eval) factor = R(1.0001);
    if (f_ == Fault::decoding && r.position() > 0) factor = R(1.0001);
    if (f_ == Fault::silent) factor = 0;
    for (std::int64_t i = 0; i < x.rows; ++i)
      for (std::int64_t j = 0; j < x.cols; ++j) {
        R y = factor * std::tanh(a * x.row(i)[j]);
        if (f_ == Fault::future && i + 1 < x.rows) y += R(1e-3) * x.row(i + 1)[j];
        if (f_ == Fault::hides_nan && !(std::abs(y) <= R(1))) y = 0;
        if (f_ == Fault::float_only && sizeof(R) == sizeof(float)) y = std::round(y * R(1024)) / R(1024);
        r.out().row(i)[j] = y;
      }
  }

  void backward(Run<R>& r) const override {
    const auto x = r.in(0), dy = r.dout();
    const auto dx = r.din(0), da = r.din(1);
    const R a = *r.in(1).data;
    R sum = 0;
    const R wrong = f_ == Fault::gradient ? R(1.02) : f_ == Fault::small_gradient ? R(0.999) : R(1);
    for (std::int64_t i = 0; i < x.rows; ++i)
      for (std::int64_t j = 0; j < x.cols; ++j) {
        const R y = std::tanh(a * x.row(i)[j]);
        const R g = f_ == Fault::silent ? R(0) : dy.row(i)[j] * (1 - y * y);
        sum += g * x.row(i)[j];
        R& to = dx.v.row(i)[j];
        to = (dx.overwrite ? R(0) : to) + wrong * a * g;
      }
    *da.v.data = (da.overwrite && f_ != Fault::parameter_added ? R(0) : *da.v.data) + sum;
  }

  static inline std::atomic<int> calls = 0;

 private:
  Fault f_;
};

template <class R, Fault fault>
class Tanh : public Norm<R> {
 public:
  explicit Tanh(const DecoderSpec&) {}
  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    const Value a = b.param({.name = name + ".a", .role = Role::norm_gain, .shape = {Dim{}}, .layer = layer},
                            {ParamRule::Kind::constant, 1});
    return b.node1(std::make_unique<TanhOp<R>>(fault), {.name = name,
                                                        .in = {x, a},
                                                        .out = {b.shape(x)},
                                                        .stats = {{name + ".stat", Shape{Dim{}}}},
                                                        .backward_reads_out = false});
  }
};

template <Fault fault>
struct With {
  template <class R>
  struct T : Tanh<R, fault> {
    using Tanh<R, fault>::Tanh;
  };
};

// A copy of the tables with the norm in it.
template <Fault fault>
Components tables() {
  Components c;
  c.norm.push_back(
      norm_entry<With<fault>::template T>({.name = "broken", .formula = "", .paper = "", .pitfalls = ""}));
  return c;
}

template <Fault fault>
std::string result(std::string (*check)(const Subject&)) {
  const Components c = tables<fault>();
  return check(subject(c, "norm", "broken"));
}
std::string gradients(const Subject& s) { return check_gradients(s); }
std::string floats(const Subject& s) { return check_float(s); }

void expect_found(const std::string& error, const std::string& part) {
  EXPECT_NE(error.find(part), std::string::npos) << "the check said: '" << error << "'";
}

TEST(ConformanceCanFail, AHealthyNormOfThisKindPasses) {
  for (auto* check : {gradients, floats, check_bits, check_nan, check_odd_sizes, check_training,
                      check_causality, check_decoding, check_shape_errors})
    EXPECT_EQ(result<Fault::none>(check), "");
}

TEST(ConformanceCanFail, AnAppendedEntryIsWalked) {
  const Components c = tables<Fault::none>();
  const auto all = subjects(c);
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const Subject& s) { return s.name == "broken"; }));
}

TEST(ConformanceCanFail, WrongGradient) {
  expect_found(result<Fault::gradient>(gradients), "central differences say");
  expect_found(result<Fault::small_gradient>(gradients), "central differences say");
}

TEST(ConformanceCanFail, GradientAddedInsteadOfOverwritten) {
  expect_found(result<Fault::parameter_added>(check_bits), "called twice: the gradient of");
}

TEST(ConformanceCanFail, FloatIsWorseThanFloat) {
  expect_found(result<Fault::float_only>(floats), "in double");
}

TEST(ConformanceCanFail, ResultDependsOnTheOrderOfCalls) {
  expect_found(result<Fault::call_order>(check_bits), "called twice: the gradient of");
}

TEST(ConformanceCanFail, ResultDependsOnWhoLooks) {
  expect_found(result<Fault::watched>(check_bits), "with a hook");
}

TEST(ConformanceCanFail, HiddenNan) { expect_found(result<Fault::hides_nan>(check_nan), "with a NaN in"); }

TEST(ConformanceCanFail, ABlockOfOneIsRefused) {
  expect_found(result<Fault::one_position>(check_odd_sizes), "[broken] a block of one position");
}

TEST(ConformanceCanFail, EvaluationIsAnotherFunction) {
  expect_found(result<Fault::evaluation>(check_odd_sizes), "in evaluation");
}

TEST(ConformanceCanFail, ACacheThatIsAnotherFunction) {
  expect_found(result<Fault::decoding>(check_decoding), "off those of the whole sequence");
}

TEST(ConformanceCanFail, TheFutureIsRead) {
  expect_found(result<Fault::future>(check_causality), "changes logits before it, and no op says so");
}

TEST(ConformanceCanFail, NothingIsLearned) {
  expect_found(result<Fault::silent>(check_training), "20 steps took the loss");
}

// A residual rule that looks at no shape: it forgets the branch.
template <class R>
struct Forgetful final : Residual<R> {
  explicit Forgetful(const DecoderSpec&) {}
  Value leave(Builder<R>&, Value shortcut, Value, const Site&) override { return shortcut; }
};

TEST(ConformanceCanFail, AWrongShapeIsAccepted) {
  Components c;
  c.residual.push_back(
      residual_entry<Forgetful>({.name = "forgetful", .formula = "", .paper = "", .pitfalls = ""}));
  expect_found(check_shape_errors(subject(c, "residual", "forgetful")), "is accepted");
}

TEST(ConformanceCanFail, AnEntryThatNothingFitsIsAnError) {
  Components c;
  Entry e{.name = "hermit", .formula = "", .paper = "", .pitfalls = ""};
  e.refuses = [](const DecoderSpec&) -> std::string { return "it wants to be alone"; };
  c.residual.push_back(residual_entry<Forgetful>(e));
  try {
    subjects(c);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no small decoder contains residual 'hermit'"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace plumb::conformance
