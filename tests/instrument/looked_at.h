// Small models for instruments to look at, whose weights a test may set.
#pragma once
#include <gtest/gtest.h>

#include <memory>

#include "plumb/instrument/instrument.h"
#include "plumb/study/audit.h"
#include "tests/support/error_text.h"
#include "tests/support/small_run.h"

namespace plumb::test {

/// 2 layers, d_model 32, 4 heads, d_ff 64, blocks of 16, drawn and not trained.
inline std::unique_ptr<Patient> looked_at(const std::vector<std::string>& set = {}) {
  static const Corpus text = made_up_text();
  Config c = small_config();
  for (const std::string& s : set) set_value(c, s);
  return std::make_unique<Patient>(c, Components{}, text);
}

/// What an instrument reads. It must leave the parameters as they were.
inline Reading reading(std::string_view instrument, Patient& p, const InstrumentOptions& o = {}) {
  for (const Instrument& i : instrument_table())
    if (i.name == instrument) {
      const std::string before = p.store.hash();
      Reading r = i.read(p, o);
      EXPECT_EQ(p.store.hash(), before);
      EXPECT_FALSE(i.measures.empty() || i.how.empty());
      return r;
    }
  ADD_FAILURE() << "no instrument " << instrument;
  return {};
}

inline void fill(View<float> v, float value) {
  for (std::int64_t i = 0; i < v.rows; ++i) std::fill_n(v.row(i), v.cols, value);
}

inline double number(const Json& j, std::string_view key) { return j.at(key, "a reading").as_double(key); }
inline std::string word(const Json& j, std::string_view key) { return j.at(key, "a reading").as_string(key); }
inline const Json& item(const Json& j, std::string_view key, std::size_t i) {
  return j.at(key, "a reading").as_array(key).at(i);
}

/// That it stops when asked.
inline void expect_interruptible(std::string_view instrument) {
  const auto p = looked_at();
  int code = 0;
  error_text([&] { reading(instrument, *p, {.interrupted = [] { return true; }}); }, &code);
  EXPECT_EQ(code, 130);
}

}  // namespace plumb::test
