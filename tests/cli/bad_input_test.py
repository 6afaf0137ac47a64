"""Every kind of bad input, as it is typed, and the sentence that it gets: one line, exit status 2, nothing half-written.

In the table {dir} is a folder with what `make` puts there. To see what the program says now: bad_input_test.py --print
"""

import hashlib
import os
import pathlib
import re
import shlex
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rig import ROOT, SMALL, plumb, train  # noqa: E402

CASES = [
    ('train --set train.lrr=1', "unknown key 'train.lrr' (--set); did you mean 'train.lr'?"),
    ('train --set train.learning_rate_of_the_run=1',
     "unknown key 'train.learning_rate_of_the_run' (--set); known in its section: steps, batch_size, "
     'accumulate, optimizer, lr, min_lr, warmup, schedule, weight_decay, decay, beta1, beta2, adam_eps, '
     'momentum, grad_clip, agc, z_loss, label_smoothing, dropout, seed, precision, norm_reduce, threads, recompute, eval_every, checkpoint_every, keep_checkpoints'),
    ('train --set train.dropout=1', "train.dropout (--set) must be at least 0 and below 1, but is 1.0; change it there"),
    ('train --set trian.lr=1', "unknown key 'trian.lr' (--set); did you mean 'train.lr'?"),
    ('train --set train.lr', "--set train.lr has no '='; write --set section.key=value, for example --set train.lr=1e-3"),
    ('train {dir}/unknown_key.toml',
     "unknown key 'train.learning_rate' ({dir}/unknown_key.toml:3); known in its section: steps, batch_size, "
     'accumulate, optimizer, lr, min_lr, warmup, schedule, weight_decay, decay, beta1, beta2, adam_eps, '
     'momentum, grad_clip, agc, z_loss, label_smoothing, dropout, seed, precision, norm_reduce, threads, recompute, eval_every, checkpoint_every, keep_checkpoints'),
    ('train {dir}/unknown_section.toml',
     'unknown section [trian] ({dir}/unknown_section.toml:1); did you mean [train]? known: model, '
     'model.attention, model.ffn, model.rope, init, train, train.lr_scale, data, probe, fault'),
    ('train --set fault.inject=no_redisual',
     "fault.inject (--set): unknown fault 'no_redisual'; did you mean 'no_residual'? docs/faults.md lists them all"),
    ('train --set fault.inject=no_residual --set fault.strength=3',
     "fault.strength = 3 (--set): 'no_residual' takes 0 to 1 and not 0: the share of the skip that is lost"),
    ('train --set fault.inject=no_final_norm --set model.placement=post',
     "fault.inject (--set): 'no_final_norm' cannot be in this run: there is no final norm to leave out"),
    ('train {dir}/wrong_type.toml', 'train.lr ({dir}/wrong_type.toml:2) must be a number, but is "much"; change it there'),
    ('train {dir}/not_toml.toml',
     "{dir}/not_toml.toml:1: not TOML (Error while parsing table header: expected ']', saw '\\n'); correct that "
     'line'),
    ('train {dir}/none.toml', 'cannot read {dir}/none.toml: no such file or directory; check the path'),
    ('train {dir}', '{dir} is a folder; name a config file in it'),
    ('train {dir}/run',
     '{dir}/run is a folder; name a config file in it, {dir}/run/config.toml, or go on with that run by `plumb resume {dir}/run`'),
    ('train {dir}/short.txt', '{dir}/short.txt is no config; to train on a text give --set data.corpus={dir}/short.txt'),
    ('train train.steps=5', "'train.steps=5' is no config file; did you mean --set train.steps=5?"),
    ('sample {dir}/a.toml', "{dir}/a.toml is no checkpoint, which ends in .safetensors; name that, or the run's folder"),
    ('sample {dir}/two', '{dir}/two holds runs, and is none itself; name {dir}/two/a or {dir}/two/b'),
    ('train {dir}/binary.toml', '{dir}/binary.toml:2: byte 0x80 at offset 128 is not UTF-8; save the file as UTF-8'),
    ('train --set model.n_head=3',
     'model.d_model = 128 (the default) is not divisible by model.n_head = 3 (--set); change one of them or set '
     'model.d_head'),
    ('train --set model.block_size=0',
     'model.block_size (--set) must be at least 1 and at most 1048576, but is 0; change it there'),
    ('train --set model.n_layer=-1', 'model.n_layer (--set) must be at least 1 and at most 4096, but is -1; change it there'),
    ('train --set train.lr=nan', 'train.lr (--set) must be finite, but is nan; change it there'),
    ('train --set train.lr=-1', 'train.lr (--set) must be at least 0, but is -1.0; change it there'),
    ('train --set train.min_lr=1',
     'train.min_lr = 1 (--set) is above train.lr = 0.003 (the default): the rate would rise at the end; lower '
     'it'),
    ('train --set train.steps=1e3', 'train.steps (--set) must be a whole number, but is 1000.0; change it there'),
    ('train --set data.split=1.5', 'data.split (--set) must be above 0 and below 1, but is 1.5; change it there'),
    ('train --set model.norm=lyer',
     "model.norm (--set): unknown norm 'lyer'; did you mean 'layer'? known: {entries:norm}"),
    ('train --set model.attention.kind=softmx', "model.attention.kind (--set): unknown attention kind 'softmx'; known: {entries:attention}"),
    ('train --set model.placement=middle', "model.placement (--set): unknown placement 'middle'; known: parallel, post, post_branch, pre, sandwich"),
    ('train --set model.residual=two-lane',
     "model.residual (--set): unknown residual 'two-lane'; known: {entries:residual}"),
    ('train --set init.scheme=fixup --set model.norm=layer',
     'model.norm = "layer" (--set) contradicts init.scheme = "fixup" (--set), which implies "none": Fixup '
     'trains without norms; remove one of the two'),
    ('train --set init.scheme=t_fixup --set train.warmup=10',
     'train.warmup = 10 (--set) contradicts init.scheme = "t_fixup" (--set), which implies 0: T-Fixup needs no warm-up; '
     'remove one of the two'),
    ('train --set model.residual=deepnorm --set model.placement=pre',
     'model.placement = "pre" (--set) contradicts model.residual = "deepnorm" (--set), which implies "post": DeepNorm '
     'normalises after the addition; remove one of the two'),
    ('train --set model.norm=group --set model.norm_groups=7',
     "norm = 'group': 128 channels do not divide into 7 groups; change model.norm_groups"),
    ('train --set model.weight_param=weight_norm --set init.scheme=zero_last',
     "weight_param = 'weight_norm': init.scheme = 'zero_last' starts matrices at zero, which have no direction; choose another"),
    ('train --set model.norm_gain=one', "model.norm_gain (--set) must be one of plain, plus_one, but is 'one'; change it there"),
    ('train --set train.precision=fp8',
     "train.precision (--set) must be one of fp32, bf16, bf16_pure, fp16_pure, but is 'fp8' (did you mean 'fp32'?); change it there"),
    ('train --set model.d_model=1000000000000',
     'model.d_model (--set) must be at least 1 and at most 1048576, but is 1000000000000; change it there'),
    ('train --set data.corpus={dir}/none.txt',
     "there is no corpus '{dir}/none.txt': neither a file nor a known name (embedded, tang, tang-full); correct "
     'data.corpus'),
    ('train --set data.corpus={dir}/empty.txt', 'the corpus {dir}/empty.txt is empty; choose a file with text'),
    ('train --set data.corpus={dir}/short.txt',
     'the training split has 2 tokens, but a block of 64 needs 65; use a longer corpus, a larger data.split or '
     'a smaller model.block_size'),
    ('train --set data.corpus={dir}/broken.txt',
     'the corpus {dir}/broken.txt is not UTF-8: byte 0xff at offset 5 belongs to no character; convert the text '
     'to UTF-8'),
    ('train --set data.corpus={dir}', 'cannot read {dir}: it is a directory; name a file'),
    ('train --set data.corpus=tnag',
     "there is no corpus 'tnag': neither a file nor a known name (embedded, tang, tang-full); correct "
     'data.corpus'),
    ('train --set data.rows=padded --set data.corpus={dir}/line.txt',
     'rows = "padded" takes one line a row, but the newline is not in the vocabulary; use a text with more than '
     'one line or a larger data.vocab_size'),
    ('train SMALL --out /proc/x/run', 'cannot make the directory /proc/x/run: no such file or directory; check the path'),
    ('train SMALL --out {dir}/short.txt', '{dir}/short.txt is not a folder; name a folder for the run with --out'),
    ('train SMALL --out {dir}/run',
     '{dir}/run already holds a run; continue it with `plumb resume`, or name another folder with --out'),
    ('train {dir}/a.toml {dir}/b.toml --out {dir}/run',
     '{dir}/run already holds a run; continue it with `plumb resume`, or name another folder with --out'),
    ('train {dir}/a.toml {dir}/sub/a.toml --out {dir}/new',
     "two of the configs are called 'a'; rename one, as a run is named after its config"),
    ('resume', 'name the run to go on with: `plumb resume runs/…`; `plumb runs` lists them'),
    ('resume {dir}/no-run', 'there is no run {dir}/no-run; `plumb runs` lists those there are'),
    ('resume {dir}/sub', '{dir}/sub holds no checkpoint; name a run folder that `plumb train` wrote, or a checkpoint file'),
    ('resume {dir}/short.txt', "{dir}/short.txt is no checkpoint, which ends in .safetensors; name that, or the run's folder"),
    ('resume {dir}/run --set train.lr=1',
     "train.lr cannot change when a run is resumed: the result would not be the run's; start a new one with "
     '`plumb train {dir}/run/config.toml --from {dir}/run --set train.lr=1`'),
    ('resume {dir}/edited',
     'train.seed = 1 in {dir}/edited/config.toml, but the run was made with 0; set it back, or start a new run '
     'with `plumb train {dir}/edited/config.toml --from {dir}/edited`'),
    ('resume {dir}/cut',
     "tensor 'pos.weight' in {dir}/cut/checkpoint-3.safetensors lies at bytes 186496 to 188544 of 188444; the "
     'file is cut off or damaged, get it again'),
    ('resume {dir}/moved',
     'the corpus {dir}/text.txt is not the one that {dir}/moved was trained on (its SHA-256 differs); bring '
     'that text back, or start a new run with `plumb train --from {dir}/moved`'),
    ('sample {dir}/cut',
     "tensor 'pos.weight' in {dir}/cut/checkpoint-3.safetensors lies at bytes 186496 to 188544 of 188444; the "
     'file is cut off or damaged, get it again'),
    ('eval {dir}/foreign',
     "{dir}/foreign/checkpoint-3.safetensors: the metadata has no 'format'; this is not a checkpoint of plumb"),
    ('train SMALL --from {dir}/cut --out {dir}/new',
     "tensor 'pos.weight' in {dir}/cut/checkpoint-3.safetensors lies at bytes 186496 to 188544 of 188444; the "
     'file is cut off or damaged, get it again'),
    ('train SMALL --from {dir}/run --set model.d_model=64 --out {dir}/new',
     "{dir}/run/checkpoint-3.safetensors: embed.weight has shape (77, 32), the new model's is (77, 64); --from "
     'needs equal shapes for equal names'),
    ('sample {dir}/run --tokens 100',
     'learned positions end at block_size 16: after a prompt of 1 tokens at most 15 can follow; lower --tokens'),
    ('sample {dir}/run --temperature nan', '--temperature is no number; give one from 0 to 100'),
    ('sample {dir}/run --set train.lr=1',
     'The following argument was not expected: --set; `plumb sample --help` shows what there is'),
    ('eval {dir}/run --block-sizes 8,x',
     "--block-sizes '8,x' is no list of whole numbers from 1 to 1048576; write for example --block-sizes "
     '64,128,256'),
    ('eval {dir}/run --block-sizes 32',
     '[position] learned positions end at block_size 16, the input has 32 positions; use a shorter block, '
     'or train with model.position_overflow = "clamp" or with model.position = "rope"'),
    ('eval {dir}/run --block-sizes 100000',
     '--block-sizes has 100000, but no row of the validation split has more than 1135 targets; take shorter '
     'blocks or a longer text'),
    ('eval {dir}/run --set model.n_layer=3',
     'model.n_layer is part of a model that is trained already; --set can change what it reads and how '
     '(data.corpus, data.rows, train.batch_size, train.threads …)'),
    ('profile {dir}/run/trace.jsonl',
     "{dir}/run/trace.jsonl is a trace; `plumb compare {dir}/run/trace.jsonl OTHER` reads it; for `plumb profile` name the run's "
     'folder, {dir}/run'),
    ('inspect {dir}/run/trace.jsonl',
     "{dir}/run/trace.jsonl is a trace; `plumb compare {dir}/run/trace.jsonl OTHER` reads it; for `plumb inspect` name the run's "
     'folder, {dir}/run'),
    ('inspect {dir}/short.txt',
     '{dir}/short.txt is a text; train on it with `plumb train --set data.corpus={dir}/short.txt`, or name a model for `plumb inspect`'),
    ('inspect {dir}/a.toml',
     '{dir}/a.toml is a config; `plumb inspect` reads a model; look at the config\'s with `plumb profile {dir}/a.toml`'),
    ('params {dir}/run/trace.jsonl',
     '{dir}/run/trace.jsonl is a trace or a log, and no config; `plumb compare {dir}/run/trace.jsonl OTHER` reads it'),
    ('explain foo', "no component, cause or symptom is called 'foo'; `plumb explain` lists them"),
    ('train --set train.batch=3', "unknown key 'train.batch' (--set); did you mean 'train.batch_size'?"),
    ('profile {dir}/run {dir}/run', 'name one config, run or checkpoint: `plumb profile runs/…`'),
    ('compare {dir}/run', 'name at least two runs: `plumb compare runs/a runs/b`'),
    ('compare {dir}/run {dir}/sub', '{dir}/sub holds neither a trace.jsonl nor TensorBoard event files; `plumb runs` lists the runs there are'),
    ('compare {dir}/run {dir}/no_step.csv',
     '{dir}/no_step.csv has no column for the step; call one "step" (or global_step, iter, iteration)'),
    ('compare {dir}/run {dir}/cells.csv', '{dir}/cells.csv:3: the row has 3 cells, its header 2; correct that line'),
    ('compare {dir}/run {dir}/half_step.csv', "{dir}/half_step.csv:2: '1.5' is no step; write a whole number from 0"),
    ('compare {dir}/run {dir}/low.csv', "{dir}/low.csv:2: the loss 'low' is no number; correct that line"),
    ('compare {dir}/run {dir}/quote.csv', '{dir}/quote.csv:3: a quote in this row never ends; correct that line'),
    ('compare {dir}/run {dir}/header.csv', '{dir}/header.csv holds no number by step; name a log of the loss, or a plumb trace'),
    ('compare {dir}/run {dir}/empty.txt', '{dir}/empty.txt is empty; name a trace or a log'),
    ('compare {dir}/run {dir}/zeros.csv',
     '{dir}/zeros.csv is no trace, TensorBoard event file, CSV file or JSON Lines; check that it is the right file'),
    ('compare {dir}/run {dir}/events.tfevents', '{dir}/events.tfevents is damaged: the checksum of the record at byte 0; get the file '
     'again'),
    ('runs --out {dir}/none', 'there is no folder {dir}/none with runs; `plumb train` makes one, or name another with --out'),
    ('runs rm', 'name the runs to delete: `plumb runs rm runs/…`'),
    ('runs rm {dir}/sub', "'{dir}/sub' is no run folder; `plumb runs` lists those there are"),
    ('runs rm {dir}/run/.', "{dir}/run/. is a link, or no folder's own name; give the folder itself"),
    ('runs rm {dir}/link', "{dir}/link is a link, or no folder's own name; give the folder itself"),
    ('init tinny', "unknown preset 'tinny'; did you mean 'tiny'? known: chapter, post, tiny, text, gpt2, llama, qwen3, gemma2"),
    ('init --out {dir}/short.txt', '{dir}/short.txt is there already; name another file with --out'),
    ('bisect {dir}/a.toml', 'name a good config or run and a bad one: `plumb bisect good.toml bad.toml`, or `plumb bisect runs/a runs/b`'),
    ('bisect {dir}/a.toml {dir}/a.toml', 'the two configs are the same; name two configs that differ in how they train'),
    ('bisect {dir}/a.toml {dir}/a.toml --seeds 2',
     '--seeds: Value 2 not in range 3 to 30; `plumb bisect --help` shows what there is'),
    ('bench', 'name what to time: `plumb bench step`, `plumb bench probes` or `plumb bench norms`'),
    ('bench setp', "unknown benchmark 'setp'; did you mean 'step'? known: step, probes, norms"),
    ('bench probes --set probe.every=0', 'probe.every is 0: nothing is probed; set it to 1 or more'),
    ('corpus a b', 'name one corpus: `plumb corpus embedded`, or a UTF-8 text file'),
    ('corpus {dir}/none.txt',
     "there is no corpus '{dir}/none.txt': neither a file nor a known name (embedded, tang, tang-full); correct "
     'data.corpus'),
    ('',
     'name a command: init, train, resume, sample, eval, profile, measure, ablate, inspect, compare, doctor, bisect, runs, params, check, explain, bench, corpus, config; '
     '`plumb --help` says what each does'),
    ('trian',
     "unknown command 'trian'; did you mean 'train'? known: init, train, resume, sample, eval, profile, "
     'measure, ablate, inspect, compare, doctor, bisect, runs, params, check, explain, bench, corpus, config'),
    ('train --no-such-flag', 'The following argument was not expected: --no-such-flag; `plumb train --help` shows what there is'),
    ('train --out', '--out: 1 required TEXT missing; `plumb train --help` shows what there is'),
]


def make(folder):
    def write(name, text):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)

    write("unknown_key.toml", "[train]\nsteps = 5\nlearning_rate = 1\n")
    write("unknown_section.toml", "[trian]\nlr = 1\n")
    write("wrong_type.toml", "[train]\nlr = 'much'\n")
    write("not_toml.toml", "[train\nlr = 1\n")
    write("binary.toml", bytes(range(256)))
    write("a.toml", "")
    write("no_step.csv", "loss\n1\n")
    write("cells.csv", "step,loss\n1,2\n1,2,3\n")
    write("half_step.csv", "step,loss\n1.5,2\n")
    write("low.csv", "step,loss\n1,low\n")
    write("quote.csv", 'step,note,loss\n1,a,2\n2,"oops,3\n3,b,4\n')
    write("header.csv", "step,loss\n")
    write("zeros.csv", bytes(100))
    # A length of 4 with its right checksum, then four bytes and a wrong one.
    write("events.tfevents", b'\x04\x00\x00\x00\x00\x00\x00\x00BER\x04' + b"abcd" + b"\0\0\0\0")
    write("sub/a.toml", "")
    write("b.toml", "")
    write("empty.txt", b"")
    write("short.txt", "abc")
    write("broken.txt", b"good \xff bad" * 100)
    write("line.txt", "one line and no other " * 50)
    train(folder / "run", "--set", "train.steps=3")
    checkpoint = (folder / "run/checkpoint-3.safetensors").read_bytes()
    for name in ("cut", "edited", "foreign"):
        for file in ("config.toml", "trace.jsonl"):
            write(f"{name}/{file}", (folder / "run" / file).read_bytes())
        write(f"{name}/checkpoint-3.safetensors", checkpoint)
    write("cut/checkpoint-3.safetensors", checkpoint[:-100])
    write("foreign/checkpoint-3.safetensors", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ")
    write("edited/config.toml", (folder / "run/config.toml").read_text().replace("seed = 0", "seed = 1"))
    write("two/a/checkpoint-3.safetensors", checkpoint)
    write("two/b/checkpoint-3.safetensors", checkpoint)
    (folder / "link").symlink_to(folder / "run")
    text = folder / "text.txt"
    text.write_text("the text of this run. " * 200)
    train(folder / "moved", "--set", "train.steps=3", "--set", f"data.corpus={text}")
    text.write_text("quite another text now. " * 200)


def state_of(folder):
    return {path.relative_to(folder): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
            for path in folder.rglob("*")}


def say(command, folder):
    words = shlex.split(command.replace("{dir}", str(folder)))
    if "SMALL" in words:
        at = words.index("SMALL")
        words[at:at + 1] = SMALL
    # A run that is wrongly accepted must end soon, and lie where it is seen.
    if words[:1] == ["train"] and "--out" not in words:
        words += ["--out", str(folder / "new")]
    run = plumb(*words, timeout=60)
    return run, run.stderr.replace(str(folder), "{dir}")


def with_entries(sentence):
    """{entries:norm}: the names of the family's components, which are those of their files."""
    def names(family):
        return ", ".join(sorted(p.stem for p in (ROOT / "plumb" / family.group(1)).glob("*.cpp") if p.stem != family.group(1)))
    return re.sub(r"\{entries:(\w+)\}", names, sentence)


class BadInput(unittest.TestCase):
    def test_every_sentence(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            make(folder)
            before = state_of(folder)
            for command, sentence in CASES:
                with self.subTest(command=command):
                    run, words = say(command, folder)
                    self.assertEqual(words, f"plumb: {with_entries(sentence)}\n")
                    self.assertEqual(run.returncode, 2)
                    self.assertEqual(run.stdout, "")
                    self.assertEqual(state_of(folder), before)


if __name__ == "__main__" and "--print" in sys.argv:
    with tempfile.TemporaryDirectory() as temporary:
        make(pathlib.Path(temporary))
        for command, *_ in CASES:
            run, words = say(command, pathlib.Path(temporary))
            print(f"{run.returncode} {command}\n    {words}", end="")
elif __name__ == "__main__":
    unittest.main()
