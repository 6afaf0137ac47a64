#include "plumb/base/process.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace plumb
