# English texts of tables and reports. All catalogues have the same keys and variables; a test compares them.

## Lists and units
# A space at the end of a message is written as {" "}, because Fluent trims plain ones.
mark-comma = ,{" "}
mark-semicolon = ;{" "}
mark-colon = :{" "}
mark-stop = .{" "}
mark-between-sentences = {" "}
mark-percent = %
list-comma = ,{" "}
list-and = {" "}and{" "}
list-more = { $n } more
unit-times = { $n }×
unit-points = points

## Columns
column-batch = Batch size
column-model = Model
column-version = Version
column-dataset = Dataset
column-data = Dataset
column-input_size = Input size
column-seed = Seed
column-lr = Learning rate
column-epochs = Epochs
column-freeze_epochs = Last-layer epochs before these
column-classes = Classes
column-optimizer = Optimiser
column-optimiser = Optimiser
column-precision = Precision
column-device = Device
column-torch = PyTorch
column-cuda = CUDA
column-workers = Loader threads
column-mode = mode of running
column-outcome = Outcome
column-epoch_time = Epoch time
column-iteration_time = Iteration time
column-images_per_s = Images per second
column-train_loss = Training loss
column-valid_loss = Validation loss
column-error_rate = Error rate
column-accuracy = Accuracy
column-top1 = Top-1
column-top5 = Top-5
column-gmac = GMACs
column-gmac_norm_act = GMACs, with normalisations and activations
column-parameters = Parameters
column-auxiliary_parameters = Parameters of auxiliary heads
column-layers = Layers
column-data_wait = Time waiting for data
column-wait_time = Time waiting for data
column-wall = Wall time
column-cpu_time = CPU time
column-cpu_util = CPU use
column-cpu_util_peak = Peak CPU use
column-cpu_cores = CPU cores in use
column-memory = Memory
column-disk_read = Read from disk
column-disk_written = Written to disk
column-gpu_memory = GPU memory
column-gpu_memory_mean = Mean GPU memory
column-gpu_memory_share = Share of GPU memory
column-memory_share = Share of host memory
column-gpu_memory_limit = GPU memory limit
column-gpu_load = GPU utilisation
column-gpu_load_peak = Peak GPU utilisation
column-gpu_load_above_90 = Time with GPU utilisation above 90%
column-gpu_memory_load = Memory-controller utilisation
column-gpu_memory_load_peak = Peak memory-controller utilisation
column-gpu_memory_load_above_90 = Time with memory-controller utilisation above 90%
column-epoch = Epoch
column-step = Step
column-part = Part
column-gpu_power = GPU power
column-energy = Energy
column-foreign_cpu = Foreign CPU use
column-gpu_shared = GPU used by other processes
column-sampler_cpu = Measuring overhead (of one core)
column-cpu_saturated = Time with the CPU saturated
column-gpus = GPUs
column-cpus = CPUs
column-host_cpus = CPUs of the host
column-allowed_cpus = CPUs that flow could use
column-gpu_model = GPU model
column-cpu_model = CPU model
column-pcie = PCIe link
growth-short = Growth{ $column }
growth-of = Growth of { $column }
ratio-of = Ratio of { $column }
speedup-of = Speed-up of { $column }

## Cells
outcome-ok = ok
outcome-out_of_memory = { $gpu ->
    [yes] out of GPU memory
   *[no] out of memory
}
outcome-timed_out = timed out
outcome-does_not_fit = does not fit
outcome-failed = failed
outcome-cancelled = cancelled
outcome-skipped = skipped
cell-disturbed = disturbed
cell-unlike = not comparable
cell-gpus-change = { $from }→{ $to } GPUs

## Notes below tables
table-absent = No table: step { $step } has no instances ({ $why }).
note-mean = Cells with ±: mean ± standard deviation of { $all ->
    [yes] { $of }
   *[no] at least { $of }
} results.
note-mean-over = Cells with ±: mean ± standard deviation over { $over }, of { $all ->
    [yes] { $of }
   *[no] at least { $of }
} results.
note-median = Median of { $all ->
    [yes] { $of }
   *[no] at least { $of }
} repetitions, with minimum and maximum.
note-axis-values = { $axis } ({ $values })
note-simulated = ± is the half-width of the 95% confidence interval over { $of } simulations. All columns of a row use the same jobs, so their differences are known better than that. flow tests differences seed by seed, with Bonferroni's correction for all pairs of columns; a change of order is tested over all rows.
note-unlike = Measured under different conditions, so neither averaged nor compared ({ $what }: { $one } and { $other }).
note-caveats = { $label }: { $why }.
note-of-the-whole = { $name } was printed without { $axis ->
    [step] a step
   *[epoch] an epoch
}, so it is in no row.
note-steps-only = The values have steps and no epochs: `rows: step` gives a row to each step.
note-start-up = The time before the first printed epoch includes start-up, so it is not an `epoch_time`. If the program prints the time itself, `{"{"}epoch_time:s{"}"}` in the pattern reads it.
note-disturbed = { $label } is not reliable: { $why }.
note-no-metrics = { $label } lacks metrics: { $why }
note-no-metrics-several = { $label } and { $more } more lack metrics: { $why }
note-partial = { $used } of { $of } results count; { $others }.
partial-ended = { $n } { $outcome }
partial-rest = the rest have no reliable number
note-hidden = flow measures { $name } itself. Your program's metric of the same name is not shown: rename it.
note-company = { $alone } of { $of } results ran alone, the rest alongside other steps of flow. With `exclusive: true` each runs alone.
note-baseline = Ratios and speed-ups are relative to { $of }.
note-baseline-first = Ratios and speed-ups are relative to the first row.
note-no-column = No result has { $name }.
note-no-column-near = No result has { $name }; did you mean { $nearest }?
note-accepted = { $label } is an earlier result, kept although its dependencies have changed: { $reason }
note-resumed = The times of { $label } are incomplete. It resumed from a checkpoint of an attempt that was killed together with flow, and the duration of that attempt is unknown
note-resumed-several = The times of { $label } and { $more } more are incomplete. They resumed from checkpoints of attempts that were killed together with flow, and the durations of those attempts are unknown
note-wall-of-attempts = The wall time of { $label } covers several attempts and start-ups, because it resumed from a checkpoint
note-wall-of-attempts-several = The wall times of { $label } and { $more } more cover several attempts and start-ups, because they resumed from checkpoints
note-accepted-several = { $label } and { $more } more are earlier results, kept although their dependencies have changed: { $reason }
note-not-a-number = The program reported NaN or an infinite number. For a loss, this means that training diverged.
note-other-parameter = On { $machine }, { $name } was { $theirs }; here it is { $own }. The difference may come from this, not from the machine.
note-other-input = { $machine } used another version of { $file }. The difference may come from this file, not from the machine.
note-other-program = On { $machine }, the command, its environment or the data were different. The difference may come from this, not from the machine.
note-environments = These results come from different software environments: { $list }.
note-environments-more = These results come from different software environments: { $list }, and { $more } more differences.
note-no-machines = There are no results of another machine: run `flow export` there and `flow import` here.
note-unverified = The driver does not report memory per process: this is the GPU's memory in use, minus the use before the start.

## Findings
range = { $from } to { $to }
range-sure = between { $from } and { $to }
ratio = { $range } times as high
ratio-of-time = { $range } times as long
scoped = { $scope }: { $text }
scoped-words = { $scope } — { $text }
finding-flattens = { $time } hardly falls beyond { $axis } { $at } ({ $value }).
finding-flattens-stops = { $time } stops falling at { $axis } { $at } ({ $value }).
finding-flattens-rises = { $time } stops falling at { $axis } { $at } ({ $value }) and rises to { $to } at { $later }.
finding-no-fall = From { $axis } { $at } ({ $value }) on, { $time } does not fall.
finding-no-fall-rises = From { $axis } { $at } ({ $value }) on, { $time } does not fall, and it rises to { $to } at { $later }.
finding-still-falling = { $time } still falls up to { $axis } { $at } ({ $value }).
finding-time-same = { $time } does not depend on { $axis }: { $range }.
finding-time-flat = { $time } hardly depends on { $axis }: { $range }.
finding-no-trend = { $time } varies with { $axis }, without a trend: { $range }.
finding-uneven = { $time } rises and falls with { $axis }: shortest at { $low } ({ $min }), longest at { $high } ({ $max }).
finding-memory-faster = If memory is scarce (memory × time), no step beyond { $axis } { $from } pays: at { $to }, { $memory } grows by { $grows } and { $time } falls by only { $falls }.
finding-memory-not-flat = { $memory } is not flat at small { $axis }: { $min } at { $from }, { $max } at { $to }.
finding-memory-flat = Up to { $axis } { $at }, { $memory } hardly changes: { $range }.
finding-load-trend = { $load } { $rises ->
    [yes] rises
   *[no] falls
} with { $axis }, from { $first } at { $from } to { $last } at { $to }.
finding-frontier-none = { $axis } { $at } already { $memory ->
    [gpu] runs out of GPU memory
    [host] runs out of memory
   *[machine] needs more than this machine has
}.
finding-frontier = { $axis } { $at } { $memory ->
    [gpu] runs out of GPU memory
    [host] runs out of memory
   *[machine] needs more than this machine has
}; { $fits } still fits.
finding-frontier-used = { $axis } { $at } { $memory ->
    [gpu] runs out of GPU memory
    [host] runs out of memory
   *[machine] needs more than this machine has
}; { $fits } still fits, with { $used }.
finding-linear = { $column } is linear in { $axis }: { $intercept } { $sign } { $slope } × { $axis }, R² = { $r2 }.
finding-bound-gpu = GPU-bound: GPU utilisation is { $range }.
finding-bound-cpu = CPU-bound: { $range } of the allocated CPUs are in use.
finding-bound-cpu-of = CPU-bound: { $range } of the allocated CPUs are in use ({ $own } of { $host }; CPU use is a share of all { $host }).
finding-bound-data = Data-bound: { $range } of an epoch is spent waiting for data.
finding-bursts = { $which ->
    [every] In every result, CPU use is higher at the ends of epochs than in their middle half, most in { $label }: { $ends } against { $middle }
    [some] In some results, CPU use is higher at the ends of epochs than in their middle half, most in { $label }: { $ends } against { $middle }
   *[one] In { $label }, CPU use is higher at the ends of epochs than in their middle half: { $ends } against { $middle }
}. An end is the last tenth of an epoch and the gap before the next.
finding-no-bursts = CPU use does not rise at the ends of epochs (the last tenth and the gap before the next): at most { $ends }, against { $middle } in their middle half ({ $label }).
finding-estimate = { $column } differs from { $of } by { $range } (median absolute difference { $typical }).
finding-estimate-one = { $column } differs from { $of } by { $most }.
finding-agrees = { $column } agrees with the earlier figures within { $most }; { $same } of { $of } are the same to the last digit.
finding-unchanged = From { $a } to { $b }, { $column } is unchanged (differences below { $most }).
finding-hardly-changed = From { $a } to { $b }, { $column } { $how ->
    [rises] rises by less than { $most }, and falls in no row
    [falls] falls by less than { $most }, and rises in no row
   *[both] changes by less than { $most }
}.
finding-mixed = From { $a } to { $b }, { $column } rises in some rows and falls in others: { $range }.
finding-undecided = From { $a } to { $b }, it is undecided whether { $column } changes: { $mean } on average, 95% confidence interval { $interval }.
finding-undecided-more = If the difference stays as it is, about { $more ->
    [one] 1 more run
   *[other] { $more } more runs
} of each point would decide it.
finding-undecided-most = To decide a difference this small would take more than { $most } runs of each point.
finding-same-learned = From { $a } to { $b }, { $column } { $told ->
    [yes] changes little
   *[no] is the same within its run-to-run spread
}: the 95% confidence interval of the change is { $interval }.
finding-learned-change = From { $a } to { $b }, { $column } { $how ->
    [times] is { $mean } on average
   *[change] changes by { $mean } on average
} (95% confidence interval, from how much repeated trainings differ: { $interval }){ $told ->
    [yes] {""}
   *[no] , which is not told from chance
}.
finding-changed = From { $a } to { $b }, { $column } { $how ->
    [times] is { $range }
    [rises] rises by { $range }
   *[falls] falls by { $range }
}.
finding-changed-pair = From { $a } to { $b }, { $column } { $how ->
    [times] is { $range }
    [rises] rises by { $range }
   *[falls] falls by { $range }
} ({ $speed ->
    [none] {""}
   *[other] { $speed } times as fast;{" "}
}95% interval { $interval }; { $paired ->
    [yes] paired t-test
   *[no] t-test
}, p { $p }).
where-axis = { $rows ->
    [one] at the only { $axis }
    [two] at both values of { $axis }
   *[every] at every { $axis }
}
where-rows = { $rows ->
    [one] in the only row
    [two] in both rows
   *[every] in every row
}
where-some = in { $some } of { $rows } rows
finding-changed-few = From { $a } to { $b }, { $column } { $how ->
    [times] is { $range }
    [rises] rises by { $range }
   *[falls] falls by { $range }
} { $where }.
finding-changed-tested = From { $a } to { $b }, { $column } { $how ->
    [times] is { $range }
    [rises] rises by { $range }
   *[falls] falls by { $range }
} { $where } (sign test over { $pairs } pairs, p { $p }).
finding-changed-once = From { $a } to { $b }, { $column } { $how ->
    [times] is { $range }
    [rises] rises by { $range }
   *[falls] falls by { $range }
} { $where }{ $all ->
    [yes] {""}
   *[no] ; the median is { $median }
}. One run on each side, so no test was made.
finding-changed-most = From { $a } to { $b }, { $column } { $how ->
    [times] is { $range }
    [rises] rises by { $range }
   *[falls] falls by { $range }
} { $where } (sign test, p { $p }); the median is { $median }.
finding-changed-at = From { $a } to { $b }, { $column } { $rises ->
    [yes] rises
   *[no] falls
} at { $axis } { $places }; elsewhere no change can be told.
finding-one-training = From { $a } to { $b }, no judgement of { $columns }: a row rests on one training, and how much repeated trainings differ is not known.
finding-identical = { $columns } was not compared between { $a } and { $b }.
finding-packed = { $pays ->
    [yes] Pack them
   *[no] Packing gains nothing
}: all are done in { $packed }, against { $alone } one after another ({ $gain } times the throughput). Each takes { $range } times as long as alone, from start to end.
finding-packed-in-runs = The time until all finish packed is unknown, because they ran in several runs. From start to end, each takes { $range } times as long as alone.
finding-packed-in-part = How much sooner all { $of } finish packed is unknown, because { $without } cannot be compared with { $n ->
    [one] its run alone
   *[other] their runs alone
}: one of the two runs is missing, failed, was disturbed, resumed from a checkpoint, or ran under other conditions. From start to end, each of the other { $compared } takes { $range } times as long as alone.
finding-foreign = { $several ->
    [yes] Other programs used up to { $used } of the CPU during some of these results, most during { $label }
   *[no] Other programs used { $used } of the CPU during { $label }
}, which may explain this finding.
finding-foreign-few = Other programs disturbed { $disturbed } of the { $all } results: they used { $several ->
    [yes] up to { $used } of the CPU, most
   *[no] { $used } of the CPU
} during { $label }.
finding-foreign-table = Other programs used up to { $used } of the CPU during { $several ->
    [yes] some results of this table, most during { $label }
   *[no] { $label }
}, which may explain this and other findings about these times.
finding-packed-foreign = Other programs used up to { $used } of the CPU during these runs, so the effect of packing alone is unknown.
finding-repeated-differs = { $column } differs with { $axis } by more than repetitions do: means of { $range } ({ $paired ->
    [yes] paired F-test
   *[no] F-test
}, p { $p }).
finding-repeated-alike = { $column } does not differ with { $axis } by more than repetitions do: means of { $range } ({ $paired ->
    [yes] paired F-test
   *[no] F-test
}, p { $p }).
finding-cost-free = Cost-free: { $b } lowers { $cheaper } against { $a }{ $better ->
    [yes] , with slightly better { $accuracy }
   *[no] {" "}at the same { $accuracy }
}.

## Figures computed for findings
computed-heading = Computed for the findings
computed-figure = Figure
computed-value = Value
computed-growth = Growth of { $column }, { $axis } { $from } to { $to }
computed-intercept = Intercept of { $column } over { $axis }
computed-slope = Slope of { $column } over { $axis }
computed-r2 = R² of { $column } over { $axis }
computed-min = Minimum of { $column }
computed-max = Maximum of { $column }
computed-of = { $column } of { $label }
computed-mean-change = Mean change of { $column }
computed-low-change = Change of { $column }, lower end of the 95% confidence interval
computed-high-change = Change of { $column }, upper end of the 95% confidence interval
computed-pairs = Pairs in the sign test of { $column }
computed-median-change = Median change of { $column }
computed-rows-changed = Rows in which { $column } changes in that direction
computed-rows = Rows with { $column } on both sides
computed-sign-test = p of the sign test of { $column }
computed-f-test = F-test of { $column } over { $axis }: p, with Holm's correction for all F-tests of the section
computed-pair-test = p of the t-test of { $column }
computed-speed = How many times as fast, from the change of { $column }
computed-t-test = Best { $column } against { $at }: p, with Bonferroni's correction for all other points
computed-lead = Best { $column } against { $at }: distance
computed-value-at = { $column } at { $at }
computed-axis-mean = Mean of { $column } at { $at }
computed-axis-way = Means of { $column } over { $axis }, highest minus lowest
computed-compared = Compared, packed against alone
computed-packed = Packed in all
computed-foreign-during = CPU use of other programs during { $label }
computed-foreign = Highest CPU use of other programs during the runs
computed-at-once = Time of all, packed
computed-one-by-one = Time of all, one after another
computed-gain = Throughput packed, relative to one after another
computed-min-slowdown = Smallest slowdown, packed against alone
computed-max-slowdown = Largest slowdown, packed against alone
computed-off = Largest difference of { $column } from the earlier figures
computed-as-given = Earlier figures of { $column } that are reproduced to their last digit
computed-given = Earlier figures of { $column }
computed-min-off = { $column } against { $of }, minimum
computed-max-off = { $column } against { $of }, maximum
computed-typical-off = { $column } against { $of }, median of the absolute differences
computed-apart = { $column } at { $axis } { $at }, highest divided by lowest, minus 1
computed-interval = { $value } ({ $range })
computed-behind = { $column } of { $part } minus that of { $than } at { $axis } { $at }, with its simultaneous 95% confidence interval
computed-middle = CPU use in the middle half of the epochs of { $label }
computed-ends = CPU use at the ends of the epochs of { $label }
column-waiting_share = Share of an epoch spent waiting for data
column-own_cpu_util = Use of the allocated CPUs

## Co-run groups
together-members = Alone and together
together-used = Use while together
together-sum = Sum of { $group }
note-gpu-load = GPU utilisation is the share of time in which a kernel ran, however small.
note-gpu-memory-load = Memory-controller utilisation is the share of time with a read or write of GPU memory, not a share of its bandwidth.
note-short-load = The driver averages a GPU's load over up to a second, so flow shows no load if all epochs together take less.
note-windows = Each figure covers the member's own epochs while all members ran. These windows differ slightly, so a sum may slightly exceed the total.
note-all-runs = Times alone and together are geometric means of all runs of each that count; if none counts, of all runs. The table above leaves out runs that were made only for a verdict.
together-more-cpus = Alone, a run could not use all CPUs that the runs use together, which { $more ->
    [yes] explains a part of the gain
   *[no] explains the gain
}.
together-possible = These CPUs allow at most { $most } times the work, so the rest of the measured gain is noise.
together-groups = Verdicts
note-gain = ± is the half-width of a 95% interval.{ $once ->
    [yes] {" "}If a group ran once, the ± of its throughput assumes a run-to-run SD of { $assumed }. The ± of its slowdown then covers only the spread between epochs ({ $usual } if unknown).
   *[no] {""}
}
packed-members = Alone and packed
packed-packed = { $column } packed
packed-slowdown = Slowdown
together-alone = { $column } alone
together-together = { $column } together
together-predicted = { $column } together, predicted from alone
together-off = Prediction off by
together-of-group = { $value } ({ $group })
together-interference = The predicted slowdown of a group on shared GPUs is an interference coefficient times the GPU demand beyond 100%. { $known ->
    [none] The coefficient was not measured on this GPU model and is taken as 1.
    [all] On this GPU model, flow measured earlier: { $each }.
   *[some] On this GPU model, flow measured earlier: { $each }; elsewhere it is taken as 1.
}
together-slower = Slower by
together-cpu-alone = CPU use alone
together-foreign-alone = Foreign CPU use alone
together-foreign-together = Foreign CPU use together
together-group = Group
together-placement = GPUs
together-verdict = Verdict
together-gain = Throughput relative to one after another
placement-own = own GPUs
placement-shared = shared GPUs
demand-cpu = CPU demand
demand-memory = Host memory demand
demand-gpu = GPU demand
demand-gpu_memory = GPU memory demand
demand-gpu_memory_traffic = Memory-controller demand
demand-used = { $demand } → used together
demand-data = Waiting for data, alone → together
verdict-parallel = parallel
verdict-parallel-within = parallel (within { $tolerance })
verdict-only-concurrent = only concurrent
verdict-no-gain = no gain
verdict-slower = slower than serial
verdict-too-noisy = undecided
verdict-overlap = not enough overlap
verdict-out-of-memory = out of memory
verdict-refused = not compared
longer = { $range } longer than alone
longer-in-times = { $range } times as long as alone
longer-or-less = from { $less } less to { $longer } longer than alone
together-parallel = Together ({ $group }): **{ $verdict }**. The slowest member, relative to its run alone, takes { $times ->
    [yes] { $most } times as long
   *[no] { $most } longer
}, within the tolerance of { $tolerance }.
together-no-slower = Together ({ $group }): **{ $verdict }**. No member is measurably slower than alone.
together-only-concurrent = Together ({ $group }): **{ $verdict }**. The members take { $longer }, yet together they do { $gain } times the work of one after another.
together-slower-than = Together ({ $group }): **{ $verdict }**. The members take { $longer }, and together they do { $gain } times the work of one after another.
together-no-gain = Together ({ $group }): **{ $verdict }**. The members take { $longer }, and together they do { $gain } times the work of one after another: running them together gains nothing.
together-noisy-gain = Together ({ $group }): **{ $verdict }**. The members take { $longer }; the throughput relative to one after another ({ $gain } times) { $why ->
    [impossible] is more than the CPUs allow
   *[noise] does not differ from 1 by more than noise
}.
together-noisy = Together ({ $group }): **{ $verdict }**. The difference from the runs alone ({ $times ->
    [yes] { $range } times as long
   *[no] { $range }
}) is within the noise.
together-runs = Runs of each (+ more needed for a verdict)
together-counted = { $counted } of { $looks }
together-foreign-left-out = Foreign CPU use during runs that do not count
together-left-out = Each was measured { $looks } times, alone and together; { $counted ->
    [0] none counts
    [one] only 1 counts, and the figures are from that one
   *[other] only { $counted } count, and the figures are from those
}.
left-out-foreign = Other programs used up to { $used } of the CPU during runs that do not count, most during { $label }.
left-out-incomplete = In a run that does not count, a member is missing.
left-out-overlap = { $label } does not count: it has no epoch while all members were running.
left-out-out-of-memory = { $label } does not count: it ran out of memory in the group.
together-looks = Each was measured { $looks } times, alone and together.
together-more = { $looks ->
    [one] 1 run of each does not decide it
   *[other] { $looks } runs of each do not decide it
}; if the times stay as they are, about { $more } more would: `repeat: {"{"}until: decided, at_most: { $most }{"}"}`.
together-undecidable = { $looks ->
    [one] 1 run of each does not decide it
   *[other] { $looks } runs of each do not decide it
}, and 100 more would not: the times vary too much from run to run, or are too close to the limit.
together-foreign = Together ({ $group }): **{ $verdict }**. Other programs used { $used } of the CPU while { $label } ran.
together-overlap = Together ({ $group }): **{ $verdict }**. { $label } has no epoch while all members were running: more epochs help.
together-out-of-memory = Together ({ $group }): **{ $verdict }**. { $label } ran out of memory in the group.
together-refused = Together ({ $group }): **{ $verdict }**. { $why }
refused-one-member = The group has only one member, so nothing ran alongside it.
refused-not-alone = { $label } should have run alone, but ran alongside { $others }; `exclusive: true` prevents that.
refused-no-solo = { $label } has no run alone to compare with.
refused-no-time = { $label } has no time to compare.
refused-resumed = { $label } has no epochs to compare. Its wall time covers several start-ups, because it resumed from a checkpoint.
refused-unlike = { $label } and its run alone had different conditions ({ $what }: { $other } against { $one }).
refused-ended = { $label } has no result ({ $how }).
refused-disturbed = { $label } is not reliable: { $why }.
rulings-in = Limiting: { $list }.
rulings-out = Not limiting: { $list }.
rulings-unclear = Undecided: { $list }.
rulings-unmeasured = No figures for { $list }.
rulings-free = Enough for all: { $list }.
ruling-demand = { $what } (demand { $demand })
ruling-used = { $what } (demand { $demand }, used { $used })
ruling-change = { $what } (up to { $together } of an epoch, up to { $alone } alone)
ruling-own = { $what } (own GPUs)
resource-cpu = CPU
resource-memory = host memory
resource-gpu = GPU
resource-gpu_memory = GPU memory
resource-gpu_memory_traffic = memory controller
resource-data = waiting for data

## The author's notes
note-question = Question: { $text }
note-guess = Guess: { $text }
note-todo = To do: { $text }
note-see = See { $text }
guess-confirmed = **Confirmed**: { $resource } limits { $groups }.
guess-confirmed-relieved = **Confirmed**: { $resource } limits { $groups }, and { $relieved }, { $kind ->
    [data] which hardly waits
   *[other] which has enough of it
}, runs in parallel.
guess-confirmed-alone = **Confirmed**: { $resource } limits the runs.
guess-refuted = **Not supported**: according to the figures, { $resource } does not limit { $groups }.
guess-open = **Open**: the figures neither confirm nor refute that { $resource } is the limit.

## The page
language = English
setup-no-gpu = none
setup-gpus-there = the machine has { $there }
setup-slurm = { $jobs ->
    [one] { $jobs } job
   *[other] { $jobs } jobs
} on { $nodes ->
    [one] { $nodes } node
   *[other] { $nodes } nodes
}
setup-versions = Versions
setup-profile = Profile
setup-profile-value = { $profile } ({ $why })
setup-set = Parameters set on the command line
setup-others = Other parameters
setup-runs = Runs
setup-commit = Git commit
setup-commit-clean = { $commit }
setup-commit-dirty = { $commit }, with changes not committed
setup-commit-outside = , with inputs that are not in Git
setup-method = What the words mean
method-same = The same, flat: within { $same } (shares: within { $share } points).
method-course = Rises, falls: by more than { $same } (shares: { $share } points), and back by at most { $back } of the way.
method-linear = Linear: R² is at least { $linear }, and no point is more than { $off } off.
method-fit = A fitted curve: R² is at least { $fit }, and no point is more than { $off } off.
method-jumps = Jumps: { $jump } times the scatter of the differences between neighbours.
method-parallel = Parallel: no member is more than { $parallel } slower than alone (`tolerance:` changes that).
method-bound = Bound: a load of at least { $full }, or { $waiting } of an epoch spent waiting for data.
method-reproduced = Reproduced: in the same direction, and neither effect is more than { $times } times the other.
method-tests = Tests: p of at most { $p }.
section-title = { $step } by { $rows }
section-title-one = { $step }
section-title-where = { $title }, { $where }
changes-title = Change from { $a } to { $b }
changes-differences = The changes of { $columns } are differences: a ratio is undefined from 0 and misleading for negative values.
remark-fake-gpus = The GPUs of this report were declared, not real.
remark-left-out = Left out: { $step } ({ $why }).
remark-foreign-cpu = { $label } ran while other programs used { $used } of the CPU.
remark-foreign-cpu-several = { $count } results were measured while other programs used the CPU: up to { $used } of it, during { $label }.
remark-measure-again = On a quiet machine, { $command } measures again.
remark-unwatched = { $count ->
    [1] While { $label } ran, flow could not see the steps of other runs on its machine.
   *[other] While { $count } results were measured, flow could not see the steps of other runs on their machine; one of them is { $label }.
}
remark-foreign-processes = { $label } shared its GPU with other programs: { $names }.
remark-foreign-processes-unnamed = { $label } shared its GPU with other programs.
remark-gpu-shared = { $count ->
    [1] { $label } shared its GPU: others used { $used } of its time
   *[other] { $count } results shared their GPUs: others used up to { $used } of a GPU's time, most during { $label }
}.
remark-gpu-shared-own = { $count ->
    [1] { $label } shared its GPU with other steps of flow, as planned: they used { $used } of its time
   *[other] { $count } results shared their GPUs with other steps of flow, as planned: up to { $used } of a GPU's time, most during { $label }
}.
remark-limit = GPU memory was limited to { $limit } (`memory_limit`). A run that exceeds the limit may still fit into the GPU's memory.
remark-short-epochs = { $count ->
    [1] An epoch of { $label } takes { $min } on average, less than { $bound }
   *[other] In at least { $count } results an epoch takes less than { $bound } on average, the shortest { $min } ({ $label })
}: overhead and chance matter much in so short a time.
remark-few-epochs = { $count ->
    [1] The time of { $label } is the mean of only { $min ->
        [1] 1 epoch
       *[other] { $min } epochs
    }
   *[other] The times of { $count } results are means of fewer than { $bound } epochs, the fewest { $min } ({ $label })
}, so the spread between epochs is hardly known.
remark-chance = { $count ->
    [1] { $label } is at chance level
   *[other] { $count } results are at chance level, among them { $label }
}: its { $column } is { $value }, and a guess among { $classes } classes gives about as much.
chart-over = { $column } over { $axis }
chart-gpus = { $gpus ->
    [0] no GPU
    [1] 1 GPU
   *[other] { $gpus } GPUs
}
chart-bars = Error bars: { $kinds }.
chart-bands = Bands: { $kinds }.
chart-merged = Lines that differ by less than { $share } of the y axis are drawn as one.
chart-bars-sd = standard deviation
chart-bars-interval = 95% confidence interval of the mean
chart-bars-range = minimum to maximum
chart-bars-runs = shortest to longest of the repeated runs
chart-alone = alone
chart-predicted = together, predicted from alone
chart-together = together
chart-together-alt = Alone against together
chart-packed = packed
chart-packed-alt = Wall time alone and packed
chart-time = Time
chart-time-epochs = Time since the first epoch began
chart-load-gpu = GPU
chart-load-host = Host
chart-now = now
chart-no-result = no result
chart-odd-epochs = odd epochs
chart-load-alt = Load and memory over time of { $label }{ $shaded ->
    [yes] , odd epochs shaded
   *[no] {""}
}

## Reasons for outcomes, skipped steps and disturbed measurements
cause-condition-false = { $expression } is false
cause-empty-axis = its axis { $axis } is empty
cause-no-instances = it has no instances
cause-no-instances-of = { $step } has no instances
cause-no-instances-because = { $step } has no instances: { $why }
cause-all-skipped = all its instances are skipped
cause-request-too-large = it needs more than there is
cause-unresolved = { $error }
cause-no-input = { $error }
cause-no-environment = the environment { $name }: { $error }
cause-result-unseen = flow cannot check whether its stored result is complete: { $error }; the result is kept; run again
cause-not-provided = { $uses } is not installed here
cause-member-cannot-run = { $label } of its co-run group cannot run: { $why }
cause-need-cannot-run = { $label } cannot run
cause-need-failed = { $label } did not succeed
cause-other-failed = { $label } failed, and -k was not given
cause-member-failed = { $label } of its group did not succeed
cause-run-cancelled = the run was cancelled
cause-decided = the verdict on { $group } is already known: { $verdict }, after { $looks ->
    [one] 1 run of each
   *[other] { $looks } runs of each
}
cause-decided-not = { $group } cannot be compared, and a repetition would not change that
cause-not-run = it was not run
cause-gpu-gone = a GPU that it needs was lost
cause-not-started = it could not be started
cause-not-started-because = { $error }
cause-builtin = { $error }
cause-nothing-to-show = no section has anything to show
cause-no-schedule = it has no schedule
cause-reported-failure = the program reported a failure without a reason
cause-reported-success = the program reported `ok`, then { $end }
cause-no-report = the program { $end } without reporting an outcome
cause-exited = { $end }
cause-exited-line = { $end }: { $line }
cause-out-of-memory = { $gpu ->
    [yes] it ran out of GPU memory
   *[no] it ran out of host memory
}
cause-killed-for-memory = the kernel killed it because the host ran out of memory
cause-timed-out = it ran longer than its timeout of { $limit } s
cause-failed = failed
batch-job = job { $id }
batch-its-job = its job
batch-node-lost = Slurm lost the node { $node } while it ran { $job }
batch-some-node-lost = Slurm lost a node while it ran { $job }
batch-time-limit = { $job } reached its time limit in Slurm
batch-time-limit-why = { $end }: { $why }
batch-no-checkpoint = it left no checkpoint in `FLOW_CHECKPOINT` for another job to resume from; set `slurm: {"{"}time: …{"}"}`, use a partition with a longer limit, or let the step write checkpoints
batch-no-progress = it wrote no new checkpoint, so another job would make no progress; set `slurm: {"{"}time: …{"}"}`, use a partition with a longer limit, or let the step write checkpoints more often
batch-not-resumed = it does not resume in another job, because the step has `resume: false`; set `slurm: {"{"}time: …{"}"}`, or use a partition with a longer limit
batch-group = members of a co-run group are measured together and cannot resume in another job; set `slurm: {"{"}time: …{"}"}`, or use a partition with a longer limit
batch-memory = { $job } used more memory than Slurm gave it: increase the step's `memory`
batch-cancelled = { $job } was cancelled in Slurm, not by flow
batch-preempted = { $job } was preempted by another job in Slurm
batch-not-launched = Slurm could not start { $job } on its node
batch-failed-code = { $job } ended in Slurm with exit code { $code } before flow started on its node
batch-failed = { $job } ended in Slurm before flow could record its result
batch-begun = { $job } ended in Slurm; flow had started on its node, but recorded no result
batch-last-line = { $end }: { $line }
batch-silent = { $end }, and its log is empty
batch-unread = { $end }: `slurm.log` in the attempt's folder may say more
batch-held = Slurm holds { $job } ({ $reason })
batch-unsatisfiable = { $job } would wait in Slurm forever ({ $reason })
batch-refused = Slurm refuses its job: { $error }
batch-vanished = Slurm no longer knows { $job }, and it left no result
cause-not-listed = { $how }; { $path } is in the project but not in the step's work folder: list it in `inputs:`
cause-no-repository = { $how }; the step's work folder is outside the Git repository: the step has the commit in `FLOW_COMMIT` and the project's folder in `FLOW_ROOT`
cause-no-output = it ended without writing its output { $output } to { $path }
cause-no-output-nothing = there is no new file in its work folder { $work }
cause-no-output-new = new files in its work folder { $work }: { $files }
cause-no-output-new-more = new files in its work folder { $work }: { $files } and { $more } more
cause-output-unseen = flow cannot look at its output { $output } in { $path }: { $error }
cause-not-stored = { $error }
cause-gpu-lost = GPU { $gpu } ({ $model }) was lost while it ran
cause-gpu-lost-how = GPU { $gpu } ({ $model }) was lost while it ran ({ $how })
cause-set-up-again = { $how }; the next run sets { $plugin } up again
end-code = ended with exit code { $code }
hint-killed = flow did not kill it; the OOM killer of a container or control group may have: `dmesg` shows that
hint-broken-pipe = a command in a pipe kept writing after its reader, such as `head`, had ended (SIGPIPE); `|| true` ignores that
hint-module = this shell has no `module`; begin the script with `source /etc/profile.d/modules.sh`, or with the file that defines it here
hint-conda = this shell cannot activate environments; begin the script with `source PREFIX/etc/profile.d/conda.sh`, where PREFIX is the folder of conda, or use `PREFIX/bin/conda run -n ENV …`
end-signal = was killed by { $name }
end-unknown = ended in an unknown way
lack-gpu-count = { $n ->
    [0] no GPU
    [1] 1 GPU
   *[other] { $n } GPUs
}
cpu-count = { $n ->
    [1] 1 CPU
   *[other] { $n } CPUs
}
cpu-count-of = { $n } of { $of } CPUs
lack-gpus = needs { $needs }, this machine has { $has }
lack-gpus-trouble = needs { $needs }, this machine has { $has } ({ $trouble })
lack-gpu-memory = needs { $needs } with { $memory } of memory each; this machine has { $has } (the largest has { $largest })
lack-cpus = needs { $needs }, this machine has { $has }
lack-memory = needs { $needs } of memory, this machine has { $has }
lack-group-gpus = is in a group of { $members } that needs { $needs } of its own; this machine has { $has }
lack-group-gpu-memory = is in a group of { $members } that needs { $memory } on each of { $needs }; this machine has { $has } with that much
lack-group-memory = is in a group of { $members } that needs { $needs } of memory; this machine has { $has }
lack-member = is in a group with { $label }, which { $why }
filling-own = flow cannot create { $path }: { $error }
filling-input = flow cannot copy the input { $path } to the work folder: { $error }
filling-input-in-input = the input { $path } would be written into the input { $folder }: rename one of them
filling-input-changed = { $path } changed during the run; run again
filling-environment-changed = packages of the environment { $name } changed during the run; run again
environment-changes = { $name } ({ $list })
filling-artifact = { $error }
filling-no-plugin = the plugin { $plugin } no longer exists
metrics-unread = flow cannot read { $file }, which should hold its metrics: { $error }
metrics-no-json = { $file } with its metrics is not valid JSON: { $error }
metrics-no-numbers = { $file } with its metrics is neither an object of numbers nor a list of such objects
metrics-bad-line = { $file } with its metrics: line { $line } is not a JSON object: { $text }
metrics-no-header = the first row of { $file } with its metrics is numbers; expected a header with column names
metrics-none-in-file = { $file }, which should hold its metrics, has no number
metrics-none-in-table = { $file }, which should hold its metrics, has no number below its header
metrics-no-event-file = { $file }, which should hold its metrics, has no TensorBoard event file
metrics-bad-event = the event file { $file } with its metrics is damaged from byte { $at } on; the rest is not read
metrics-unmatched-nearest = { $pattern } (nearest: { $line })
metrics-none-matches = no printed line matches { $several ->
    [yes] the patterns
   *[no] the pattern
} of its metrics: { $patterns }; `flow logs` shows the lines
refusal-other-protocol = the plugin { $plugin } uses protocol { $theirs }, this flow uses { $ours }: { $newer ->
    [yes] use a newer flow
   *[no] build the plugin against the present protocol
}
refusal-no-hello = the program wrote a message before `hello`; its first line must be a `hello` with protocol { $protocol }
refusal-messages-unread = flow cannot read its messages: { $error }
refusal-log-unread = flow cannot read its log: { $error }
refusal-log-too-long = it printed more than { $most } MiB, and the file system cannot drop the middle of a log ({ $error })
refusal-not-reached = flow cannot tell it to continue or to end in { $folder }: { $error }
disturbed-foreign-process = a foreign process, { $pid } ({ $name }), computed on GPU { $gpu } during the run
disturbed-gpu-silent = GPU { $gpu } did not answer for { $seconds } s during the run, so its activity then is unknown
disturbed-other-runs = it required the whole machine, but other runs had steps on it, up to { $attempts } at once
disturbed-input-changed = { $path } changed while it ran
disturbed-input-rewritten = { $path } changed while it ran: it was written { $seconds } s after the start, and has its old content again
disturbed-input-written = a step wrote into the read-only copy of { $path }; your own files are unchanged
disturbed-input-written-itself = it wrote into its read-only copy of { $path }; your own files are unchanged
disturbed-artifact-gone = { $path } is read-only, but was changed or removed while it ran
disturbed-artifact-changed = { $path } is read-only, but { $damage }
disturbed-artifact-unseen = flow cannot check whether { $path } is unchanged: { $error }
caveat-first-values = its series keep the first { $kept } of { $printed } values; last, min and max cover all of them
caveat-output-unread = { $size } of its output were not read, so its metrics may lack numbers printed there
caveat-other-environment = it resumed from a checkpoint of another software environment: { $list }
caveat-other-environment-more = it resumed from a checkpoint of another software environment: { $list } and { $more } more differences
disturbed-other-hardware = it declared { $declared }, but ran on { $found }
damage-missing = is missing
damage-changed = was changed
damage-changed-in = was changed: { $path }
damage-content = has content that does not match its name
profile-requested = selected with --profile
profile-holds = { $expression } is true

## Schedules
gantt-time = Time ({ $unit ->
    [seconds] seconds
    [minutes] minutes
    [hours] hours
   *[days] days
})
gantt-part = the first { $shown } of { $all } { $unit ->
    [seconds] seconds
    [minutes] minutes
    [hours] hours
   *[days] days
}
gantt-part-gpus = { $shown } of { $all } GPUs
gantt-cpu = Host CPU (cores)
gantt-waiting = Jobs waiting
gantt-no-gpu = no GPU
gantt-others = others
chart-schedule-alt = Schedule of { $label }
chart-schedule-caption = Schedule of { $label }{ $of ->
    [1] {""}
   *[other] {" "}in the first of { $of } simulations
}{ $whole ->
    [yes] {""}
   *[no] : { $part }
}.
chart-schedule-how = A bar is a job, drawn on every GPU that it holds; jobs that share a GPU are stacked.
column-policy = Policy
column-density = Density
column-time_in_system = Mean JCT
column-time_in_system_p99 = P99 JCT
column-waiting = Mean waiting
column-makespan = Makespan
column-gpu_use = GPU use
column-gpu_held = GPU allocation
column-cpu_use = CPU use
side = { $name } ({ $value })
rival = { $name } ({ $by }, { $range })
rival-alike = { $name } (no difference in the digits shown)
peers = Not distinguishable from { $name } (differences with simultaneous 95% confidence intervals): { $peers }.
finding-best = At { $axis } { $at }, { $column } is lowest with { $best } and highest with { $worst }.
finding-none-distinguished = At { $axis } { $at }, { $column } does not distinguish { $split } values: { $best } to { $worst }, a difference of { $by } (95% interval { $range }).
finding-order = { $column }, from the lowest: { $order }.
order-place = { $axis } { $value }
order-pair = { $first } has less than { $second }
finding-order-holds = By { $column }, the order of { $names } is that of { $table } at { $place }, wherever they are distinguishable there.
finding-order-holds-in-part = By { $column }, the order of { $names } is only partly that of { $table } at { $place }. Here { $turned }; there the reverse. All other distinguishable pairs have the same order.
finding-order-turned = By { $column }, the order is not that of { $table } at { $place }. Here { $turned }; there the reverse.
finding-order-open = By { $column }, no two of { $names } are distinguishable in { $table } at { $place }, so no order can be compared.
finding-alike = At { $axis } { $at }, { $column } differs by at most { $apart } between { $split } values: { $range }.
turn = { $first } has less than { $second } at { $from } ({ $a } against { $b }) and more at { $to } ({ $c } against { $d })
finding-turns = The order by { $column } changes with { $axis }: { $turns }.
finding-at-most = The maximum of { $column } is { $most }, with { $parts } at { $axis } { $at }.

## Assumptions of simulations
assumed-heading = Assumed, not measured
assumed-heading-other = Assumed here, everything else as above
assumed-kind = Kind of job
assumed-share = Share of all jobs
assumed-gpus = GPUs
assumed-duration = Median duration alone (min)
assumed-spread = Spread of durations (standard deviation of the logarithm)
assumed-cores = Cores kept busy
assumed-busy = GPU busy
assumed-memory = Memory on each GPU (GiB)
assumed-cluster = Cluster: { $cluster } (nodes × GPUs){ $counts ->
    [yes] , { $cores } cores shared by all jobs
   *[no] ; CPUs do not count
}.
assumed-arrivals = { $jobs } jobs arrive independently (a Poisson process). The kind of each is drawn by its share, its duration from a log-normal distribution. The density of arrivals is the GPU time that jobs need, divided by the GPU time available.
assumed-trace = { $jobs } jobs of the trace { $file }, with arrivals, GPUs and durations as recorded.
assumed-seeds = { $seeds } simulations, with seeds 0 to { $last }. For one seed, all policies get the same jobs, which arrive faster at a higher density. Differences are taken seed by seed.
assumed-once = Nothing is random, so there is one simulation: how much other jobs would differ is unknown.
assumed-known = Every policy knows exactly how long each job takes alone.
assumed-errors = The policies get each job's duration alone with a log-normal error, whose logarithm has the standard deviation { $errors } (0: exact).
assumed-one-gpu = fifo-single and sjf-single give each job one GPU; a job for N GPUs takes N times as long on it.
assumed-priorities = A job's priority is one of { $levels } levels, all equally likely for every kind. Under the policy `priority`, a level is worth an hour of waiting.
assumed-v = Lyapunov: a GPU-second of expected service is worth V seconds of waiting, V = { $v }.
assumed-slurm = Slurm: flow decides which jobs to submit. Slurm starts them by priority and order; a later job may start first if an earlier one does not fit. A job has one node, and only GPUs count. flow has at most { $queue } jobs in the queue, and an array has at most { $array } tasks. The controller knows at most { $jobs } jobs, including those that ended in the last { $remembered_s } s. Every job waits { $delay_s } s for the jobs of other users. Jobs start every { $tick_s } s, at most { $rate } per second. A call of sbatch takes { $submit_s } s, and flow sees the end of a job after { $notice_s } s.
assumed-sharing = Sharing: a job joins others on a GPU if memory suffices, no job is predicted to take more than 2 times as long as alone, and the work done at once grows by at least a quarter of a job. Beyond 100% of a GPU's time, all jobs on it slow down alike. None of this was measured.
column-estimate_error = Error of run-time estimates
column-v = V

## Analyses
analysis-of = Of
analysis-points = Points
fit-title = { $column } over { $axis }: which curve
fit-curve = Curve
fit-coefficients = Coefficients (± 95% confidence)
fit-r2 = R²
fit-adjusted-r2 = Adjusted R²
fit-off = Off by at most
fit-aicc = AICc above the minimum
fit-p = p (F-test)
fit-chosen = Chosen
fit-curve-proportional = line through 0: b x
fit-curve-affine = line: a + b x
fit-curve-inverse = hyperbola: a + b / x
fit-curve-saturating = saturation: a + b x / (x + k)
fit-curve-broken = line with a break: a + b min(x, k) + c max(0, x − k)
fit-curve-quadratic = parabola: a + b x + c x²
fit-curve-cubic = cubic: a + b x + c x² + d x³
fit-curve-without-jumps = without its jumps, { $curve }
fit-note = flow chooses the curve with the fewest parameters among those with an AICc within 2 of the minimum. A line through 0 is excluded, and has no AICc here, if its R² is below 0 or the F-test finds a constant (p < 0.05). The F-test compares the line through 0 with the line, and the line with curves of more parameters; if k is fitted, its p is too small.
fit-none-chosen = If no slope differs from 0 significantly, no curve is chosen: the nearest curve would mean nothing.
fit-relative = { $all ->
    [yes] Errors are
   *[no] The errors of { $curves } are
} relative to the measured values: that fits the points better than errors of constant size, or as well with a simpler curve. R² still uses absolute errors, so it may fall as a curve gains parameters.
fit-constant = { $column } is the same at all { $points } points.
fit-few = { $points ->
    [one] { $points } point is too few to choose a curve of { $column } over { $axis }.
   *[other] { $points } points are too few to choose a curve of { $column } over { $axis }.
}
fit-none = { $course ->
    [up] { $column } rises with { $axis } from each point to the next, but no compared curve has this shape: the chosen one has R² = { $r2 } over { $points } points.
    [down] { $column } falls with { $axis } from each point to the next, but no compared curve has this shape: the chosen one has R² = { $r2 } over { $points } points.
   *[both] { $column } does not follow from { $axis } alone: the chosen curve has R² = { $r2 } over { $points } points. Noise or another factor matters too.
}
fit-far = No compared curve fits { $column } over { $axis }: the best, a { $curve }, is off by up to { $off }.
fit-proportional = { $column } is proportional to { $axis }: { $slope } per unit.
fit-proportional-so-far = { $column } is proportional to { $axis }: { $slope } per unit. The intercept of a line, { $intercept }, does not differ from 0 over { $points } points.
fit-affine = { $column } { $rises ->
    [yes] rises
   *[no] falls
} by { $slope } per unit of { $axis }; the intercept is { $intercept }.
fit-no-slope = { $column } neither rises nor falls significantly with { $axis }: the slope is { $slope } per unit of { $axis }.
fit-inverse = { $column } is { $fixed } { $sign } { $shared } / { $axis }: { $constant ->
    [yes] one part is constant, the other is divided by { $axis }
   *[no] it is divided by { $axis }, and no constant part differs from 0
}.
fit-saturating = { $column } { $rises ->
    [yes] rises
   *[no] falls
} with { $axis } and saturates: from { $from } by { $by } in total, half of it at { $axis } { $knot }.
fit-broken = { $column } bends at { $axis } { $knot }: per unit of { $axis } it changes by { $before } before and by { $after } after that point.
fit-without-jumps = { $column } jumps along { $axis }, and no compared curve has jumps. Without the jumps, { $curve ->
    [proportional] a line through 0
    [affine] a straight line
    [inverse] a hyperbola
    [saturating] a curve that saturates
    [broken] a line with a break
    [quadratic] a parabola
   *[cubic] a cubic
} suffices.
fit-quadratic = A parabola fits { $column } over { $axis } best of the compared curves.
fit-cubic = A cubic fits { $column } over { $axis } best of the compared curves.
fit-explains = R² is { $r2 } over { $points } points; the largest error is { $off }.
fit-furthest = The largest error over { $points } points is { $off }.
fit-explains-of-zero = R² is { $r2 } over { $points } points.
fit-parabola-adds-nothing = A straight line suffices: a parabola adds nothing (F-test, p { $p }).
fit-line-is-not-enough = A straight line is not enough: its AICc is { $more } above the minimum.
jumps-title = Jumps of { $column } along { $axis }
jumps-each = Where { $column } jumps along { $axis }
jumps-falls-at = Falls at
jumps-rises-at = Rises at
jumps-height-share = Relative to the level
jumps-both = { $column } falls at { $axis } { $falls }, and rises at { $rises }.
jumps-falls = { $column } falls at { $axis } { $falls }.
jumps-rises = { $column } jumps up at { $axis } { $rises }.
jumps-of-multiple = All are at the multiples of { $multiple }.
jumps-places = { $places } (by { $by })
jumps-fluctuation = Fluctuation
jumps-fluctuation-share = Fluctuation, relative to the level
jumps-between = Between
jumps-height = Difference
jumps-note = A jump is a difference between neighbours that stands out from the curve. flow reports jumps only if no curve, bend, growing or correlated noise explains the sweep as well. Among 100 sweeps of 16 to 70 points without jumps (lines, curves, waves, noise with a correlation up to 0.5 between neighbours), flow finds a jump in at most one. Fluctuation is the standard deviation about the curve.
jumps-at-multiples = { $what ->
    [falls] Falls to multiples of { $multiple }
   *[rises] Rises right after multiples of { $multiple }
} are { $more ->
    [yes] more frequent than by chance
   *[no] not more frequent than by chance
}: { $there } of { $of }, against { $chance } by chance (p { $p }, if all were independent).
jumps-expected = Jumps of { $column } along { $axis } at multiples, and by chance
jumps-what = What
jumps-what-falls = falls
jumps-what-rises = rises
jumps-multiple = Multiples of
jumps-there = There
jumps-of = All
jumps-by-chance = By chance
jumps-p-chance = p (as many by chance alone)
jumps-few = { $points ->
    [one] { $points } point is too few to detect jumps of { $column } along { $axis }.
   *[other] { $points } points are too few to detect jumps of { $column } along { $axis }.
}
jumps-none = No jump of { $column } along { $axis } stands out from the noise. The fluctuation is { $fluctuation } of the level; a single jump below about { $times } times that can go undetected.
jumps-difference = The difference of { $column } between { $a } and { $b } { $jumps ->
    [0] has no jump along { $axis }: { $b } adds none.
    [one] jumps at 1 place along { $axis }.
   *[other] jumps at { $jumps } places along { $axis }.
}
jumps-fluctuate = The relative fluctuation of { $column } about its curve differs (Brown–Forsythe test, p { $p }): from { $low } ({ $min }) to { $high } ({ $max }).
jumps-fluctuate-alike = The relative fluctuation of { $column } about its curve does not differ significantly (Brown–Forsythe test, p { $p }): { $low } ({ $min }) to { $high } ({ $max }).
jumps-alike = Whether fluctuations of { $column } differ, relative to the level
jumps-lowest = Lowest
jumps-highest = Highest
jumps-p = p (Brown–Forsythe test)
jumps-level = With p below 0.05 they differ.
best-title = Best { $column }
best-place = Point
best-difference = Difference
best-p = p
best-distinguished = Worse?
best-distinguished-yes = yes
best-distinguished-no = cannot tell
best-distinguished-unknown = unknown
best-nothing = No point has { $column }.
best-point = { $goal ->
    [min] The lowest
   *[max] The highest
} { $column }{ $center ->
    [mean] {" "}(mean)
    [median] {" "}(median)
   *[single] {""}
} is { $value }, at { $point }{ $order ->
    [below] , { $by } below the next, { $second } at { $next }
    [above] , { $by } above the next, { $second } at { $next }
    [rounded] . The next, equal in these digits, is at { $next }
    [same] ; the same at { $next }
   *[none] {""}
}.
best-same = The same at { $points }.
best-tied = The repetitions cannot tell it from { $tied_with } ({ $paired ->
    [yes] paired t-tests
   *[no] t-tests
}{ $p ->
    [none] {""}
   *[other] ; next: p { $p }
}).
best-few = With { $runs } repetitions, even a large difference may be chance.
tied-all = { $tied ->
    [1] the other point
   *[other] any of the { $tied } other points
}
tied-some = { $tied } points; the other { $worse ->
    [1] one is
   *[other] { $worse } are
} worse by more than noise
tied-named = { $points }; the other { $worse ->
    [1] one is
   *[other] { $worse } are
} worse by more than noise
tied-but = { $tied } points; only { $points } { $worse ->
    [1] is
   *[other] are
} worse by more than noise
tied-or = {" "}or from{" "}
tied-and = {" "}and{" "}
best-clear = Every other point is worse by more than noise ({ $paired ->
    [yes] paired t-tests
   *[no] t-tests
}).
spread-identical = Repetitions gave exactly the same number, so the run-to-run spread is unknown: does the command read `${"{{"} seed {"}}"}`?
best-unknown = Each point was measured once, so the noise is unknown.
best-note = { $paired ->
    [yes] Paired t-tests
   *[no] t-tests
}{ $comparisons ->
    [1] {""}
   *[other] {" "}with Bonferroni's correction for { $comparisons } comparisons
}. A point is worse if p is at most 0.05. `cannot tell`: the difference may be large, but repetitions differ as much.
best-note-medians = The table shows medians and their differences; p compares means.
best-more = Not listed: { $points }.
best-more-yes = { $n ->
    [1] 1 worse point
   *[other] { $n } worse points
}
best-more-no = { $n ->
    [1] 1 point
   *[other] { $n } points
} that cannot be told from the best
best-more-unknown = { $n ->
    [1] 1 point
   *[other] { $n } points
} with unknown noise

## Earlier figures
reference-earlier = earlier
note-again = { $lines ->
    [1] A line of { $file } has the same row as an earlier one, and the two are combined: { $first }.
   *[other] { $lines } lines of { $file } have the same rows as earlier ones, and are combined with these; the first is { $first }.
}
note-unmatched = { $lines ->
    [1] A line of { $file } matches no row here and is left out: { $first }.
   *[other] { $lines } lines of { $file } match no row here and are left out; the first is { $first }.
}
held-title = Findings in { $file } and now
held-then = In { $file }
held-now = Now
held-holds = Reproduced
held-yes = yes
held-differs = no, different
held-gone = no, not found
held-new = not in the earlier figures
held-open = undecided
held-note = Both sides use the same rules on the rows and columns that both have, with equal numbers of GPUs if known. How much the earlier figures vary is unknown.
note-no-reference = Not compared with { $file }: `reference.when` is false on this machine.

## The first screen
answer-none = No effect stands out.
answer-one-row = There is only one result, and nothing to compare it with.
answer-no-number = No result has a number to compare.
answer-parallel = { $group }, parallel: run the { $members } together; the worst slowdown is { $worst }.
answer-none-slower = { $group }, parallel: run the { $members } together; none is measurably slower than alone.
answer-only-concurrent = { $group }, only concurrent: run the { $members } together; they do { $gain } times the work of one after another, and each takes up to { $longest } times as long.
answer-no-gain = { $group }, no gain: together, the { $members } do { $gain } times the work of one after another, and each takes up to { $longest } times as long.
answer-slower = { $group }, slower than serial: run the { $members } one after another; together they do only { $gain } times the work, and each takes up to { $longest } times as long.
answer-undecided = { $group }: undecided. { $looks ->
    [one] 1 run of each is
   *[other] { $looks } runs of each are
} not enough: the { $members } together do { $gain } times the work of one after another.
answer-undecided-more = { $group }: undecided after { $looks ->
    [one] 1 run
   *[other] { $looks } runs
} of each: the { $members } together do { $gain } times the work of one after another. About { $more ->
    [one] 1 more run
   *[other] { $more } more runs
} of each would decide.
answer-more-groups = { $more ->
    [one] 1 more verdict in the report.
   *[other] { $more } more verdicts in the report.
}
answer-limit = Bottleneck: { $limit }.
front-worst = Worst slowdown
front-together = { $column }, { $n } together
front-group = { $group } ({ $n } at once)
front-limit = Bottleneck
front-demand-cpu = CPU demand / used
front-demand-gpu = GPU demand / used
front-finding = Finding
front-then = Then
front-now = Now
front-compared = Compared with { $file }
front-details = All measurements, charts, findings and method
front-setup = Set-up, versions and remarks
front-data = data
front-remarks = { $more ->
    [one] One more remark is below.
   *[other] { $more } more remarks are below.
}
news-report = report
news-all = all entries
news-more = { $more ->
    [one] 1 more section in the report.
   *[other] { $more } more sections in the report.
}
front-cost = { $results ->
    [one] 1 result
   *[other] { $results } results
}, { $time }
front-cost-gpu = { $results ->
    [one] 1 result
   *[other] { $results } results
}, { $time } of GPU time
finding-trend-up = { $column } rises with { $axis }, from { $first } at { $from } to { $last } at { $to }.
finding-trend-down = { $column } falls with { $axis }, from { $first } at { $from } to { $last } at { $to }.
finding-varies = { $column } varies with { $axis }: lowest { $first } at { $from }, highest { $last } at { $to }.
finding-constant = { $column } hardly depends on { $axis }: { $first } to { $last }.
finding-winner = Best { $column }{ $center ->
    [mean] {" "}(mean)
    [median] {" "}(median)
   *[single] {""}
}: { $value } at { $point }{ $order ->
    [same] ; the same at { $next }
    [rounded] ; next, equal in these digits, at { $next }
    [below] , { $by } below the next, { $second } at { $next }
   *[above] , { $by } above the next, { $second } at { $next }
}.
finding-winner-worst = Best { $column }{ $center ->
    [mean] {" "}(mean)
    [median] {" "}(median)
   *[single] {""}
}: { $value } at { $point }{ $order ->
    [same] ; the same at { $next }
    [rounded] ; next, equal in these digits, at { $next }
    [below] , { $by } below the next, { $second } at { $next }
   *[above] , { $by } above the next, { $second } at { $next }
}; worst { $last } at { $worst }.
finding-depends = { $column } depends most on { $axis }: on average { $value } at { $best }, { $other } at { $worst }; { $second } changes it by { $by }.
finding-winner-once = Each point ran once, so the run-to-run spread is unknown: `repeat: 3`{ $command ->
    [yes] , with `${"{{"} seed {"}}"}` in the command,
   *[no] {""}
} measures it.
finding-winner-same = { $tied ->
    [one] { $next } has the same value.
   *[other] { $tied } other points have the same value.
}
finding-winner-clear = The lead is larger than the run-to-run spread ({ $paired ->
    [yes] paired t-test
   *[no] t-test
}, p { $p }).
finding-winner-tied = { $runs ->
    [one] 1 run
   *[other] { $runs } runs
} of each cannot tell it from { $tied_with } ({ $paired ->
    [yes] paired t-tests
   *[no] t-tests
}; next: p { $p }).
finding-winner-more = To tell it from { $next }, each point needs about { $more ->
    [one] 1 more run
   *[other] { $more } more runs
}, if the difference is real.
finding-winner-most = To tell it from { $next }, each point needs more than { $most } more runs.
brief-about = { $column }
brief-about-time = where { $column } stops falling
brief-about-pays = largest step at which memory × time falls
brief-about-frontier = out of memory at
brief-about-line = { $column }, a straight line
brief-about-cost = cheaper at the same { $column }
brief-about-turns = where the order by { $column } changes
brief-flattens = { $at }
brief-falls = not by { $at }
brief-flat = flat, { $range }
brief-flat-to = flat to { $at }, { $range }
brief-min = shortest at { $at }
brief-pays = { $at }
brief-line = yes, R² = { $r2 }
brief-same = same
brief-undecided = undecided
held-opposite = no, the opposite
