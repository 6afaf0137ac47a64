// Writes a trace, a row at a time, each handed to the system before the call returns.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "plumb/trace/trace.h"

namespace plumb {

class TraceWriter {
 public:
  /// Starts a new file (replacing an old one) with its header row. `with_crc` ends each row with its
  /// checksum.
  static TraceWriter create(const std::filesystem::path& path, const TraceHeader& header,
                            bool with_crc = true);

  /// Goes on with an existing trace: cuts off a torn last line, and every row that a run resumed from
  /// `from_step` writes again (trace_keep_bytes). bad_input when the file is no trace of this
  /// schema.
  static TraceWriter resume(const std::filesystem::path& path, std::int64_t from_step, bool with_crc = true);

  TraceWriter(TraceWriter&& other) noexcept;
  TraceWriter& operator=(TraceWriter&& other) noexcept;
  ~TraceWriter();

  /// bad_input when the row cannot be written in full (a full disk is called that).
  void fact(const FactRow& row);
  void step(const StepRow& row);

 private:
  TraceWriter(int fd, std::filesystem::path path, bool with_crc);
  void write(const Json& row);
  int fd_;
  std::filesystem::path path_;
  bool with_crc_;
};

}  // namespace plumb
