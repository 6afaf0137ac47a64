#include "plumb/trace/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/trace/reader.h"

namespace plumb {
namespace {

[[noreturn]] void cannot_write(const std::filesystem::path& path, int error_number) {
  bad_input("cannot write the trace {}: {}", path.string(), reason_of(error_number));
}

int open_at_end(const std::filesystem::path& path, int extra_flags) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | extra_flags, 0666);
  if (fd < 0) cannot_write(path, errno);
  return fd;
}

}  // namespace

TraceWriter::TraceWriter(int fd, std::filesystem::path path, bool with_crc)
    : fd_(fd), path_(std::move(path)), with_crc_(with_crc) {}

TraceWriter::TraceWriter(TraceWriter&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), with_crc_(other.with_crc_) {}

TraceWriter& TraceWriter::operator=(TraceWriter&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(with_crc_, other.with_crc_);
  return *this;
}

TraceWriter::~TraceWriter() {
  if (fd_ >= 0) ::close(fd_);
}

TraceWriter TraceWriter::create(const std::filesystem::path& path, const TraceHeader& header, bool with_crc) {
  TraceWriter writer(open_at_end(path, O_CREAT | O_TRUNC), path, with_crc);
  Json row = Json::object();
  row.add_member("row", "header");
  row.add_member("schema", trace_schema);
  row.add_member("producer", header.producer);
  row.add_member("config", header.config);
  writer.write(row);
  return writer;
}

TraceWriter TraceWriter::resume(const std::filesystem::path& path, std::int64_t from_step, bool with_crc) {
  const std::string text = read_file(path);
  const std::size_t keep = trace_keep_bytes(text, path.string(), from_step);
  TraceWriter writer(open_at_end(path, 0), path, with_crc);
  if (::ftruncate(writer.fd_, static_cast<off_t>(keep)) != 0) cannot_write(path, errno);
  return writer;
}

void TraceWriter::fact(const FactRow& fact) {
  Json row = Json::object();
  row.add_member("row", "fact");
  row.add_member("name", fact.name);
  row.add_member("value", fact.value);
  write(row);
}

void TraceWriter::step(const StepRow& step) {
  Json row = Json::object();
  row.add_member("row", "step");
  row.add_member("step", step.step);
  for (const auto& [name, value] : step.values) row.add_member(name, value);
  if (!step.layers.empty()) {
    Json& layers = row.add_member("layers", Json::object());
    for (const auto& [name, values] : step.layers) layers.add_member(name, Json(values));
  }
  write(row);
}

void TraceWriter::write(const Json& row) {
  std::string line = row.dump();
  if (with_crc_) {
    line.pop_back();  // the closing brace
    line += fmt::format(",\"crc\":\"{:08x}\"}}", crc32(line));
  }
  line += '\n';
  // One write a row, so that a row is whole or torn at the end, never mixed with another.
  std::string_view left = line;
  while (!left.empty()) {
    const ssize_t n = ::write(fd_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_write(path_, errno);
    left.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace plumb
