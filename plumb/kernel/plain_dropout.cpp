// Plain twin of dropout's factors: word i mod 4 of block i / 4 of the stream decides about element i.
#include "plumb/kernel/dropout.h"

namespace plumb::plain {

template <class R>
void dropout_factors(const Dropout& d, std::int64_t sample, std::int64_t first, std::span<R> out) {
  const auto step = static_cast<std::uint64_t>(d.step);
  const auto of = static_cast<std::uint64_t>(d.first_sample + sample);
  const auto kept = static_cast<R>(d.kept());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t element = static_cast<std::uint64_t>(first) + i;
    out[i] = d.draws.at(step, of, element / 4)[element % 4] < d.threshold() ? R(0) : kept;
  }
}

template void dropout_factors(const Dropout&, std::int64_t, std::int64_t, std::span<float>);
template void dropout_factors(const Dropout&, std::int64_t, std::int64_t, std::span<double>);

}  // namespace plumb::plain
