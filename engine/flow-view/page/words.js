// The page's words in English and Chinese, and how numbers, times and reasons read.

const WORDS = {
  lanes: ["GPUs and CPUs over time", "GPU 与 CPU 时间线"],
  "lanes-label": ["Attempts over time, one lane per GPU and one for the CPUs; the table below lists the same", "各次运行的时间线，每块 GPU 一行，CPU 一行；下表内容相同"],
  slider: ["Moment shown", "所示时刻"], latest: ["Latest", "最新"], instances: ["Instances", "实例"],
  filter: ["Filter by name or state", "按名称或状态筛选"], step: ["Step", "步骤"], "all-steps": ["all steps", "所有步骤"], columns: ["Columns", "列"],
  "copy-csv": ["Copy as CSV", "复制为 CSV"], copied: ["Copied", "已复制"], "copy-failed": ["The browser did not allow copying", "浏览器不允许复制"],
  curves: ["Curves", "曲线"], "curves-label": ["A metric over epochs, one line per instance", "指标随 epoch 的变化，每个实例一条线"],
  metric: ["Metric", "指标"], "x-axis": ["x axis", "x 轴"], "by-epoch": ["over epochs", "按 epoch"], "by-time": ["over time", "按时间"],
  "log-axis": ["log axis", "对数坐标"], "no-curves": ["No instance has reported epochs yet.", "尚无实例报告 epoch。"],
  choose: ["Draw its curve", "画出曲线"], "only-first": ["the first {0}; tick instances in the table to choose", "仅前 {0} 个；在表中勾选以选择"],
  more: ["{0} more; filter to find them", "另有 {0} 个，可筛选查找"], "show-all": ["Show all {0}", "显示全部 {0} 个"],
  nothing: ["Nothing matches.", "无匹配项。"], state: ["State", "状态"], instance: ["Instance", "实例"], time: ["Time", "用时"],
  load: ["GPU load", "GPU 负载"], gpu_memory: ["GPU memory", "显存峰值"], cores: ["CPU cores", "CPU 核数"], reason: ["Why", "原因"],
  best: ["best epoch", "最佳 epoch"], mean: ["mean of {0} epochs", "{0} 个 epoch 的均值"], running: ["running", "运行中"],
  lost: ["was running", "曾在运行"], queued: ["queued", "排队中"], waiting: ["waiting", "等待"], ok: ["done", "完成"], cached: ["cached", "缓存"],
  failed: ["failed", "失败"], out_of_memory: ["out of memory", "内存不足"], timed_out: ["timed out", "超时"],
  does_not_fit: ["does not fit", "资源不足"], cancelled: ["cancelled", "已取消"], skipped: ["skipped", "已跳过"],
  not_needed: ["not needed", "无需运行"], "run-running": ["running", "运行中"], "run-ending": ["ending", "正在结束"], "run-done": ["done", "完成"],
  "run-failed": ["a step failed", "有步骤失败"], "run-interrupted": ["interrupted", "已中断"],
  "run-gone": ["engine gone since {0}", "引擎自 {0} 起已不在"], "run-past": ["at {0}", "{0} 时"],
  "not-reached": ["flow view does not answer: it has ended, or the connection is lost. The page tries again.", "flow view 无响应：已退出或连接中断，页面会重试。"],
  "not-allowed": ["flow view was started again: open its new link.", "flow view 已重新启动：请打开新链接。"], ends: ["about {0} left", "约剩 {0}"],
  "ends-or-more": ["at least {0} left", "至少还需 {0}"], took: ["took {0}", "用时 {0}"], "for": ["for {0}", "已运行 {0}"], run: ["run {0}", "运行 {0}"],
  from: ["from {0}", "来自 {0}"], policy: ["policy {0}", "策略 {0}"], profile: ["profile {0}", "profile {0}"],
  fake: ["declared, not real", "声明的，并非真实"], notices: ["{0} notices", "{0} 条通知"], notice: ["1 notice", "1 条通知"], later: ["later", "之后"],
  close: ["Close", "关闭"], attempts: ["Attempts", "运行次数"], began: ["Began", "开始"], place: ["On", "位置"], gpu: ["GPU {0}", "GPU {0}"],
  "cpus-n": ["{0} CPUs", "{0} 个 CPU"], "cpu-1": ["1 CPU", "1 个 CPU"], cpus: ["CPUs", "CPU"], "gpus-n": ["{0} × {1}", "{0} × {1}"],
  metrics: ["Metrics", "指标"], usage: ["Usage", "资源用量"], circumstances: ["Circumstances", "运行环境"],
  "over-time": ["Measured over time", "测量过程"], log: ["End of its log", "日志末尾"],
  "no-log": ["There is no log: bundles have none, and `flow gc` drops old ones.", "没有日志：bundle 不含日志，`flow gc` 会删除旧日志。"],
  "wall": ["Wall time", "总用时"], rss: ["Memory peak", "内存峰值"], energy: ["GPU energy", "GPU 能耗"], read: ["Read", "读取"],
  written: ["Written", "写入"], mode: ["Mode", "方式"], plain: ["other steps may run alongside", "其他步骤可同时运行"], alone: ["alone", "独占"],
  corun: ["in a co-run group", "co-run 组内"], machine: ["Machine", "机器"], driver: ["Driver", "驱动"], corunners: ["Alongside", "同时运行"],
  strangers: ["Foreign processes", "外部进程"], foreign_cpu: ["Foreign CPU load", "外部 CPU 负载"], cpu_saturated: ["CPUs saturated", "CPU 饱和时间"],
  revision: ["Commit", "Git 提交"], dirty: ["{0}, with uncommitted changes", "{0}，有未提交的改动"], params: ["Parameters", "参数"],
  disturbed: ["Disturbed", "受干扰"], caveat: ["Note", "说明"], "made-by": ["Result of run {0}", "结果来自运行 {0}"],
  cached_from: ["reused from run {0}", "沿用运行 {0} 的结果"], "why-more": ["{0} more reasons", "另有 {0} 个原因"],
  "after-steps": ["decided after {0}", "在 {0} 之后决定"], turn: ["waits for a dependency or its turn", "等待依赖或轮到它"],
  "why-never_ran": ["its first run", "首次运行"], "why-continues": ["resumes from a checkpoint", "从 checkpoint 继续"],
  "why-forced": ["forced", "强制运行"], "why-collects": ["collected from run {0}, which was killed", "收回被终止的运行 {0} 的结果"],
  "why-forgotten": ["its result was dropped", "其结果已被删除"], "why-no_result": ["no stored result", "没有已存结果"],
  "why-not_reusable": ["its result may not be reused", "其结果不可沿用"], "why-undecided": ["the verdict on {0} is undecided", "{0} 的结论未定"],
  "why-group_member": ["{0} of its co-run group must run", "同组的 {0} 必须运行"],
  "why-group": ["its co-run group has other members", "并行组的成员变了"], "why-value": ["`{0}` was {1}, is {2}", "`{0}` 由 {1} 变为 {2}"],
  "why-plugin_rebuilt": ["the plugin {0} was rebuilt", "插件 {0} 已重新构建"], "why-artifact": ["the output of `{0}` changed", "`{0}` 的输出变了"],
  "why-order": ["the outputs of `{0}` come in another order", "`{0}` 的输出顺序变了"], "why-input": ["input `{0}` changed", "输入 `{0}` 变了"],
  "why-measurement": ["whether it is a measurement changed", "是否为测量变了"], "why-results": ["results of {0} changed", "{0} 的结果变了"],
  "why-set": ["overridden parameters changed", "命令行覆盖的参数变了"], "why-seen": ["what it sees changed", "其所见内容变了"],
  "why-many": ["many parts changed", "多处变了"], "why-format": ["flow's format of fingerprints changed", "flow 的指纹格式变了"],
  "wait-resources": ["waits for {0}", "等待 {0}"], "wait-others": ["needs the machine exclusively; {0} still running", "需独占机器；{0} 仍在运行"],
  "wait-exclusive": ["{0} has the machine exclusively", "{0} 独占机器"], "wait-other_runs": ["another run of this machine: {0}", "本机的其他运行：{0}"],
  "wait-reserved": ["room is kept for {0}", "资源留给 {0}"], "wait-turn": ["{0} goes first", "{0} 在先"],
  "wait-elsewhere": ["run {0} is making it already", "运行 {0} 正在做"], "wait-retry": ["failed, retried soon", "失败，稍后重试"],
  "wait-barrier": ["ready; {0} not", "已就绪；{0} 尚未"], "r-jobs": ["a free job slot", "作业名额"], "r-queue": ["a place in the queue", "队列位置"],
  "r-cpus": ["CPUs", "CPU"], "r-memory": ["memory", "内存"], "r-gpus": ["a GPU", "GPU"], "r-gpu_memory": ["memory of GPU {0}", "GPU {0} 的显存"],
  "r-gpu_busy": ["time on GPU {0}", "GPU {0} 的时间"], "r-gpu_measured": ["time on GPU {0}", "GPU {0} 的时间"],
  "r-gpu_lost": ["GPU {0}, which does not respond", "GPU {0}（无响应）"], "r-gpu_kept": ["GPU {0}, kept for another run", "GPU {0}（留给其他运行）"],
};

let at = 0;
export const language = () => (at ? "zh" : "en");
export function speak(lang) {
  at = lang === "zh" ? 1 : 0;
  document.documentElement.lang = language();
}

export function w(key, ...values) {
  const pair = WORDS[key];
  return pair ? pair[at].replace(/\{(\d)\}/g, (_, n) => String(values[n] ?? "")) : key.replaceAll("_", " ");
}

// A text that the server has in both languages.
export const said = (pair) => (pair ? pair[at] : "");

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "";
  const s = Math.max(0, seconds);
  if (s < 0.1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(s < 1 ? 2 : 1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const [h, m, rest] = [Math.floor(s / 3600), Math.floor(s / 60) % 60, Math.floor(s) % 60];
  return h ? `${h} h ${m} min` : `${m} min ${rest} s`;
}

// 1:05, for axes.
export function clock(seconds) {
  const s = Math.max(0, Math.round(seconds));
  const two = (n) => String(n).padStart(2, "0");
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

export const moment = (ms) => new Date(ms).toLocaleTimeString(language() === "zh" ? "zh-CN" : "en-GB");
export const day = (ms) => new Date(ms).toLocaleString(language() === "zh" ? "zh-CN" : "en-GB", { dateStyle: "medium", timeStyle: "short" });

export function bytes(n) {
  if (n === null || n === undefined) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < 4) [n, at] = [n / 1024, at + 1];
  return `${at && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[at]}`;
}

export const percent = (share) => (share === null || share === undefined ? "" : `${(share * 100).toFixed(share < 0.0995 && share > 0 ? 1 : 0)}%`);

// Four significant digits, never cut in the middle.
export function number(v) {
  if (typeof v !== "number") return v === null || v === undefined ? "NaN" : String(v);
  const size = Math.abs(v);
  if (Number.isInteger(v) && size < 1e7) return v.toLocaleString("en-US");
  if (size >= 1e7 || (size < 1e-3 && size > 0)) return v.toExponential(2);
  if (size >= 1000) return Math.round(v).toLocaleString("en-US");
  return v.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4);
}

export function quantity(v, unit) {
  if (typeof v !== "number") return number(v);
  if (unit === "bytes") return bytes(v);
  if (unit === "ratio") return `${(v * 100).toFixed(1)}%`;
  return unit ? `${number(v)} ${unit}` : number(v);
}

const short = (value) => (typeof value === "string" ? value : JSON.stringify(value ?? null));

export function why(why) {
  if (!why) return "";
  const said = why.first.map(({ kind, of }) => {
    if (kind === "said" || kind === "damaged") return String(of);
    if (kind === "value") return w("why-value", of.name || of.kind, short(of.was), short(of.is));
    if (kind === "undecided") return w("why-undecided", of.group);
    if (kind === "results") return w("why-results", of.of);
    return w(`why-${kind}`, ...(Array.isArray(of) ? of : [of]).map((part) => (typeof part === "string" ? part.replace(/^in\//, "") : "")));
  });
  return [...new Set(said), ...(why.more ? [w("why-more", why.more)] : [])].join("; ");
}

const labels = (of) => (of ? of.first + (of.more ? ` +${of.more}` : "") : "");

export function waits(of) {
  if (of.kind === "resources") {
    const one = ({ resource, requested, available }) => {
      const [name, gpu] = typeof resource === "string" ? [resource, ""] : Object.entries(resource)[0];
      const amount = ["cpus", "gpus"].includes(name) ? ` (${available}/${requested})` : "";
      return w(`r-${name}`, gpu) + amount;
    };
    return w("wait-resources", of.short.map(one).join(", "));
  }
  return w(`wait-${of.kind}`, of.label || of.run || labels(of.running || of.missing || of.runs));
}
