// The parts of a decoder that can be switched off in a trained model: at which named values, in which
// parameters.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "plumb/plan/params.h"
#include "plumb/spec/spec.h"

namespace plumb {

/// Columns [first, first + n) of a named value; n = 0: all of them.
struct Cut {
  std::string point;
  std::int64_t first = 0, n = 0;
};

/// Rows and columns of a parameter (n = 0: all), and what they become where the part is switched off.
struct Slice {
  enum class To : std::uint8_t { zero, one, identity };
  std::string param;
  std::int64_t first_row = 0, n_row = 0, first_col = 0, n_col = 0;
  To to = To::zero;
};

struct Part {
  std::string name, kind;  // "blocks.3.attn", "attention"
  // Off is one of these: values at cuts become 0; `to` gets what stands at `from`; parameters become what
  // `removed` says; the model has no position code.
  enum class Off : std::uint8_t { cuts, bypass, parameters, no_position } off = Off::cuts;
  std::vector<Cut> cuts = {};
  std::string from = {}, to = {};
  std::vector<Slice> weights = {};  // its parameters
  /// Those whose change to `Slice::to` is the same as switching it off, or is where no norm stands behind.
  std::vector<Slice> removed = {};
};

/// Those of a model, in its own order. What its settings leave out (projections, the final norm, positions)
/// is no part.
std::vector<Part> parts_of(const DecoderSpec&, const ParamLayout&);

/// Columns `slots` of the hidden layer of a block's FFN, as one part. Only where the FFN is one of d_ff slots
/// (no experts).
Part slots_part(const DecoderSpec&, const ParamLayout&, std::int64_t layer,
                const std::vector<std::int64_t>& slots, const std::string& which);

}  // namespace plumb
