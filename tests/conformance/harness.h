// Conformance: what must hold for every component of every family, whatever it computes. Nothing here knows a
// component's name: the tables are walked, and a small decoder around each entry is found by asking the
// entries what they refuse.
//
// Each check returns a sentence that says what is wrong; empty: it holds. So the same functions serve the
// suite (every entry passes) and the proof that the suite can fail (components broken on purpose do not).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plumb/model/decoder.h"

namespace plumb::conformance {

/// An entry (or a setting of it) inside a small decoder that accepts it.
struct Subject {
  std::string family, name, variant;
  DecoderSpec spec;
  const Components* components = nullptr;
  std::string text() const;  // "norm 'layer' (no gain)"
};

/// A decoder of a few hundred parameters with odd sizes: 2 layers, d_model 6, 2 heads of 3, 11 tokens.
DecoderSpec small_spec();

/// Every entry of every table, every placement, and the settings that change what an entry builds. `c` must
/// outlive them. Throws when no small decoder contains an entry.
std::vector<Subject> subjects(const Components& c);

/// The entry of that family and name, as above.
Subject subject(const Components& c, const std::string& family, const std::string& name);

/// Gradients in double against central differences, for parameters and embeddings at scales 0.1, 1 and 10: 3
/// sequences in 2 shards, the second shorter. `worst`: the largest |a - n| / max(1, |a|, |n|).
std::string check_gradients(const Subject&, double* worst = nullptr);

/// The same at scale 1.
std::string check_pair(const Subject&);

/// With the interior points of attention asked for, loss and gradients are the same (to rounding) as from
/// tiles.
std::string check_twin(const Subject&);

/// Loss and gradients in float against double on the same numbers. `worst`: in units of the tolerance.
std::string check_float(const Subject&, double* worst = nullptr);

/// Loss, gradients and state have the same bits called twice, on 1, 2 and 4 threads, with recomputation, and
/// while a hook looks at every materialised point in both directions and at every statistic.
std::string check_bits(const Subject&);

/// A NaN in any parameter or at any point makes the loss non-finite, and the hunt names the parameter.
std::string check_nan(const Subject&);

/// Batches and blocks of 1, a block of 5, a lone sequence: finite, float as double, and evaluation as
/// training.
std::string check_odd_sizes(const Subject&);

/// From its own start, 20 steps on a short repeating text lower the loss.
std::string check_training(const Subject&);

/// Another last token changes no logits before it, bit for bit, in training; where an op says that it sees
/// the future, it does.
std::string check_causality(const Subject&);

/// One token at a time with its cache gives the logits of the whole sequence, at every length; or is refused,
/// where an op sees the future.
std::string check_decoding(const Subject&);

/// A branch that writes one channel too many is refused while building, with the op and both sizes.
std::string check_shape_errors(const Subject&);

}  // namespace plumb::conformance
