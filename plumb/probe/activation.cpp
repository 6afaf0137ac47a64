// Standard deviation of the residual stream after each block, over all its elements.
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

class Activation final : public Probe {
 public:
  explicit Activation(const DecoderSpec& s) : moments_(s.n_layer) {}
  bool wants(std::string_view point, Dir dir) const override { return dir == Dir::forward && layer_of(point, ".out") >= 0; }
  void begin(int n_shard) override { moments_.begin(n_shard); }
  void at(std::string_view point, Dir, View<float> v, int shard) override {
    moments_.add(shard, static_cast<std::size_t>(layer_of(point, ".out")), v);
  }
  void merge(int) override { moments_.merge(); }
  void write(StepRow& row) const override { row.layers.emplace_back("act_std", moments_.std()); }

 private:
  LayerMoments moments_;
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry activation{
    .name = "activation",
    .measures = "std of blocks.{i}.out",
    .make = [](const DecoderSpec& s) -> std::unique_ptr<Probe> { return std::make_unique<Activation>(s); },
};
}  // namespace entries::probe

}  // namespace plumb
