// TensorBoard event files: TFRecord framing around Event messages.
#pragma once
#include <string_view>

#include "plumb/interop/scalars.h"

namespace plumb {

/// Adds the scalars of one event file (Summary values with a simple_value, or a float or double tensor of one
/// element) to `log`; histograms, images, text and other tensors are passed over. Records are checked against
/// their CRC-32C. bad_input, with the byte offset, for a file that is none or is damaged; a last record that
/// is cut off is left out and said in the log's warning. Formats: tensorflow/core/lib/io/record_writer.h,
/// core/util/event.proto, core/framework/summary.proto and tensor.proto.
void read_tensorboard(std::string_view bytes, std::string_view name, ScalarLog& log);

/// Whether the file looks like one: its first record is an event whose length and checksum agree.
bool is_tensorboard(std::string_view bytes);

}  // namespace plumb
