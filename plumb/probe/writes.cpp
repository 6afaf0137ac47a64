// What the two branches of each block write to the residual stream: its std, and its rms over that of the
// stream that it is added to. In a parallel block both branches are added to blocks.{i}.in.
#include <cmath>

#include "plumb/kernel/rows.h"
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct Written {
  Moments attn, ffn;
  Mean in, mid;  // of squares
  std::int64_t count = 0;
  void merge(const Written& o) {
    attn.merge(o.attn), ffn.merge(o.ffn), in.merge(o.in), mid.merge(o.mid);
    count += o.count;
  }
};

double ratio(const Moments& write, const Mean& stream) {
  return std::sqrt((write.mean * write.mean + write.variance()) / stream.value());
}

constexpr Number<Written> written_numbers[] = {
    {"attn_write_std", [](const Written& w) { return w.attn.std(); }},
    {"ffn_write_std", [](const Written& w) { return w.ffn.std(); }},
    {"attn_write_ratio", [](const Written& w) { return ratio(w.attn, w.in); }},
    {"ffn_write_ratio", [](const Written& w) { return ratio(w.ffn, w.mid.count > 0 ? w.mid : w.in); }},
};

class Writes final : public BlockProbe<Written> {
 public:
  using BlockProbe::BlockProbe;
  bool wants(std::string_view point, Dir dir) const override {
    return dir == Dir::forward && (index_of(point, in) >= 0 || index_of(point, attn) >= 0 ||
                                   index_of(point, mid) >= 0 || index_of(point, ffn) >= 0);
  }
  void at(std::string_view point, Dir, View<float> v, int shard) override {
    Written w;
    w.count = v.size();
    const auto squares = [&] { return Mean{sum_squares<float>(v), v.size()}; };
    if (const int i = index_of(point, attn); i >= 0) {
      w.attn = moments<float>(v);
      parts_.add(shard, i, w);
    } else if (const int i = index_of(point, ffn); i >= 0) {
      w.ffn = moments<float>(v);
      parts_.add(shard, i, w);
    } else if (const int i = index_of(point, in); i >= 0) {
      w.in = squares();
      parts_.add(shard, i, w);
    } else {
      w.mid = squares();
      parts_.add(shard, index_of(point, mid), w);
    }
  }
  void write(StepRow& row) const override {
    for (const auto& n : written_numbers) write_number(row, n, parts_.total(), true);
  }

 private:
  static constexpr std::string_view in = "blocks.{i}.in", attn = "blocks.{i}.attn.write",
                                    mid = "blocks.{i}.mid", ffn = "blocks.{i}.ffn.write";
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry writes =
    probe_entry<Writes>("writes", "std of what branches write, and its rms over the stream's");
}  // namespace entries::probe

}  // namespace plumb
