#include "plumb/data/baselines.h"

#include <cmath>
#include <vector>

#include "plumb/base/error.h"
#include "plumb/data/kneser_ney.h"

namespace plumb {
namespace {

// Nats of the targets first … n - 1, each with `context` tokens before it.
double nats_of(const KneserNey& model, std::span<const std::int32_t> tokens, std::size_t first,
               std::size_t context) {
  double nats = 0;
  for (std::size_t i = first; i < tokens.size(); ++i)
    nats -= std::log(model.probability(tokens.subspan(i - context, context), tokens[i]));
  return nats;
}

}  // namespace

Baselines baselines(std::span<const std::int32_t> train, std::span<const std::int32_t> validation,
                    std::int64_t vocab_size) {
  if (validation.size() < 2)
    bad_input(
        "the validation split has {} tokens, but a target needs 2; use a longer corpus or a smaller "
        "data.split",
        validation.size());
  const auto size = static_cast<std::size_t>(vocab_size);
  std::vector<std::int64_t> counts(size,
                                   1);  // add one: a symbol that training never shows must not cost infinity
  for (const std::int32_t token : train) ++counts.at(static_cast<std::size_t>(token));
  const double total = static_cast<double>(train.size()) + static_cast<double>(vocab_size);

  std::vector<std::int64_t> targets(size, 0);
  for (const std::int32_t token : validation.subspan(1)) ++targets.at(static_cast<std::size_t>(token));
  double nats = 0;
  for (std::size_t v = 0; v < size; ++v)
    nats -= static_cast<double>(targets[v]) * std::log(static_cast<double>(counts[v]) / total);

  const KneserNey two(train, vocab_size, 2), three(train, vocab_size, 3);
  const double bigram = nats_of(two, validation, 1, 1);
  const double trigram = nats_of(two, validation.first(2), 1, 1) + nats_of(three, validation, 2, 2);
  const auto n = static_cast<double>(validation.size() - 1);
  return {std::log(static_cast<double>(vocab_size)), nats / n, bigram / n, trigram / n};
}

}  // namespace plumb
