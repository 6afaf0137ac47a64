// Standard deviation of the mean loss's gradient at each block's output, before clipping.
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

class Gradient final : public Probe {
 public:
  explicit Gradient(const DecoderSpec& s) : moments_(s.n_layer) {}
  bool wants(std::string_view point, Dir dir) const override { return dir == Dir::backward && layer_of(point, ".out") >= 0; }
  void begin(int n_shard) override { moments_.begin(n_shard); }
  void at(std::string_view point, Dir, View<float> v, int shard) override {
    moments_.add(shard, static_cast<std::size_t>(layer_of(point, ".out")), v);
  }
  void merge(int) override { moments_.merge(); }
  void write(StepRow& row) const override { row.layers.emplace_back("grad_std", moments_.std()); }

 private:
  LayerMoments moments_;
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry gradient{
    .name = "gradient",
    .measures = "std of the gradient at blocks.{i}.out",
    .make = [](const DecoderSpec& s) -> std::unique_ptr<Probe> { return std::make_unique<Gradient>(s); },
};
}  // namespace entries::probe

}  // namespace plumb
