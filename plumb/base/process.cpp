#include "plumb/base/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "plumb/base/error.h"
#include "plumb/base/files.h"

namespace plumb {
namespace {

std::string last_line(std::string_view text) {
  std::string last;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) last = std::string(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return last;
}

std::string read_to_end(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(n));
    if (text.size() > 65536) text.erase(0, text.size() - 32768);  // only the end is of use
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const std::filesystem::path& directory) {
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& a : argv)
    arguments.push_back(const_cast<char*>(a.c_str()));  // posix_spawn does not write to them
  arguments.push_back(nullptr);

  std::array<int, 2> errors{};
  if (::pipe2(errors.data(), O_CLOEXEC) != 0) fail("cannot start {}: {}", argv.at(0), reason_of(errno));

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
  pid_t child = 0;
  const int e = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(errors[1]);
  if (e != 0) {
    ::close(errors[0]);
    if (e == ENOENT) return {.exit_code = 127, .not_found = true, .last_error = ""};
    fail("cannot start {}: {}", argv[0], reason_of(e));
  }

  ProcessResult result;
  result.last_error = last_line(read_to_end(errors[0]));
  ::close(errors[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace plumb
