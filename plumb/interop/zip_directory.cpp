#include "plumb/interop/zip_directory.h"

#include <algorithm>

#include "plumb/base/error.h"

namespace plumb {
namespace {

constexpr std::uint64_t end_bytes = 22, end64_bytes = 56, locator_bytes = 20, central_bytes = 46,
                        local_bytes = 30;
constexpr std::uint64_t max_comment = 0xffff, max_directory = 16'000'000;
constexpr std::uint32_t end_sign = 0x06054b50, end64_sign = 0x06064b50, locator_sign = 0x07064b50,
                        central_sign = 0x02014b50, local_sign = 0x04034b50;
constexpr std::uint64_t in_zip64 = 0xffffffff;  // a 32-bit field whose value stands in the zip64 part

std::uint64_t number(std::string_view bytes, std::size_t at, std::size_t n) {
  std::uint64_t v = 0;
  for (std::size_t i = 0; i < n; ++i)
    v |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return v;
}

[[noreturn]] void damaged(const FileReader& file, std::string_view why) {
  bad_input("{} is a damaged zip file: {}; get it again", file.name(), why);
}

struct Directory {
  std::uint64_t offset = 0, bytes = 0, entries = 0;
};

Directory find_directory(const FileReader& file) {
  if (file.size() < end_bytes) damaged(file, "it is too short");
  const std::uint64_t tail_bytes = std::min(file.size(), end_bytes + max_comment + locator_bytes);
  const std::uint64_t tail_at = file.size() - tail_bytes;
  const std::string tail = file.read_text(tail_at, tail_bytes);
  for (std::size_t i = tail.size() - end_bytes + 1; i-- > 0;) {
    if (number(tail, i, 4) != end_sign || number(tail, i + 20, 2) != tail.size() - i - end_bytes) continue;
    if (number(tail, i + 4, 2) != 0 || number(tail, i + 6, 2) != 0)
      damaged(file, "it is one part of several");
    Directory d{number(tail, i + 16, 4), number(tail, i + 12, 4), number(tail, i + 10, 2)};
    std::uint64_t end = tail_at + i;
    if (i >= locator_bytes && number(tail, i - locator_bytes, 4) == locator_sign) {
      const std::uint64_t at = number(tail, i - locator_bytes + 8, 8);
      if (at > file.size() || file.size() - at < end64_bytes)
        damaged(file, "its zip64 part lies outside of it");
      const std::string end64 = file.read_text(at, end64_bytes);
      if (number(end64, 0, 4) != end64_sign) damaged(file, "its zip64 part is missing");
      d = {number(end64, 48, 8), number(end64, 40, 8), number(end64, 32, 8)};
      end = at;
    }
    if (d.offset > end || d.bytes > end - d.offset) damaged(file, "its table of contents lies outside of it");
    return d;
  }
  damaged(file, "its table of contents is missing");
}

// Replaces those of the three values that are marked as standing in the extra field.
void read_zip64(const FileReader& file, std::string_view extra, std::uint64_t& bytes, std::uint64_t& stored,
                std::uint64_t& header) {
  while (extra.size() >= 4) {
    const std::uint64_t kind = number(extra, 0, 2), size = number(extra, 2, 2);
    if (size > extra.size() - 4) damaged(file, "an extra field does not end");
    std::string_view part = extra.substr(4, size);
    extra.remove_prefix(4 + size);
    if (kind != 1) continue;
    for (std::uint64_t* value : {&bytes, &stored, &header}) {
      if (*value != in_zip64) continue;
      if (part.size() < 8) damaged(file, "a zip64 field is too short");
      *value = number(part, 0, 8);
      part.remove_prefix(8);
    }
    return;
  }
}

ZipEntry read_entry(const FileReader& file, std::string_view table, std::size_t& at,
                    std::uint64_t directory_at) {
  if (table.size() - at < central_bytes || number(table, at, 4) != central_sign)
    damaged(file, "its table of contents is cut off");
  const std::uint64_t flags = number(table, at + 8, 2), method = number(table, at + 10, 2);
  std::uint64_t stored = number(table, at + 20, 4), bytes = number(table, at + 24, 4),
                header = number(table, at + 42, 4);
  const std::uint64_t name_bytes = number(table, at + 28, 2), extra_bytes = number(table, at + 30, 2),
                      comment_bytes = number(table, at + 32, 2);
  if (name_bytes + extra_bytes + comment_bytes > table.size() - at - central_bytes)
    damaged(file, "its table of contents is cut off");
  ZipEntry entry;
  entry.name = table.substr(at + central_bytes, name_bytes);
  read_zip64(file, table.substr(at + central_bytes + name_bytes, extra_bytes), bytes, stored, header);
  at += central_bytes + name_bytes + extra_bytes + comment_bytes;

  const std::string_view shown = std::string_view(entry.name).substr(0, 80);
  if (method != 0 || (flags & 1) != 0)
    bad_input(
        "'{}' in {} is {}; torch.save stores tensors as they are: save the state dict with it, or as "
        "safetensors",
        shown, file.name(), method != 0 ? "compressed" : "encrypted");
  if (stored != bytes || header > directory_at || directory_at - header < local_bytes ||
      bytes > directory_at - header - local_bytes)
    damaged(file, fmt::format("'{}' with {} bytes at {} does not fit in", shown, bytes, header));
  entry.header = header;
  entry.bytes = bytes;
  return entry;
}

void refuse_overlap(const FileReader& file, std::vector<ZipEntry> entries) {
  std::ranges::sort(entries, {}, &ZipEntry::header);
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const ZipEntry &a = entries[i - 1], &b = entries[i];
    if (b.header - a.header < local_bytes + a.name.size() + a.bytes)
      damaged(file, fmt::format("'{}' lies on top of '{}'", b.name.substr(0, 80), a.name.substr(0, 80)));
  }
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(const FileReader& file) {
  const Directory d = find_directory(file);
  if (d.bytes > max_directory)
    bad_input(
        "{} has a table of contents of {} bytes, of which at most {} are read; check that it is the right "
        "file",
        file.name(), d.bytes, max_directory);
  if (d.entries > d.bytes / central_bytes)
    damaged(file, fmt::format("{} entries do not fit its table of contents of {} bytes", d.entries, d.bytes));
  const std::string table = file.read_text(d.offset, d.bytes);
  std::vector<ZipEntry> entries;
  for (std::size_t at = 0; entries.size() < d.entries;)
    entries.push_back(read_entry(file, table, at, d.offset));
  refuse_overlap(file, entries);
  std::ranges::sort(entries, {}, &ZipEntry::name);
  const auto twice = std::ranges::adjacent_find(entries, {}, &ZipEntry::name);
  if (twice != entries.end()) damaged(file, fmt::format("'{}' is there twice", twice->name.substr(0, 80)));
  return entries;
}

std::uint64_t zip_contents(const FileReader& file, const ZipEntry& entry) {
  const std::string header = file.read_text(entry.header, local_bytes);
  const std::uint64_t at = entry.header + local_bytes + number(header, 26, 2) + number(header, 28, 2);
  if (number(header, 0, 4) != local_sign || at > file.size() || entry.bytes > file.size() - at)
    damaged(file, fmt::format("'{}' is not where the table of contents says", entry.name.substr(0, 80)));
  return at;
}

const ZipEntry* find_entry(const std::vector<ZipEntry>& entries, std::string_view name) {
  const auto found =
      std::ranges::lower_bound(entries, name, {}, [](const ZipEntry& e) { return std::string_view(e.name); });
  return found != entries.end() && found->name == name ? &*found : nullptr;
}

}  // namespace plumb
