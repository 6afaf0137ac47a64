#include "plumb/data/verse_filter.h"

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"

namespace plumb {
namespace {

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

VerseFilter::VerseFilter(const VerseModel& model) : model_(&model) {
  const VerseSpec& spec = model.spec();
  const std::int32_t n = spec.characters;
  rhyme_mass_.resize(index(spec.topics) * index(spec.rhymes));
  any_second_.resize(index(spec.topics) * index(n));
  for (std::int32_t z = 0; z < spec.topics; ++z) {
    std::vector<double> class_mass(index(spec.word_classes));
    for (std::int32_t c = 0; c < n; ++c) {
      rhyme_mass_[index(z * spec.rhymes + model.rhyme(c))] += model.topic(z, c);
      class_mass[index(model.word_class(c))] += model.topic(z, c);
    }
    for (std::int32_t c = 0; c < n; ++c) {
      double followed = 0;
      for (std::int32_t k = 0; k < spec.word_classes; ++k)
        followed += class_mass[index(k)] * model.follower(k, c);
      any_second_[index(z * n + c)] = spec.word_share * followed + (1 - spec.word_share) * model.topic(z, c);
    }
  }

  double places = 0;  // a place of any form is as likely as another: forms are drawn uniformly
  const auto forms = static_cast<std::int32_t>(spec.line_lengths.size());
  for (std::int32_t f = 0; f < forms; ++f) places += static_cast<double>(model.poem(f).size());
  for (std::int32_t z = 0; z < spec.topics; ++z)
    for (std::int32_t f = 0; f < forms; ++f)
      for (std::size_t i = 0; i < model.poem(f).size(); ++i)
        stationary_.push_back({z, f, static_cast<std::int32_t>(i), any_rhyme, 1 / (places * spec.topics)});
  reset();
}

void VerseFilter::reset() {
  states_ = stationary_;
  previous_ = unseen;
}

double VerseFilter::rhyme_mass(std::int32_t topic, std::int32_t rhyme) const {
  return rhyme_mass_[index(topic * model_->spec().rhymes + rhyme)];
}

double VerseFilter::emission(const State& s, std::int32_t symbol) const {
  const Slot slot = model_->poem(s.form)[index(s.place)];
  if (slot == Slot::newline) return symbol == model_->newline() ? 1 : 0;
  if (slot == Slot::comma) return symbol == model_->comma() ? 1 : 0;
  if (slot == Slot::stop) return symbol == model_->stop() ? 1 : 0;
  const VerseSpec& spec = model_->spec();
  if (symbol >= spec.characters) return 0;
  const double topical = model_->topic(s.topic, symbol);
  // Over all rhymes, sum_r p(r) [rhyme(x) = r] topic(x) / p(r) = topic(x).
  if (slot == Slot::follows_rhyme && s.rhyme != any_rhyme)
    return model_->rhyme(symbol) == s.rhyme ? topical / rhyme_mass(s.topic, s.rhyme) : 0;
  if (slot != Slot::word_second) return topical;
  if (previous_ == unseen) return any_second_[index(s.topic * spec.characters + symbol)];
  // A state that expects a second character has just emitted a first one: previous_ is a character.
  return spec.word_share * model_->follower(model_->word_class(previous_), symbol) +
         (1 - spec.word_share) * topical;
}

double VerseFilter::probability(std::int32_t symbol) const {
  double p = 0;
  for (const State& s : states_) p += s.weight * emission(s, symbol);
  return p;
}

double VerseFilter::observe(std::int32_t symbol) {
  const VerseSpec& spec = model_->spec();
  next_.clear();
  double p = 0, ended = 0;
  for (State s : states_) {
    s.weight *= emission(s, symbol);
    if (s.weight == 0) continue;
    p += s.weight;
    const auto slots = model_->poem(s.form);
    const Slot slot = slots[index(s.place)];
    if (slot == Slot::opens_rhyme || slot == Slot::follows_rhyme) s.rhyme = model_->rhyme(symbol);
    if (index(++s.place) < slots.size())
      next_.push_back(s);
    else
      ended += s.weight;
  }
  // Whatever poem ended, the next one's topic and form are drawn afresh.
  const auto forms = static_cast<std::int32_t>(spec.line_lengths.size());
  if (ended > 0)
    for (std::int32_t z = 0; z < spec.topics; ++z)
      for (std::int32_t f = 0; f < forms; ++f)
        next_.push_back({z, f, 0, any_rhyme, ended / (spec.topics * forms)});
  for (State& s : next_) s.weight /= p;
  std::swap(states_, next_);
  previous_ = symbol;
  return p;
}

double verse_floor(const VerseModel& model, std::u32string_view text, std::int64_t block_size) {
  if (block_size < 1) bad_input("model.block_size is {}; set it to 1 or more", block_size);
  if (text.size() < 2)
    bad_input("a floor needs 2 characters or more, not {}; use a longer text or a smaller data.split",
              text.size());
  const auto symbols = model.symbols_of(text);
  VerseFilter filter(model);
  double nats = 0;
  for (std::size_t i = 1; i < symbols.size(); ++i) {
    if ((i - 1) % static_cast<std::size_t>(block_size) == 0) {
      filter.reset();
      filter.observe(symbols[i - 1]);  // the block's first input is given, not predicted
    }
    // A block's last target is the next block's first input.
    const double p = filter.observe(symbols[i]);
    if (!(p > 0))
      bad_input("the verse model cannot have written character {} of the text; give a text that it wrote", i);
    nats -= std::log(p);
  }
  return nats / static_cast<double>(symbols.size() - 1);
}

double verse_entropy_rate(const VerseModel& model, std::u32string_view text) {
  return verse_floor(model, text, std::max<std::int64_t>(static_cast<std::int64_t>(text.size()), 1));
}

}  // namespace plumb
