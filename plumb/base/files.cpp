#include "plumb/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "plumb/base/error.h"

namespace plumb {
namespace {

// Closes on every way out.
struct Descriptor {
  int fd;
  explicit Descriptor(int fd_) : fd(fd_) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void cannot_write(const std::filesystem::path& path, int error_number) {
  bad_input("cannot write {}: {}", path.string(), reason_of(error_number));
}

// 0, or the errno of the write that failed.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    // The kernel takes at most 2 GiB at once.
    const ssize_t n = ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), std::size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

// A name that no other thread or process uses, in the folder of `path`: a rename works only within one file
// system.
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  static std::atomic<unsigned> count{0};
  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}-{}.tmp", ::getpid(), count++);
  return temporary;
}

// 0, or the errno of what failed.
int write_synced(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.fd < 0) return errno;
  for (const std::string_view piece : pieces)
    if (const int e = write_all(file.fd, piece); e != 0) return e;
  return ::fsync(file.fd) == 0 ? 0 : errno;
}

}  // namespace

std::string folder_name(const std::filesystem::path& path) { return (path / "").parent_path().filename().string(); }

std::string reason_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
      return "the disk is full; free some space and try again";
    case EDQUOT:
      return "your disk quota is used up; free some space and try again";
    case EACCES:
    case EPERM:
      return "permission denied; choose a place that you may use or change its permissions";
    case EROFS:
      return "the file system is read-only; choose another place";
    case ENOENT:
      return "no such file or directory; check the path";
    case ENOTDIR:
      return "a part of the path is not a directory; check the path";
    case EISDIR:
      return "it is a directory; name a file";
    case ENAMETOOLONG:
      return "the name is too long; choose a shorter one";
    default:
      return std::generic_category().message(error_number) + "; check the path and the disk";
  }
}

std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const auto cannot_read = [&](int e) { bad_input("cannot read {}: {}", path.string(), reason_of(e)); };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) cannot_read(errno);
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) cannot_read(errno);
  if (S_ISDIR(info.st_mode)) cannot_read(EISDIR);
  const auto refuse_size = [&] {
    bad_input(
        "{} is larger than {} bytes, which is the most that is read here; check that it is the right file",
        path.string(), max_bytes);
  };
  if (S_ISREG(info.st_mode) && static_cast<std::uint64_t>(info.st_size) > max_bytes) refuse_size();

  // The size is only a hint: a pipe has none, and a file may grow while it is read.
  std::string bytes;
  std::size_t used = 0;
  bytes.resize(static_cast<std::size_t>(std::max<off_t>(info.st_size, 0)) + 1);
  for (;;) {
    if (used == bytes.size()) bytes.resize(std::max<std::size_t>(2 * used, 4096));
    const ssize_t n = ::read(file.fd, bytes.data() + used,
                             std::min<std::size_t>(bytes.size() - used, std::size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_read(errno);
    if (n == 0) break;
    used += static_cast<std::size_t>(n);
    if (used > max_bytes) refuse_size();
  }
  bytes.resize(used);
  return bytes;
}

FileReader::FileReader(const std::filesystem::path& path) : name_(path.string()) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) bad_input("cannot read {}: {}", name_, reason_of(errno));
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) bad_input("cannot read {}: {}", name_, reason_of(errno));
  if (S_ISDIR(info.st_mode)) bad_input("cannot read {}: {}", name_, reason_of(EISDIR));
  if (!S_ISREG(info.st_mode)) bad_input("{} is no regular file; name one", name_);
  size_ = static_cast<std::uint64_t>(info.st_size);
  fd_ = std::exchange(file.fd, -1);
}

FileReader::~FileReader() { ::close(fd_); }

void FileReader::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), std::min<std::size_t>(out.size(), std::size_t{1} << 30),
                              static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) bad_input("cannot read {}: {}", name_, reason_of(errno));
    if (n == 0)
      bad_input("{} ends before byte {}; it is cut off, get it again", name_, offset + out.size());
    offset += static_cast<std::uint64_t>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
}

std::string FileReader::read_text(std::uint64_t offset, std::uint64_t bytes) const {
  std::string text(bytes, '\0');
  read(offset, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

void write_file_atomic(const std::filesystem::path& path, std::string_view bytes) {
  write_file_atomic(path, std::span<const std::string_view>(&bytes, 1));
}

void write_file_atomic(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  const std::filesystem::path temporary = temporary_beside(path);
  int e = write_synced(temporary, pieces);
  if (e == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) e = errno;
  if (e != 0) {
    ::unlink(temporary.c_str());
    cannot_write(path, e);
  }
  // The rename itself must survive a crash too. Some file systems cannot sync a directory: the data is safe
  // even so.
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.fd >= 0) (void)::fsync(directory.fd);
}

void make_dirs(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && std::filesystem::is_directory(path, error)) return;
  bad_input("cannot make the directory {}: {}", path.string(),
       error ? reason_of(error.value()) : reason_of(ENOTDIR));
}

}  // namespace plumb
