// Mean entropy of attention rows, nats; position 0, which sees one key, counts as 0.
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

class Entropy final : public Probe {
 public:
  explicit Entropy(const DecoderSpec& s) : moments_(s.n_layer) {}
  bool wants(std::string_view point, Dir dir) const override { return dir == Dir::forward && layer_of(point, ".attn.entropy") >= 0; }
  void begin(int n_shard) override { moments_.begin(n_shard); }
  void at(std::string_view point, Dir, View<float> v, int shard) override {
    moments_.add(shard, static_cast<std::size_t>(layer_of(point, ".attn.entropy")), v);
  }
  void merge(int) override { moments_.merge(); }
  void write(StepRow& row) const override { row.layers.emplace_back("attn_entropy", moments_.mean()); }

 private:
  LayerMoments moments_;
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry entropy{
    .name = "entropy",
    .measures = "mean entropy of the attention weights, in nats",
    .make = [](const DecoderSpec& s) -> std::unique_ptr<Probe> { return std::make_unique<Entropy>(s); },
};
}  // namespace entries::probe

}  // namespace plumb
