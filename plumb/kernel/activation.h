// Activations, element by element, and their gated form. Instantiated for double (plain loops: the oracle)
// and float (SIMD); plumb::plain has the plain twin for both, for tests. plain_activation.cpp has the
// formulas.
//
// All views (rows, n), strided or not. Every backward writes as its Sink says and skips an empty one. A NaN
// in any input reaches the output.
#pragma once
#include <cstdint>
#include <string_view>

#include "plumb/tensor/view.h"

namespace plumb {

enum class Act : std::uint8_t { gelu, gelu_tanh, relu, leaky_relu, silu, tanh };

/// Their names, as in a config.
constexpr std::string_view act_names[] = {"gelu", "gelu_tanh", "relu", "leaky_relu", "silu", "tanh"};
constexpr std::string_view act_name(Act a) { return act_names[static_cast<std::size_t>(a)]; }

/// gain act(x).
struct Activation {
  Act act = Act::gelu;
  double gain = 1;   // scaled weight standardisation's constant
  double slope = 0;  // of leaky_relu below 0
};

#define PLUMB_ACTIVATION_KERNELS                                                                      \
  /* y = gain act(x). */                                                                              \
  template <class R>                                                                                  \
  void activation_forward(const Activation&, View<const R> x, View<R> y);                             \
  /* dx (+)= gain act'(x) dy. */                                                                      \
  template <class R>                                                                                  \
  void activation_backward(const Activation&, View<const R> dy, View<const R> x, Sink<R> dx);         \
  /* y = gain act(gate) up. Dauphin et al. 2016, arXiv 1612.08083; Shazeer 2020, arXiv 2002.05202. */ \
  template <class R>                                                                                  \
  void gated_forward(const Activation&, View<const R> gate, View<const R> up, View<R> y);             \
  /* dgate (+)= gain act'(gate) up dy;  dup (+)= gain act(gate) dy. */                                \
  template <class R>                                                                                  \
  void gated_backward(const Activation&, View<const R> dy, View<const R> gate, View<const R> up,      \
                      Sink<R> dgate, Sink<R> dup);

PLUMB_ACTIVATION_KERNELS
namespace plain {
PLUMB_ACTIVATION_KERNELS
}  // namespace plain
#undef PLUMB_ACTIVATION_KERNELS

}  // namespace plumb
