// Standard deviation of what each block's first norm reads, wherever its place is. Compare with sqrt(norm_eps).
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

class NormInput final : public Probe {
 public:
  explicit NormInput(const DecoderSpec& s) : moments_(s.n_layer) {}
  bool wants(std::string_view point, Dir dir) const override { return dir == Dir::forward && layer_of(point, ".attn.norm_in") >= 0; }
  void begin(int n_shard) override { moments_.begin(n_shard); }
  void at(std::string_view point, Dir, View<float> v, int shard) override {
    moments_.add(shard, static_cast<std::size_t>(layer_of(point, ".attn.norm_in")), v);
  }
  void merge(int) override { moments_.merge(); }
  void write(StepRow& row) const override { row.layers.emplace_back("norm_in_std", moments_.std()); }

 private:
  LayerMoments moments_;
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry norm_input{
    .name = "norm_input",
    .measures = "std of blocks.{i}.attn.norm_in",
    .make = [](const DecoderSpec& s) -> std::unique_ptr<Probe> { return std::make_unique<NormInput>(s); },
};
}  // namespace entries::probe

}  // namespace plumb
