#include "tests/support/reference.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <type_traits>

namespace plumb::test {

namespace {

using nlohmann::json;

Tensor read_tensor(const json& j, const std::string& name) {
  if (j.is_number()) return {name, {}, {j.get<double>()}};
  Tensor t{name, j.at("shape").get<std::vector<std::int64_t>>(), j.at("data").get<std::vector<double>>()};
  std::int64_t size = 1;
  for (std::int64_t n : t.shape) size *= n;
  if (size != static_cast<std::int64_t>(t.data.size()))
    throw std::runtime_error(name + ": the shape and the number of elements differ");
  return t;
}

std::map<std::string, Tensor> read_tensors(const json& j, const std::string& prefix) {
  std::map<std::string, Tensor> all;
  for (const auto& [key, value] : j.items()) {
    if (value.is_number() || value.contains("shape"))
      all[key] = read_tensor(value, prefix + key);
    else if (value.is_object())  // a group of them: "single.N12.alpha"
      for (auto& [inner, tensor] : read_tensors(value, prefix + key + "."))
        all[(key + ".").append(inner)] = std::move(tensor);
  }
  return all;
}

Entry read_entry(const json& j, const std::string& name) {
  Entry e;
  e.name = name;
  for (const auto& [key, value] : j.at("params").items())
    if (value.is_number()) e.params[key] = value.get<double>();
  e.inputs = read_tensors(j.at("inputs"), name + ": input ");
  e.outputs = read_tensors(j.at("outputs"), name + ": output ");
  e.grads = read_tensors(j.at("grads"), name + ": gradient of ");
  e.rtol = j.at("tol").at("rtol").get<double>();
  e.atol = j.at("tol").at("atol").get<double>();
  return e;
}

std::map<std::string, Entry> read_all() {
  const std::string path = PLUMB_TEST_DATA "/reference.json";
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::map<std::string, Entry> all;
  const json parsed = json::parse(file);
  for (const auto& [name, value] : parsed.items()) all[name] = read_entry(value, name);
  return all;
}

template <class T>
const T& find(const std::map<std::string, T>& in, const std::string& name, const std::string& where) {
  if (const auto it = in.find(name); it != in.end()) return it->second;
  std::string known;
  for (const auto& [key, value] : in) known += " " + key;
  throw std::runtime_error(where + " has no '" + name + "'; it has:" + known);
}

}  // namespace

double Tensor::scalar() const {
  if (data.size() != 1)
    throw std::runtime_error(name + " has " + std::to_string(data.size()) + " elements, not one");
  return data[0];
}

std::int64_t Tensor::dim(std::size_t i) const { return shape.at(i); }

std::vector<std::int32_t> Tensor::ids() const {
  std::vector<std::int32_t> out;
  for (double x : data) out.push_back(static_cast<std::int32_t>(x));
  return out;
}

const Tensor& Entry::in(const std::string& tensor) const { return find(inputs, tensor, name + ", inputs"); }
const Tensor& Entry::out(const std::string& tensor) const {
  return find(outputs, tensor, name + ", outputs");
}
const Tensor& Entry::grad(const std::string& tensor) const {
  return find(grads, tensor, name + ", gradients");
}
double Entry::param(const std::string& param) const { return find(params, param, name + ", params"); }

const Entry& reference(const std::string& name) {
  static const std::map<std::string, Entry> all = read_all();
  return find(all, name, "the reference file");
}

template <class R>
Tolerance tolerance(const Entry& entry, What what) {
  if (std::is_same_v<R, double>) return {entry.rtol, entry.atol};
  // A float near 1.001 is off by up to 6e-8, the deviations of that row from its mean are 2.5e-4 and 7.5e-4:
  // no kernel can answer better than 2e-4 where eps does not hide it.
  if (entry.name == "layernorm_eps_0" || entry.name == "layernorm_eps_1e-12" ||
      entry.name == "layernorm_constant_row")
    return {1e-3, 1e-3};
  if (entry.name.starts_with("layernorm_eps_")) return {2e-4, 2e-6};
  if (what == What::gradient || entry.name.starts_with("tiny_decoder_")) return {2e-4, 2e-5};
  return {2e-5, 2e-6};
}
template Tolerance tolerance<float>(const Entry&, What);
template Tolerance tolerance<double>(const Entry&, What);

testing::AssertionResult close(std::span<const double> got, const Tensor& want, Tolerance tolerance) {
  if (got.size() != want.data.size())
    return testing::AssertionFailure()
           << want.name << " has " << want.data.size() << " elements, got " << got.size();
  std::size_t worst = 0, wrong = 0;
  double worst_excess = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double w = want.data[i], limit = tolerance.atol + tolerance.rtol * std::abs(w);
    if (got[i] == w || (std::isnan(got[i]) && std::isnan(w))) continue;
    const double difference = std::abs(got[i] - w);
    if (difference <= limit) continue;
    const double excess = std::isfinite(difference) ? difference / limit : INFINITY;
    if (++wrong == 1 || excess > worst_excess) worst = i, worst_excess = excess;
  }
  if (wrong == 0) return testing::AssertionSuccess();
  std::string index;  // row-major position, as [i, j, ...]
  std::int64_t rest = static_cast<std::int64_t>(worst);
  for (std::size_t d = want.shape.size(); d-- > 0; rest /= want.shape[d])
    index = std::to_string(rest % want.shape[d]) + (index.empty() ? "" : ", ") + index;
  char numbers[200];
  std::snprintf(numbers, sizeof numbers, "is %.17g, expected %.17g (difference %.3g, limit %.3g)", got[worst],
                want.data[worst], std::abs(got[worst] - want.data[worst]),
                tolerance.atol + tolerance.rtol * std::abs(want.data[worst]));
  return testing::AssertionFailure() << want.name << "[" << index << "] " << numbers << "; " << wrong
                                     << " of " << got.size() << " elements differ";
}

}  // namespace plumb::test
