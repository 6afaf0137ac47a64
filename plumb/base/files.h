// Files, read and written whole. A file written here is either complete or not there: a crash or a full disk
// in the middle leaves the old one untouched.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace plumb {

/// The bytes of a file. bad_input when it is missing, a directory, unreadable, or larger than `max_bytes`.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes = UINT64_MAX);

/// A regular file that is read in pieces, wherever one likes.
class FileReader {
 public:
  /// bad_input when it is missing, unreadable, or no regular file (a pipe or a device has no size and no end).
  explicit FileReader(const std::filesystem::path& path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  const std::string& name() const { return name_; }
  /// In bytes, when it was opened.
  std::uint64_t size() const { return size_; }
  /// Fills `out` with the bytes from `offset` on; bad_input when the file ends before.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  std::string read_text(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  std::string name_;
  std::uint64_t size_ = 0;
  int fd_ = -1;
};

/// Writes a temporary file beside `path`, syncs it and renames it over `path`. bad_input when any of this does
/// not work (a full disk is called that); the temporary file is then removed.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

/// The same for the concatenation of `pieces`.
void write_file_atomic(const std::filesystem::path& path, std::span<const std::string_view> pieces);

/// Makes the directory and its parents; an existing directory is fine. bad_input otherwise.
void make_dirs(const std::filesystem::path& path);

/// The last name of a path, also of one that ends in a slash: "b" of a/b and of a/b/.
std::string folder_name(const std::filesystem::path& path);

/// "No such file or directory (…)" worded for people: the reason of an errno value, with what to do for the
/// common ones.
std::string reason_of(int error_number);

}  // namespace plumb
