// TensorBoard event files: TFRecord framing around Event messages.
#pragma once
#include <string_view>
#include <vector>

#include "plumb/interop/scalars.h"

namespace plumb {

/// The scalars of one event file (Summary values with a simple_value or a one-element float or double
/// tensor); histograms, images and text are passed over. Records are checked against their CRC-32C.
/// bad_input, with the byte offset, for a file that is none or is damaged; a last record that is cut off is
/// left out and said in `warning`. Formats: tensorflow/core/lib/io/record_writer.h, core/util/event.proto,
/// core/framework/summary.proto and tensor.proto.
std::vector<Scalar> read_tensorboard(std::string_view bytes, std::string_view name, std::string& warning);

/// Whether the file looks like one: its first record is an event whose length and checksum agree.
bool is_tensorboard(std::string_view bytes);

}  // namespace plumb
