// What a parameter is for. The one list of roles: config names them ([train.lr_scale]), components give them, init and
// optimiser read them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plumb {

enum class Role : std::uint8_t {
  token_embed,
  pos_embed,
  embed_proj,
  q,
  k,
  v,
  attn_out,
  ffn_in,
  ffn_gate,
  ffn_out,
  router,
  readout,
  bias,
  norm_gain,
  norm_bias,
  residual_gain,
  score_bias,
  scalar
};

/// Their names, in the order of the enumeration.
inline constexpr std::array<std::string_view, 18> role_names{
    "token_embed", "pos_embed",     "embed_proj", "q",      "k",       "v",    "attn_out",
    "ffn_in",      "ffn_gate",      "ffn_out",    "router", "readout", "bias", "norm_gain",
    "norm_bias",   "residual_gain", "score_bias", "scalar"};
static_assert(role_names[static_cast<std::size_t>(Role::scalar)] == "scalar" &&
              role_names[static_cast<std::size_t>(Role::bias)] == "bias");

inline constexpr std::size_t n_role = role_names.size();

/// A number for each role, 1 unless somebody says otherwise.
struct ByRole {
  std::array<double, n_role> values;
  constexpr ByRole() { values.fill(1.0); }
  double& operator[](Role r) { return values[static_cast<std::size_t>(r)]; }
  double operator[](Role r) const { return values[static_cast<std::size_t>(r)]; }
};

}  // namespace plumb
