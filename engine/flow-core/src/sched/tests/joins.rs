//! Attempts from an earlier run that still run: they are joined at once, and hold nothing in the ledger.

use super::dsl::case;

#[test]
fn what_goes_on_is_joined_before_what_waits_and_holds_nothing_here() {
    case(
        "cpus=1 policy=fifo",
        "here
         next
         a orphaned cpus=64 gpus=8
         alone exclusive=machine
         b orphaned exclusive=machine",
        "0 submit     | start a; start b; start here
         1 exit b     | record b
         2 exit here  | record here; start next
         3 exit a     | record a
         4 exit next  | record next; start alone
         5 exit alone | record alone; finish",
    );
}

#[test]
fn a_group_that_goes_on_is_released_by_who_joins_it() {
    case(
        "cpus=1",
        "here
         pair orphaned group=p/own gpus=4
         pear orphaned group=p/own gpus=4",
        "0 submit         | start pair; start pear; start here
         1 ready pair     |
         2 ready pear     | release pair pear
         3 exit pair pear | record pair; record pear
         4 exit here      | record here; finish",
    );
}

#[test]
fn where_it_was_lost_the_next_attempt_asks_for_what_it_needs() {
    case(
        "cpus=1",
        "here
         a orphaned",
        "0 submit        | start a; start here
         1 lost a        |
         1 exit a failed | discard a until 1
         2 exit here     | record here; start a
         3 exit a        | record a; finish",
    );
}
