//! The action that the store could not do, as a value. In JSON it is its English words.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::texts::{Texts, without};

macro_rules! actions {
    ($($action:ident = $words:literal,)*) => {
        /// An action of the store on a file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum StoreAction {
            $(
                #[serde(rename = $words)]
                $action,
            )*
            /// An action of another version of flow.
            #[serde(rename = "handle", other)]
            Other,
        }

        impl fmt::Display for StoreAction {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $( StoreAction::$action => $words, )*
                    StoreAction::Other => "handle",
                })
            }
        }
    };
}

actions! {
    Copy = "copy",
    CopyTo = "copy to",
    Create = "create",
    Find = "find",
    FollowLink = "follow the link",
    GiveAway = "give away",
    LinkTo = "link to",
    Lock = "lock",
    LookAt = "look at",
    LookAtDisk = "look at the disk of",
    LookAtFileSystem = "look at the file system of",
    LookForGroup = "look for the group of",
    MakeStore = "make a store in",
    MakeWritable = "make writable",
    MoveAside = "move aside",
    MoveIntoPlace = "move into place",
    MoveIntoStore = "move into the store",
    Open = "open",
    OpenToGroup = "open to its group",
    ReachDatabase = "reach the database of this machine by",
    Read = "read",
    ReadLink = "read the link",
    Remove = "remove",
    Settle = "settle",
    Store = "store",
    Sync = "sync",
    Use = "use",
    UseDatabase = "use the database",
    Write = "write",
}

without!(StoreAction);
