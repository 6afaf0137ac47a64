#include "plumb/base/process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "plumb/base/files.h"
#include "tests/support/temp_dir.h"

namespace plumb {
namespace {

TEST(Process, RunsInItsDirectoryAndReportsStatusAndLastError) {
  const test::TempDir dir;
  const ProcessResult result =
      run_process({"sh", "-c", "echo hi > made; echo one >&2; echo two >&2; echo >&2; exit 3"}, dir.path);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.last_error, "two");
  EXPECT_FALSE(result.not_found);
  EXPECT_EQ(read_file(dir / "made"), "hi\n");
}

TEST(Process, TakesNoShellAndKnowsSignals) {
  const test::TempDir dir;
  EXPECT_EQ(run_process({"test", "a b; exit 1", "=", "a b; exit 1"}, dir.path).exit_code, 0);
  EXPECT_EQ(run_process({"sh", "-c", "kill -9 $$"}, dir.path).exit_code, 137);
  EXPECT_TRUE(run_process({"plumb-has-no-such-program"}, dir.path).not_found);
}

TEST(Process, KeepsTheEndOfWhatWasSaid) {
  const test::TempDir dir;
  const ProcessResult result = run_process(
      {"sh", "-c",
       "i=0; while [ $i -lt 9000 ]; do echo 0123456789 $i >&2; i=$((i + 1)); done; echo 'code E' >&2"},
      dir.path);
  EXPECT_TRUE(result.errors.ends_with("0123456789 8999\ncode E\n"));
  EXPECT_LE(result.errors.size(), 65536U);
  EXPECT_GE(result.errors.size(), 32768U);
  EXPECT_EQ(result.last_error, "code E");
}

// With its standard error open, talking, or closed: the time comes round all the same.
TEST(Process, TellsThatItRuns) {
  using namespace std::chrono_literals;
  const test::TempDir dir;
  for (const char* script : {"sleep 0.5", "exec 2>&-; sleep 0.5",
                             "i=0; while [ $i -lt 50 ]; do echo x >&2; sleep 0.01; i=$((i + 1)); done"}) {
    std::vector<std::chrono::steady_clock::duration> ticks;
    const ProcessResult result = run_process(
        {"sh", "-c", script}, dir.path, [&](auto elapsed) { ticks.push_back(elapsed); }, 100ms);
    EXPECT_EQ(result.exit_code, 0);
    ASSERT_GE(ticks.size(), 2U) << script;  // 4 or 5 on an idle machine
    EXPECT_GE(ticks[0], 100ms);
    for (std::size_t i = 1; i < ticks.size(); ++i) EXPECT_GE(ticks[i] - ticks[i - 1], 100ms) << script;
  }
}

TEST(Process, EndsWithTheTickThatThrows) {
  using namespace std::chrono_literals;
  const test::TempDir dir;
  const auto begin = std::chrono::steady_clock::now();
  const auto stop = [&](auto) {
    std::error_code ignored;
    if (std::filesystem::file_size(dir / "pid", ignored) > 0 && !ignored) throw std::runtime_error("stop");
  };
  EXPECT_THROW(run_process({"sh", "-c", "echo $$ > pid; exec sleep 60"}, dir.path, stop, 50ms),
               std::runtime_error);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  const std::string pid = read_file(dir / "pid");
  EXPECT_NE(run_process({"kill", "-0", pid.substr(0, pid.size() - 1)}, dir.path).exit_code, 0);  // it is gone
}

}  // namespace
}  // namespace plumb
