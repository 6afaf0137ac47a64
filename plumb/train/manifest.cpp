#include "plumb/train/manifest.h"

#include <fstream>
#include <thread>

#include "plumb/base/files.h"
#include "plumb/base/sha256.h"
#include "plumb/kernel/matmul.h"
#include "plumb/kernel/peak.h"
#include "plumb/version.h"

namespace plumb {
namespace {

// The first "model name" line of the system's description of the processor.
std::string processor() {
  std::ifstream f("/proc/cpuinfo");
  for (std::string line; std::getline(f, line);)
    if (line.starts_with("model name"))
      if (const auto at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
  return "unknown";
}

}  // namespace

Json manifest(const Config& resolved, const Corpus& corpus) {
  Json m = Json::object();
  m["plumb"] = std::string(kVersion);
  m["compiler"] = std::string("g++ " __VERSION__);
  m["corpus"] = corpus.name;
  m["corpus_sha256"] = corpus.sha256;
  m["config_sha256"] = sha256_hex(dump_toml(resolved, false));
  m["binary_sha256"] = sha256_hex(read_file("/proc/self/exe"));
  m["processor"] = processor();
  m["processors"] = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  m["target"] = simd_target();
  return m;
}

}  // namespace plumb
