// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/DataFlags.h"

#include "runtime/BoundedJSON.h"
#include "runtime/train/data/CSV.h"
#include "runtime/train/support/Text.h"
#include "tools/mpc/print/Notes.h"
#include "tools/mpc/print/ReadProgress.h"

#include "llvm/ADT/STLExtras.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

void mpc::tools::addDataFlags(CLI::App &app, DataFlags &flags) {
  app.add_option(
         "--data", flags.data,
         "arrays named like the model's inputs: npz, npy, safetensors, idx or "
         "csv, also compressed by gzip; NAME=FILE names the array of a file "
         "with one array, NAME=FILE:ARRAY any array; also an image, or a "
         "folder "
         "of images or .npy samples, with a subfolder per label or with "
         "subfolders images and masks: NAME=FOLDER if several inputs could "
         "take it (repeatable: arrays of one name are joined)")
      ->required()
      ->allow_extra_args(false)
      ->type_name("FILE");
  addPreparationFlags(app, flags);
}

void mpc::tools::addPreparationFlags(CLI::App &app, DataFlags &flags) {
  // NAME may be left out if the model has only one input that the flag can
  // apply to.
  app.add_option("--csv-columns", flags.csvColumns,
                 "csv columns that form one input: NAME=a,b, or NAME=a:d for "
                 "all columns from a to d (repeatable)")
      ->allow_extra_args(false)
      ->type_name("NAME=COLUMNS");
  app.add_option("--normalize", flags.normalize,
                 "compute (x - MEAN) / STD: each is one number, or one per "
                 "channel with commas between; u8 is divided by 255 first; "
                 "imagenet: the numbers of ImageNet (repeatable)")
      ->allow_extra_args(false)
      ->type_name("[NAME=]MEAN:STD");
  app.add_option("--input-layout", flags.inputLayout,
                 "position of the channel axis in an input's arrays: "
                 "channels-first or channels-last (repeatable)")
      ->allow_extra_args(false)
      ->type_name("[NAME=]LAYOUT");
  app.add_flag("--allow-nan", flags.allowsNaN,
               "allow NaN and infinity in inputs, such as missing values that "
               "the model masks");
  app.add_flag("--allow-empty", flags.allowsEmpty,
               "allow labels whose folder has no samples, such as a label that "
               "only the training data has");
}

void mpc::tools::addAugmentFlag(CLI::App &app, DataFlags &flags) {
  app.add_option("--augment", flags.augment,
                 "change training images at random: flip (left to right), "
                 "crop:PADDING (pad each side with PADDING zeros, then crop "
                 "to the old size)")
      ->type_name("flip,crop:P");
}

StatusOr<Preparation> mpc::tools::preparationOf(const DataFlags &flags,
                                                uint64_t seed) {
  StatusOr<Preparation> preparation =
      parsePreparation(flags.normalize, flags.inputLayout, flags.augment, seed);
  if (preparation.ok())
    preparation->allowsNaN = flags.allowsNaN;
  return preparation;
}

StatusOr<DatasetOptions> mpc::tools::datasetOptionsOf(const DataFlags &flags,
                                                      const TraineeInfo &info,
                                                      std::string targetArray,
                                                      uint64_t seed) {
  DatasetOptions options = datasetOptionsFor(info);
  options.targetArray = std::move(targetArray);
  StatusOr<Preparation> preparation = preparationOf(flags, seed);
  if (!preparation.ok())
    return preparation.status();
  options.preparation = std::move(*preparation);
  return options;
}

Status mpc::tools::checkDataFlags(const DataFlags &flags,
                                  const std::vector<std::string> &more) {
  for (const auto *files : {&flags.data, &more})
    if (Status status = Dataset::checkFiles(*files); !status.ok())
      return status;
  for (const auto *files : {&flags.data, &more})
    for (const std::string &file : *files)
      if (llvm::StringRef(file).ends_with(".onnx"))
        return Status(StatusCode::Usage,
                      "--data " + file +
                          ": is a model, not data; the model goes first, such "
                          "as mpc train " +
                          file + " --data FILE");
  if (!flags.csvColumns.empty() && llvm::none_of(flags.data, isReadableCSV))
    return Status(StatusCode::Usage, "--csv-columns has no effect: no file of "
                                     "--data is called *.csv or *.csv.gz");
  return preparationOf(flags, /*seed=*/0).status();
}

StatusOr<std::vector<Array>>
mpc::tools::readSamples(const std::vector<std::string> &files,
                        const DataFlags &flags,
                        const std::string &targetArray) {
  DataFileOptions options;
  options.csvColumns = flags.csvColumns;
  options.targetArray = targetArray;
  options.allowsEmpty = flags.allowsEmpty;
  ReadProgress progress;
  options.observer = &progress;
  return readDataFiles(files, options);
}

StatusOr<Dataset> mpc::tools::createDataset(std::vector<Array> arrays,
                                            const FunctionPorts &ports,
                                            DatasetOptions options) {
  ReadProgress progress;
  options.observer = &progress;
  return Dataset::create(std::move(arrays), ports, options);
}

// Leave out --augment: random changes of samples happen only in training.
std::string mpc::tools::describePreparation(llvm::StringRef text) {
  text = text.take_front(text.find("; --augment"));
  text.consume_front("; ");
  return text.str();
}

void mpc::tools::comparePreparation(const std::string &what,
                                    llvm::StringRef trained,
                                    llvm::StringRef now, llvm::StringRef done) {
  if (trained == now)
    return;
  const auto describe = [](llvm::StringRef text) {
    return text.empty() ? std::string("neither --normalize nor --input-layout")
                        : abbreviated(text.str());
  };
  warn(what + " was trained with " + describe(trained) + ", and is " + done +
       " with " + describe(now));
}

void mpc::tools::printDataNotes(const Dataset &data) {
  for (const std::string &text : data.notes())
    note(text);
}
