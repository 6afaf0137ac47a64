#include "plumb/model/placement.h"

namespace plumb {

const std::vector<Placement>& placements() {
  static const std::vector<Placement> all = {
      {.name = "parallel",
       .before = true,
       .parallel = true,
       .formula = "y = x + f(N1(x)) + g(N2(x))",
       .paper = "Wang & Komatsuzaki 2021 (GPT-J); two norms: Black et al. 2022 (GPT-NeoX), arXiv 2204.06745"},
      {.name = "post",
       .after_add = true,
       .formula = "y = N(x + f(x))",
       .paper = "Vaswani et al. 2017, arXiv 1706.03762"},
      {.name = "pre",
       .before = true,
       .formula = "y = x + f(N(x))",
       .paper = "Radford et al. 2019 (GPT-2); Xiong et al. 2020, arXiv 2002.04745"},
  };
  return all;
}

}  // namespace plumb
