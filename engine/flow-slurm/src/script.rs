//! The batch script of a job. It only starts `flow __node` in the attempt's folder.

/// Whether Slurm and the shell accept this path. `sbatch` removes backslashes, and a manifest has one path per line.
pub fn is_usable(path: &str) -> bool {
    path.starts_with('/') && !path.contains(['\\', '\n', '\r', '\0'])
}

/// The script for one attempt. Exit code 97 means that its folder does not exist. Slurm itself would continue in `/tmp`
/// and report success.
pub fn script(flow: &str, folder: &str) -> String {
    let (flow, folder) = (quoted(flow), quoted(folder));
    format!("#!/bin/sh\ncd {folder} || exit 97\nexec {flow} __node {folder}\n")
}

/// The script for an array. Each task finds its attempt's folder in the manifest, in the line with its number.
pub fn array_script(flow: &str, manifest: &str) -> String {
    let (flow, manifest) = (quoted(flow), quoted(manifest));
    format!(
        "#!/bin/sh\n\
         folder=$(sed -n \"$((SLURM_ARRAY_TASK_ID + 1))p\" {manifest}) || exit 97\n\
         [ -n \"$folder\" ] && cd \"$folder\" || exit 97\n\
         exec {flow} __node \"$folder\"\n"
    )
}

/// The manifest of an array: the folders of its attempts, a line each.
pub fn manifest<'a>(folders: impl IntoIterator<Item = &'a str>) -> String {
    folders.into_iter().flat_map(|folder| [folder, "\n"]).collect()
}

/// For a POSIX shell. A path holds no NUL, which is all that cannot be quoted; without it the path is none at all.
fn quoted(path: &str) -> String {
    shlex::try_quote(path).map(|quoted| quoted.into_owned()).unwrap_or_else(|_| "''".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_starts_flow_in_the_folder() {
        assert_eq!(
            script("/usr/bin/flow", "/lab/it's a $HOME"),
            "#!/bin/sh\ncd \"/lab/it's a \"'$HOME' || exit 97\nexec /usr/bin/flow __node \"/lab/it's a \"'$HOME'\n"
        );
    }

    #[test]
    fn a_task_finds_its_line() {
        assert_eq!(
            array_script("/usr/bin/flow", "/lab/a b/manifest"),
            "#!/bin/sh\n\
             folder=$(sed -n \"$((SLURM_ARRAY_TASK_ID + 1))p\" '/lab/a b/manifest') || exit 97\n\
             [ -n \"$folder\" ] && cd \"$folder\" || exit 97\n\
             exec /usr/bin/flow __node \"$folder\"\n"
        );
        assert_eq!(manifest(["/a b", "/c"]), "/a b\n/c\n");
    }

    #[test]
    fn paths_that_slurm_would_change_are_refused() {
        assert!(is_usable("/lab/a b%j'$x"));
        for bad in ["", "relative", "/a\\b", "/a\nb", "/a\0"] {
            assert!(!is_usable(bad), "{bad:?}");
        }
    }
}
