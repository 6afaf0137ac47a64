// Instruments: what takes more than one look. A probe reads values of a training step as they pass; an instrument passes a
// batch several times, changes values or cuts edges on the way, or moves the parameters and looks again. Nothing is trained,
// and the parameters are left as they were. One instrument a file; the table is generated from the file names.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/base/json.h"
#include "plumb/study/patient.h"

namespace plumb {

struct InstrumentOptions {
  std::int64_t layer = -1;  // of those that look at one block: this one; -1: every one
  std::int64_t top = 5;     // how many of a list
  std::size_t width = 100;  // columns of the text
  std::function<bool()> interrupted = {};
};

/// What was read: lines for people, each with its newline, and the same numbers for programs.
struct Reading {
  std::string text;
  Json json;
};

struct InstrumentEntry {
  std::string_view name, measures;  // "logit_lens"; what, in a sentence
  std::string_view how;             // how it is found, what it is to be held against, and the source
  Reading (*read)(Patient&, const InstrumentOptions&);
};
using Instrument = InstrumentEntry;
std::vector<InstrumentEntry> instrument_table();

/// Error with exit status 130 when the person asked to stop.
void stop_if_asked(const InstrumentOptions&);

/// The blocks to look at.
std::vector<std::int64_t> layers_of(const Patient&, const InstrumentOptions&);

}  // namespace plumb
