//! Errors of built-in steps whose parameters cannot be satisfied.

use super::{Fault, NameList, fault::faults};

faults! {
    /// An error in the parameters of a table, report, analysis or simulation, or in their input.
    BuiltinFault {
        NoSuchBuiltin { name: String, known: NameList } = "there is no step flow/{name}; there are {known}",
        ParametersUnread { message: String } = "`with`: {message}",
        NotWritten { message: String } = "its findings cannot be written: {message}",
        InputUnread { path: String, error: Box<Fault> } = "`{path}` cannot be read: {error}",
        InputTooLarge { path: String, most: u64 } = "`{path}` is larger than {most} MiB",
        OutputNotWritten { path: String, error: Box<Fault> } = "`{path}` cannot be written: {error}",
        SeriesUnread { label: String, message: String } = "the series of {label} cannot be read: {message}",
        TraceUnread { path: String, error: Box<Fault> } = "the trace `{path}` cannot be read: {error}",

        NoSuchStep { step: String } = "there is no step `{step}`",
        NoSource { step: String } = "`from: {step}`: there is no such step",
        NotATable { step: String } = "`table: {step}`: that step is not a flow/table",
        NoTable { step: String } = "the step `{step}` has no table",
        TableUnread { step: String, message: String } = "the table of `{step}` cannot be read ({message}); run the step again",
        AnalysisUnread { step: String, message: String } = "the analysis of `{step}` cannot be read ({message}); run the step again",
        ScheduleUnread { label: String, message: String } = "the schedule of `{label}` cannot be read ({message}); run the step again",
        AnalysisOfOther { step: String, table: String, other: String } =
            "`analyses: {step}` is of the table `{table}`, not of `{other}`",

        LinkEmpty = "the link is empty",
        LinkWithBlanks { link: String } = "the link `{link}` has blanks or control characters in it; a blank is `%20`",
        LinkOfOtherScheme { scheme: String } = "a link cannot lead to `{scheme}`",
        LinkNowhere { link: String } = "`{link}` is neither an address nor a path",
        BadLink { error: Box<BuiltinFault> } = "`see`: {error}",
        BadDate { date: String } = "`date: {date}`: a day is written `2026-02-08`",
        TemplateFails { message: String } = "the template of the report: {message}",

        PictureOfNone { step: String } = "`pictures: {{from: {step}}}`: it has no instance at these values of its axes",
        PictureOfSeveral { step: String } =
            "`pictures: {{from: {step}}}`: it has several instances; `where: {{AXIS: VALUE}}` says which one",
        SeveralPictures { step: String, outputs: NameList } =
            "`pictures: {{from: {step}}}`: it has several pictures, {outputs}; `output: NAME` says which one",
        NoPicture { step: String } =
            "`pictures: {{from: {step}}}`: it has no such output that is a PNG, JPEG or WebP file of at most 4 MiB; `outputs: [plot.png]` keeps one",
        OtherPicture { step: String } =
            "`pictures: {{from: {step}}}`: its output is not a PNG, JPEG or WebP file, whatever its name; save it as one of these",
        BrokenPicture { step: String } =
            "`pictures: {{from: {step}}}`: the header of the picture is broken, so it cannot be shown",
        PictureTooLarge { step: String, width: u64, height: u64, most: u64 } =
            "`pictures: {{from: {step}}}`: it has {width} × {height} pixels, and a report shows up to {most} million; save a smaller one",
        ScheduleOfNone { step: String, point: String } = "`schedules`: step `{step}` has no instance at `where: {point}`",
        ScheduleOfSeveral { point: String, one: String, other: String } =
            "`schedules`: `where: {point}` means `{one}` and `{other}`; choose one",
        ChartOverNothing { column: String } = "`charts: {column}`: the table has no rows to draw it over",
        ChartOfNoColumn { column: String, error: Box<BuiltinFault> } = "`charts: {column}`: {error}",
        ChartOverNames { column: String, text: String, axis: String } =
            "`charts: {column}`: `{text}` of the rows' last axis `{axis}` is not a number, and a chart needs numbers",
        ChartNotBySeries { column: String, axis: String, known: NameList } =
            "`charts: {{column: {column}, over: {axis}}}`: no instance has it by {axis}; there are {known}",
        ChartOfNoInstance { step: String, point: String } =
            "`charts: {{load: {point}}}`: no instance of `{step}` is that",
        CompareWithoutSplit { axis: String, step: String } =
            "`compare: {axis}`: the table of `{step}` has no split; give it `split: {axis}`",
        CompareOtherSplit { axis: String, step: String, split: String } =
            "`compare: {axis}`: the table of `{step}` is split by `{split}`",

        CorunLikeNothing { step: String } =
            "`corun: {step}`: it is not `like` another step, so there are no runs alone to compare with",
        NoSuchColumn { table: String, column: String, hint: Hint } = "the table of `{table}` has no column `{column}`; {hint}",
        NoSuchFunction { column: String, function: String } =
            "column `{column}`: there is no function `{function}`; there are growth, ratio, speedup and difference",
        ColumnNotClosed { column: String } = "column `{column}`: `)` is missing",
        FunctionOfOne { column: String, function: String, example: String } =
            "column `{column}`: {function} takes the name of one column, `{example}`",
        NoDifference { column: String, values: u64 } =
            "`difference({column})` takes the second value of the `split` minus the first; here the split has {values} values",
        NoDifferenceOfOne { column: String } =
            "`difference({column})` takes the second value of the `split` minus the first; here the split has 1 value",
        NoDifferenceWithout { column: String } =
            "`difference({column})` takes the second value of the `split` minus the first; here the split has no axis",
        BaselineValue { axis: String, value: String, step: String } = "`baseline`: `{axis}` has no value `{value}` in step `{step}`",
        BaselineAxis { axis: String } = "`baseline: {axis}`: it is neither among the `rows` nor the `split`",
        NoSuchAxisOf { key: String, name: String, step: String, hint: AxesHint } = "`{key}: {name}`: step `{step}` has no such axis; {hint}",
        NeitherAxisNorRepeat { key: String, name: String, step: String, hint: AxesHint } =
            "`{key}: {name}`: step `{step}` has neither that axis nor `repeat`; {hint}",
        AxisTwice { axis: String, one: String, other: String } =
            "axis `{axis}` is in both `{one}` and `{other}`; remove it from one",
        AxisLeftOut { step: String, axis: String } =
            "step `{step}` also varies by `{axis}`, so several results would share a cell; add it to `rows`, make it the `split`, or take the mean `over` it",
        MachinesOverEpochs = "`machines: true`: results of other machines have no series, so `epoch` cannot be the rows",
        MeanOverMachines = "`over: machine`: numbers of several machines have no mean; put it into `rows`, or make it the `split`",
        GoalUnknown { column: String } =
            "flow cannot tell whether a low or a high `{column}` is better; set `goal: min` or `goal: max`",
        FitOverNothing { table: String } = "the table `{table}` has no rows by an axis: set `x` to one of its columns",
        JumpsOverNothing { table: String } = "the table `{table}` has no rows by an axis, along which it could jump",

        ReferenceAbsent { file: String } = "`reference`: {file} was not read",
        ReferenceUnread { file: String, error: Box<Fault> } = "`reference`: {file}: {error}",
        ReferenceWithoutColumn { file: String, column: String, hint: Hint } = "`reference`: {file} has no column `{column}`; {hint}",
        ReferenceWithoutAxis { file: String, axis: String, heads: NameList, example: String } =
            "`reference`: {file} has no column `{axis}`, by which rows are matched; it has {heads}. `{example}` names it",
        ReferenceUnit { file: String, column: String, unit: String, example: String } =
            "`reference`: {file}: `{column}` is in {unit} here: say the unit of that column, as in `{example}`",
        ReferenceOtherUnit { file: String, column: String, unit: String, given: String } =
            "`reference`: {file}: `{column}` is in {unit} here and in {given} there, and flow does not convert these units: convert the numbers of the file, or leave that column out, `columns: {{{column}: null}}`",
        ReferenceNoUnit { file: String, column: String, given: String } =
            "`reference`: {file}: `{column}` has no unit here and is in {given} there: give it its unit where it is measured, or leave that column out, `columns: {{{column}: null}}`",
        ReferenceNames { name: String, hint: Hint } = "`reference`: `columns:` names `{name}`, which this table does not have; {hint}",
        ReferenceWithoutHead { file: String, head: String, heads: NameList } =
            "`reference`: {file} has no column `{head}`, which `where:` names; it has {heads}",
        ReferenceNoOutcome { place: String, text: String } =
            "`reference`: {place}: `{text}` is not an outcome; expected such as `ok`, `out_of_memory`, `failed`",
        ReferenceNoNumber { place: String, head: String, text: String } =
            "`reference`: {place}: `{head}` is `{text}`, not a number",
        ReferenceOfNothing { file: String, own: NameList, heads: NameList } =
            "`reference`: {file} has none of {own}; it has {heads}. `columns: {{NAME: THEIRS}}` maps them",

        NotACluster { text: String, most: u32 } = "`{text}` is not a cluster; expected NODESxGPUS, such as 8x8, with at most {most} GPUs",
        TooManyJobs = "expected 1 to 1,000,000 jobs and 1 to 1,000 seeds",
        SlurmShares = "jobs of Slurm share neither GPUs nor one machine's CPUs: leave `share` and `cpus` out",
        SlurmNotANumber { part: String } = "`{part}` is not NAME=NUMBER",
        SlurmNoNumber { part: String, value: String } = "`{value}` in `{part}` is not a number",
        SlurmUnknown { name: String, known: NameList } = "Slurm has no `{name}` here; there are {known}",
        SlurmZero { name: String } = "`{name}` of Slurm is 0, expected 1 or more",
        SlurmOutside { name: String, value: String, min: String } = "`{name}` of Slurm is {value}, expected {min} to 10000000",
        KindOutside { kind_name: String, name: String, value: String, expected: Expected } = "{kind_name}: {name} is {value}, not {expected}",
        NoSuchPolicy { policy: String, hint: Hint } = "there is no policy `{policy}`; {hint}",
        VNegative { value: String } = "v is {value}, expected 0 or more",
        VOfOther { policy: String } = "`v` is a parameter of `lyapunov`, and `{policy}` has none",
        NoDensity = "there is no `density`: the GPU time that jobs need, as a share of the available GPU time, such as 0.9",
        DensityOutside { value: String } = "density is {value}, expected a share of the GPUs' time, such as 0.9",
        EmptyMix = "the mix has no kind with a weight above 0; give it one, or name a `trace`",
        OnePriority = "with one priority for all, `priority` is the same as `easy`; use more `priorities`, or `easy`",
        OnePriorityInTrace = "with one priority for all, `priority` is the same as `easy`; all jobs of the trace have the same priority",
        KindTooWide { kind_name: String, gpus: u32, has: u32 } = "{kind_name} asks for {gpus} GPUs, and there are {has}",
        TraceWithMix = "a `trace` has its own jobs and arrivals: leave `mix` and `density` out",
        TraceShares = "a `trace` has no GPU use of jobs, so they cannot `share` GPUs",
        BadTrace { line: u64, mistake: TraceFault, advice: String } = "the trace, line {line}: {mistake}; {advice}",
        TraceWithoutMistake = "the trace cannot be read",
        SimulationFails { message: String } = "{message}",
    }

    /// A suggestion for an unknown name.
    Hint {
        DidYouMean { near: String } = "did you mean `{near}`?",
        ItHas { names: NameList } = "it has {names}",
        ThereAre { names: NameList } = "there are {names}",
        ThereIs { names: NameList } = "there is {names}",
    }

    /// The axes that a step has.
    AxesHint {
        NoMatrix = "it has no matrix",
        ItsAxes { axes: NameList } = "its axes are {axes}",
    }

    /// The expected value of a number for a kind of jobs.
    Expected {
        ZeroOrMore = "0 or more",
        Between { min: u32, max: u32 } = "between {min} and {max}",
        CountOf { unit: Unit } = "a number of {unit}",
    }

    /// The unit of a number for a kind of jobs.
    Unit {
        Seconds = "seconds",
        Cores = "cores",
        Gibibytes = "GiB",
    }

    /// An error in a trace. The planner adds its advice.
    TraceFault {
        TraceWithoutColumn { name: String } = "there is no column `{name}`",
        TraceColumnTwice { name: String } = "there are two columns `{name}`",
        TraceJobTwice { job: String, first: u64 } = "job {job} is already on line {first}",
        TraceSwfFields { fields: u64 } = "{fields} fields; a job in the Standard Workload Format has 18",
        TraceWithoutJobs = "the trace has no jobs",
        TraceCellEmpty { column: String } = "{column} is empty, and a job without it cannot be simulated",
        TraceNoSeconds { column: String, text: String } = "{column} is `{text}`, not a number of seconds",
        TraceTooEarly { column: String, text: String } = "{column} is `{text}`, before the trace began",
        TraceTooLong { column: String, text: String } = "{column} is `{text}`, longer than can be simulated",
        TraceNoCount { column: String, text: String } = "{column} is `{text}`, not a count of GPUs",
        TraceNoPriority { text: String } = "priority is `{text}`, not a whole number",
        TraceTooWide { job: String, gpus: u32, has: u32 } = "job {job} asks for {gpus} GPUs, and there are {has}",
        TraceOneGpuOnly { job: String, gpus: u32, policy: String } =
            "job {job} asks for {gpus} GPUs, and policy `{policy}` runs one GPU a job",
        TraceLine { cells: u64, columns: u64 } = "{cells} cells where the first line names {columns} columns",
        TraceBroken { message: String } = "it cannot be read: {message}",
    }
}
