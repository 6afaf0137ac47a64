// Whole short runs: the run folder, the same bits under every circumstance, and a stop on a non-finite value.
#include "plumb/train/trainer.h"

#include <gtest/gtest.h>

#include "plumb/base/files.h"
#include "plumb/model/decoder.h"
#include "plumb/optim/optim.h"
#include "plumb/spec/from_config.h"
#include "plumb/trace/reader.h"
#include "plumb/train/checkpoint.h"
#include "tests/support/error_text.h"
#include "tests/support/small_run.h"
#include "tests/support/temp_dir.h"

namespace plumb {
namespace {

using test::after;
using test::made_up_text;
using test::run;
using test::small_config;

TEST(Train, LearnsAndLeavesAWholeRunFolder) {
  test::TempDir dir;
  const TrainResult r = run(small_config(), dir / "run");
  EXPECT_EQ(r.status, "done");
  EXPECT_EQ(r.steps, 60);
  EXPECT_NEAR(r.initial_loss, r.baselines.uniform, 0.3);
  EXPECT_LT(r.val_loss, r.baselines.unigram - 0.5);

  const Trace trace = read_trace(dir / "run/trace.jsonl");
  EXPECT_TRUE(trace.warning.empty());
  ASSERT_NE(trace.fact("placement"), nullptr);
  EXPECT_EQ(*trace.fact("placement"), Json("pre"));
  int losses = 0, probed = 0;
  for (const StepRow& row : trace.steps) {
    losses += row.find("loss") != nullptr;
    if (const auto* act = row.find_layers("act_std")) {
      ++probed;
      ASSERT_EQ(act->size(), 2u);
      EXPECT_GT(act->at(1), act->at(0) * 0.5);
      EXPECT_GT(row.find_layers("grad_std")->at(0), 0);
      // Over its largest possible: never above 1, and a model that has hardly begun attends almost uniformly.
      EXPECT_GT(row.find_layers("attn_entropy")->at(0), 0.3);
      EXPECT_LE(row.find_layers("attn_entropy")->at(0), 1.0);
      EXPECT_GT(row.find_layers("update_ratio")->at(0), 0);
      ASSERT_NE(row.find("adjacent_kl"), nullptr);
      EXPECT_GE(*row.find("adjacent_kl"), 0);
    }
  }
  EXPECT_EQ(losses, 60);
  EXPECT_EQ(probed, 6);
  EXPECT_TRUE(std::filesystem::exists(dir / "run/checkpoint-60.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(dir / "run/checkpoint-20.safetensors"));  // keep_checkpoints = 2
  const Json m = Json::parse(read_file(dir / "run/manifest.json"), "manifest");
  EXPECT_EQ(m.at("params_hash", "manifest").as_string("params_hash"), r.params_hash);
  EXPECT_FALSE(m.at("products", "manifest").as_array("products").empty());
  EXPECT_EQ(load_config(dir / "run/config.toml").train.steps, 60);
}

class SameBits : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Train, SameBits, testing::Values("train.dropout=0", "train.dropout=0.2"));

TEST_P(SameBits, HoweverTheWorkIsCut) {
  test::TempDir dir;
  Config base = small_config();
  set_value(base, GetParam());
  const std::string hash = run(base, dir / "base").params_hash;
  auto with = [&](std::initializer_list<const char*> sets, bool probed = true) {
    Config c = base;
    for (const char* s : sets) set_value(c, s);
    return run(c, dir / std::to_string(std::rand()), probed).params_hash;
  };
  EXPECT_EQ(with({"train.threads=1"}), hash);
  EXPECT_EQ(with({"train.threads=4"}), hash);
  EXPECT_EQ(with({"train.batch_size=3", "train.accumulate=4"}), hash);
  EXPECT_EQ(with({}, false), hash);
  EXPECT_EQ(with({"train.recompute=1"}), hash);
  EXPECT_NE(with({"train.seed=1"}), hash);
}

TEST(Train, DropoutMakesAnotherRun) {
  test::TempDir dir;
  Config c = small_config();
  const std::string hash = run(c, dir / "without").params_hash;
  set_value(c, "train.dropout=0.2");
  EXPECT_NE(run(c, dir / "with").params_hash, hash);
}

TEST(Train, ACheckpointHoldsTheWholeStateAndTheSameStateIsTheSameBytes) {
  test::TempDir dir;
  const TrainResult r = run(small_config(), dir / "a");
  run(small_config(), dir / "b");
  const auto file = dir / "a/checkpoint-60.safetensors";
  EXPECT_EQ(read_file(file), read_file(dir / "b/checkpoint-60.safetensors"));
  const CheckpointInfo info = read_checkpoint_info(file);
  EXPECT_EQ(info.step, 60);
  EXPECT_EQ(info.config.train.steps, 60);
  ParamStore<float> store(decoder_layout<float>(info.spec, Components{}), 99);
  const auto optimizer = choose_optimizer(optim_table(), "adamw").make<float>(store.layout(), {}, 1);
  EXPECT_NE(store.hash(), r.params_hash);
  load_checkpoint(file, store, *optimizer);
  EXPECT_EQ(store.hash(), r.params_hash);
  EXPECT_EQ(optimizer->steps(), 60);
  const View<float> v = optimizer->state(store.layout().find("blocks.1.ffn.out.weight"))[1].view;
  EXPECT_GT(v.data[0], 0);

  DecoderSpec wider = info.spec;
  wider.d_ff = 65;
  ParamStore<float> other(decoder_layout<float>(wider, Components{}), 0);
  const auto other_optimizer = choose_optimizer(optim_table(), "adamw").make<float>(other.layout(), {}, 1);
  try {
    load_checkpoint(file, other, *other_optimizer);
    FAIL() << "a checkpoint of another model was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code, 2);
    EXPECT_NE(
        std::string(e.what()).find("blocks.0.ffn.in.weight has shape (64, 32), the model wants (65, 32)"),
        std::string::npos)
        << e.what();
  }
}

TEST(Train, ANonFiniteValueStopsBeforeTheUpdateAndIsNamed) {
  test::TempDir dir;
  Config c = small_config();
  set_value(c, "train.lr=1e30");
  set_value(c, "train.warmup=0");
  const TrainResult r = run(c, dir / "run");
  EXPECT_EQ(r.status, "non_finite");
  EXPECT_GT(r.steps, 0);
  EXPECT_NE(r.reason.find("the first tensor that is not finite is "), std::string::npos) << r.reason;
  const Trace trace = read_trace(dir / "run/trace.jsonl");
  ASSERT_NE(trace.fact("non_finite"), nullptr);
}

TEST(Train, AnInterruptLeavesACheckpoint) {
  test::TempDir dir;
  const TrainResult r = run(small_config(), dir / "run", true, after(7));
  EXPECT_EQ(r.status, "interrupted");
  EXPECT_EQ(r.steps, 7);
  EXPECT_EQ(read_checkpoint_info(dir / "run/checkpoint-7.safetensors").step, 7);
}

// Validation leaves the training as it was: dropout is on in the step after it, and running statistics are those of training.
TEST(Train, AStepAfterValidationIsAStepWithoutIt) {
  test::TempDir dir;
  for (const char* norm : {"layer", "batch"}) {
    Config c = small_config();
    for (const char* s : {"train.steps=12", "train.dropout=0.2", "train.eval_every=0"}) set_value(c, s);
    set_value(c, std::string("model.norm=") + norm);
    const TrainResult without = run(c, dir / (std::string("without-") + norm));
    set_value(c, "train.eval_every=3");
    EXPECT_EQ(run(c, dir / (std::string("with-") + norm)).params_hash, without.params_hash) << norm;
  }
}

// Whatever the step: the same parameters, and the same bytes of trace and checkpoint, as without a stop.
TEST(Train, AResumedRunIsTheUninterruptedRunToTheByte) {
  test::TempDir dir;
  Config c = small_config();
  set_value(c, "train.steps=40");
  set_value(c, "train.eval_every=20");
  const TrainResult whole = run(c, dir / "whole");
  // Measured from one look to the next, so the checkpoint remembers the last one.
  EXPECT_NE(read_file(dir / "whole/trace.jsonl").find("\"ffn_revived\""), std::string::npos);
  for (const int stop : {0, 1, 20, 33, 40}) {
    const auto out = dir / ("stopped" + std::to_string(stop));
    run(c, out, true, after(stop));
    if (stop == 1)
      run(resume_job(out, {"train.threads=1"}), true, after(7));  // changed once, and stopped again
    const TrainResult r = run(resume_job(out, {"train.threads=1"}));
    EXPECT_EQ(r.params_hash, whole.params_hash) << stop;
    EXPECT_EQ(r.val_loss, whole.val_loss) << stop;
    EXPECT_EQ(r.train_loss, whole.train_loss) << stop;
    EXPECT_EQ(r.initial_loss, whole.initial_loss) << stop;
    EXPECT_EQ(read_file(out / "trace.jsonl"), read_file(dir / "whole/trace.jsonl")) << stop;
  }
}

// As after kill -9: rows of steps that no checkpoint knows of, the last torn, and no newer checkpoint.
TEST(Train, ARunThatWasKilledGoesOnFromItsLastCheckpoint) {
  test::TempDir dir;
  Config c = small_config();
  set_value(c, "train.steps=40");
  const TrainResult whole = run(c, dir / "whole");
  run(c, dir / "run", true, after(35));
  std::filesystem::remove(dir / "run/checkpoint-35.safetensors");
  const std::string trace = read_file(dir / "run/trace.jsonl");
  write_file_atomic(dir / "run/trace.jsonl", std::string_view(trace).substr(0, trace.size() - 9));
  const TrainResult r = run(resume_job(dir / "run", {}));
  EXPECT_EQ(r.params_hash, whole.params_hash);
  EXPECT_EQ(read_file(dir / "run/trace.jsonl"), read_file(dir / "whole/trace.jsonl"));

  // A damaged newest checkpoint is left for the one before it, and that is said.
  std::string bytes = read_file(dir / "run/checkpoint-40.safetensors");
  write_file_atomic(dir / "run/checkpoint-40.safetensors",
                    std::string_view(bytes).substr(0, bytes.size() / 2));
  const TrainJob job = resume_job(dir / "run", {});
  EXPECT_EQ(job.remarks.size(), 1u);
  EXPECT_EQ(run(job).params_hash, whole.params_hash);
}

TEST(Train, ResumeRefusesWhatWouldChangeTheResult) {
  test::TempDir dir;
  run(small_config(), dir / "run", true, after(5));
  const auto refusal = [&](auto f) { return test::error_text(f); };
  EXPECT_NE(refusal([&] {
              resume_job(dir / "run", {"train.lr=1"});
            }).find("train.lr cannot change when a run is resumed"),
            std::string::npos);
  std::string toml = read_file(dir / "run/config.toml");
  toml.replace(toml.find("steps = 60"), 10, "steps = 61");
  write_file_atomic(dir / "run/config.toml", toml);
  EXPECT_NE(refusal([&] { resume_job(dir / "run", {}); }).find("train.steps = 61 in "), std::string::npos);
  EXPECT_NE(refusal([&] { resume_job(dir / "nothing", {}); }).find("there is no run "), std::string::npos);
  std::filesystem::create_directories(dir / "empty");
  EXPECT_NE(refusal([&] { resume_job(dir / "empty", {}); }).find("holds no checkpoint"), std::string::npos);
}

TEST(Train, AnotherTextIsNotResumed) {
  test::TempDir dir;
  run(small_config(), dir / "run", true, after(5));
  Corpus other = made_up_text();
  other.sha256 = "another";
  const std::string before = read_file(dir / "run/trace.jsonl");
  const std::string said =
      test::error_text([&] { train(resume_job(dir / "run", {}), Components{}, other, TrainEvents{}); });
  EXPECT_NE(said.find("is not the one that "), std::string::npos) << said;
  EXPECT_EQ(read_file(dir / "run/trace.jsonl"), before);
}

TEST(Train, FromTakesTheWeightsAloneAndFrozenRolesStay) {
  test::TempDir dir;
  run(small_config(), dir / "a");
  Config c = small_config();
  for (const char* s : {"train.steps=5", "model.placement=post", "model.final_norm=false", "train.warmup=0",
                        "train.lr_scale.token_embed=0", "train.lr_scale.ffn_in=0.1"})
    set_value(c, s);
  run(TrainJob{.config = c, .out = dir / "b", .from = dir / "a"});
  const CheckpointInfo info = read_checkpoint_info(dir / "b/checkpoint-5.safetensors");
  ParamStore<float> a(
      decoder_layout<float>(read_checkpoint_info(dir / "a/checkpoint-60.safetensors").spec, Components{}), 1),
      b(decoder_layout<float>(info.spec, Components{}), 1);
  const auto oa = choose_optimizer(optim_table(), "adamw").make<float>(a.layout(), {}, 1);
  const auto ob = choose_optimizer(optim_table(), "adamw").make<float>(b.layout(), {}, 1);
  load_checkpoint(dir / "a/checkpoint-60.safetensors", a, *oa);
  load_checkpoint(dir / "b/checkpoint-5.safetensors", b, *ob);
  const auto moved = [&](const char* name) {
    const View<float> x = a.param(name), y = b.param(name);
    double d = 0;
    for (std::int64_t i = 0; i < x.size(); ++i) d = std::max<double>(d, std::abs(x.data[i] - y.data[i]));
    return d;
  };
  EXPECT_EQ(moved("embed.weight"), 0);
  // Five updates of AdamW at lr 3e-3, each at most about lr (Kingma & Ba 2015, section 2.1); a tenth of that.
  EXPECT_GT(moved("blocks.0.ffn.out.weight"), 3e-3);
  EXPECT_LT(moved("blocks.0.ffn.in.weight"), 5 * 3e-4 * 1.5);
  EXPECT_GT(moved("blocks.0.ffn.in.weight"), 3e-4);

  Config wider = small_config();
  set_value(wider, "model.d_ff=65");
  const std::string said =
      test::error_text([&] { run(TrainJob{.config = wider, .out = dir / "c", .from = dir / "a"}); });
  EXPECT_NE(said.find("blocks.0.ffn.in.weight has shape (64, 32), the new model's is (65, 32)"),
            std::string::npos)
      << said;
  EXPECT_FALSE(std::filesystem::exists(dir / "c"));
}

TEST(Train, BadInputWritesNothing) {
  test::TempDir dir;
  Config c = small_config();
  set_value(c, "model.norm=lyer");
  try {
    run(c, dir / "run");
    FAIL() << "an unknown norm was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code, 2);
    EXPECT_NE(std::string(e.what()).find("unknown norm 'lyer'; did you mean 'layer'?"), std::string::npos)
        << e.what();
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "run"));
}

}  // namespace
}  // namespace plumb
