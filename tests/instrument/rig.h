// Instruments on a small model.
#pragma once
#include <gtest/gtest.h>

#include "plumb/instrument/instrument.h"
#include "tests/support/small_run.h"

namespace plumb::test {

/// 2 layers, d_model 32, blocks of 16.
struct OnSmall {
  Corpus corpus = made_up_text();
  Components components;
  Patient p;
  explicit OnSmall(const std::vector<std::string>& set = {}) : p(config(set), components, corpus) {}
  static Config config(const std::vector<std::string>& set) {
    Config c = small_config();
    c.train.threads = 1;
    for (const std::string& s : set) set_value(c, s);
    return c;
  }
  /// What the instrument says; the parameters are left as they were.
  Json read(std::string_view name, const InstrumentOptions& o = {}) {
    const std::string before = p.store.hash();
    for (const Instrument& i : instrument_table())
      if (i.name == name) {
        const Reading r = i.read(p, o);
        EXPECT_EQ(p.store.hash(), before);
        EXPECT_FALSE(r.text.empty());
        return r.json;
      }
    ADD_FAILURE() << "no instrument " << name;
    return {};
  }
};

inline double number(const Json& j, std::string_view key) { return j.at(key, "reading").as_double(key); }
inline const Json::Array& list(const Json& j, std::string_view key) {
  return j.at(key, "reading").as_array(key);
}

}  // namespace plumb::test
