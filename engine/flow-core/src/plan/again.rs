//! Whether to run a repetition that was planned for a verdict. [`crate::verdict`] has the rule itself.

use crate::{
    ConditionalRepetition, InstanceId, SettledResults, StepResult, reason::Cause, verdict::groups, why::Reason,
};

/// Why it runs, or why it is not needed.
pub(super) fn again(again: &ConditionalRepetition, settled: &dyn SettledResults) -> Result<Reason, Cause> {
    let of = |ids: &[InstanceId]| -> Vec<&StepResult> {
        ids.iter().filter_map(|id| settled.result(*id)).filter(|result| result.was_tried()).collect()
    };
    let groups = groups(of(&again.together), of(&again.alone));
    let judged = groups.first().map(|group| group.judge(again.tolerance));
    match judged {
        Some(judged) if judged.verdict.is_undecided() => Ok(Reason::Undecided {
            group: again.group.clone(),
            looks: again.looks,
            at_most: again.at_most,
            gain: judged.called.map(|called| (called.gain, called.half)),
        }),
        judged => Err(Cause::Decided {
            group: again.group.clone(),
            // Fewer repetitions than planned may have run before this one.
            looks: judged.as_ref().map_or(again.looks, |judged| judged.looks.clamp(1, again.looks)),
            verdict: judged.as_ref().and_then(|judged| judged.verdict.call()),
        }),
    }
}
