//! Programs that run other programs, and where their commands are.

/// Words that a command follows immediately.
pub(super) const KEYWORDS: &str = "! { if then elif else while until do";

/// Programs that run their arguments: the command may be anywhere after them.
pub(super) const WRAPPERS: &str = "\
    sudo doas exec command builtin nohup time timeout nice ionice chrt taskset stdbuf setsid setpriv prlimit \
    unshare nsenter chroot gosu su-exec systemd-run bwrap firejail strace ltrace busybox toybox unbuffer \
    caffeinate pnpx bunx uvx coproc function fakeroot eatmydata xvfb-run dbus-run-session proxychains torsocks \
    chronic valgrind perf numactl cpulimit tini dumb-init entr watchexec direnv rlwrap faketime daemonize \
    start-stop-daemon runcon capsh catchsegv linux32 linux64 setarch i386 x86_64 arch choom pkexec proot chpst \
    setuidgid cgexec ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 ld-linux.so.2 flatpak-spawn distrobox pee ifne";

/// Programs that run their arguments if one of these words is among them.
pub(super) const CONTAINERS: &[(&str, &str)] = &[
    (
        "docker podman nerdctl kubectl oc docker-compose lxc incus",
        "run exec debug",
    ),
    ("npm pnpm yarn bun", "run exec dlx x create explore"),
    (
        "uv poetry pipenv pdm hatch rye bundle conda mamba micromamba pixi rustup direnv dotenv",
        "run exec",
    ),
    ("mise asdf", "exec x run watch"),
    ("nix", "run develop shell"),
    ("heroku fly gcloud vagrant adb", "run ssh shell console"),
    ("op doppler infisical aws-vault", "run exec"),
    ("cargo just", "watch --command -c --exec"),
];

/// Programs that also read text as commands: each word of the line may itself be a line.
pub(super) const SHELLS: &str = "\
    sh bash dash ash zsh ksh mksh fish rbash csh tcsh nu xonsh eval trap source . su sg ssh env runuser script at batch \
    npx nix-shell parallel watch flock tmux screen hyperfine concurrently npm-run-all expect";

/// Shells whose script is a file, `-c TEXT`, or their input.
pub(super) const SCRIPTED: &str = "sh bash dash ash zsh ksh mksh fish rbash csh tcsh nu xonsh";

/// Variables whose value a program runs as a command.
pub(super) const COMMAND_VARIABLES: &str = "\
    GIT_SSH GIT_SSH_COMMAND GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_PROXY_COMMAND \
    SSH_ASKPASS SUDO_ASKPASS PAGER MANPAGER EDITOR VISUAL BROWSER LESSOPEN LESSCLOSE PROMPT_COMMAND SHELL \
    PS0 PS1 PS2 PS4 BASH_ENV ENV RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CC CXX LD RSYNC_RSH CVS_RSH MAKE";

/// A program with options that make it run text or another program.
#[derive(Debug)]
pub(super) struct Runner {
    /// Its names; a star matches a version.
    pub(super) names: &'static str,
    /// Short options that do so.
    pub(super) short: &'static str,
    /// Words that do so: long options without dashes and value, and subcommands.
    pub(super) long: &'static str,
    /// For an interpreter: short options that take the next word as a value. The first other word
    /// is the script, followed by its arguments; without a script, it reads one from stdin.
    pub(super) script: Option<&'static str>,
}

const fn interpreter(
    names: &'static str,
    short: &'static str,
    long: &'static str,
    values: &'static str,
) -> Runner {
    Runner {
        names,
        short,
        long,
        script: Some(values),
    }
}

const fn other(names: &'static str, short: &'static str, long: &'static str) -> Runner {
    Runner {
        names,
        short,
        long,
        script: None,
    }
}

/// Programs with such options.
pub(super) const RUNNERS: &[Runner] = &[
    // Bash builtins that run or expand text, or give a program another name.
    other("mapfile readarray", "C", ""),
    other("compgen complete", "CFW", ""),
    other("hash", "p", ""),
    other("capsh", "c", ""),
    interpreter("python* pypy* ipython* micropython", "c", "", "WXQ"),
    interpreter("perl*", "eE", "", "I"),
    interpreter("ruby* jruby", "e", "", "rIECKTWx"),
    interpreter("node nodejs", "ep", "eval print", "rC"),
    interpreter("bun deno", "ep", "eval print repl", ""),
    interpreter("php*", "rBRE", "run process-code", "dczfF"),
    interpreter("lua* luajit*", "e", "", "l"),
    interpreter(
        "rscript julia elixir iex scala groovy ghc runghc swift osascript tclsh wish guile racket sbcl clisp",
        "eE",
        "eval",
        "",
    ),
    interpreter("pwsh powershell cmd", "ceEk", "command encodedcommand", ""),
    other("sqlite3 sqlite", "", "cmd"),
    other("psql mysql mariadb", "ce", "command execute"),
    other("gdb lldb", "xo", "ex eval-command iex command one-line"),
    other("vim vi nvim ex view gvim vimdiff rvim", "cS", "cmd"),
    other("emacs emacsclient", "e", "eval execute"),
    other(
        "tar bsdtar gtar",
        "I",
        "to-command checkpoint-action use-compress-program rsh-command info-script new-volume-script",
    ),
    other("rsync", "e", "rsh rsync-path"),
    other("scp sftp", "SoD", ""),
    other("zip", "", "TT unzip-command"),
    other("man", "P", "pager"),
    other("sort", "o", "compress-program output"),
    other("split", "", "filter"),
    other("cargo", "", "config"),
    other("go", "", "exec toolexec vettool"),
    other("make gmake bmake ninja", "E", "eval"),
    other("just", "c", "command shell shell-arg"),
    other("crontab at batch alias parallel ed", "", "*"),
    other("rg", "", "pre hostname-bin"),
    other("less more most", "", ""),
    other("openssl", "", "engine provider"),
    other("nmap", "", "script"),
    other("tcpdump", "z", ""),
    other("ip", "", "netns"),
    other("nc ncat netcat socat", "ec", "exec sh-exec lua-exec"),
    other("gcc g++ cc c++ clang clang++", "", "wrapper fplugin"),
    other("dotnet-script", "", "eval"),
];

/// Git settings for `git -c` that cannot run a program.
pub(super) const GIT_HARMLESS: &str = "\
    user.* author.* committer.* color.* advice.* core.quotepath core.autocrlf core.eol core.safecrlf core.filemode \
    core.ignorecase core.abbrev core.precomposeunicode core.longpaths core.symlinks core.preloadindex core.untrackedcache \
    commit.gpgsign commit.verbose commit.cleanup tag.gpgsign push.default push.autosetupremote pull.rebase pull.ff merge.ff \
    merge.conflictstyle rebase.autostash rebase.autosquash rerere.* init.defaultbranch log.* diff.renames diff.algorithm \
    diff.context diff.mnemonicprefix diff.noprefix diff.colormoved status.* fetch.prune gc.auto safe.directory protocol.version \
    http.postbuffer http.version http.lowspeedlimit http.lowspeedtime http.sslverify i18n.* column.* grep.linenumber \
    blame.* format.pretty submodule.recurse index.* pack.* feature.* stash.showpatch branch.sort tag.sort";

/// Git subcommands and options that run another program, or write a file of any name, which another
/// program may run.
pub(super) const GIT_RUNS: &[(&str, &str, &str)] = &[
    ("diff", "", "output ext-diff"),
    ("log", "", "output ext-diff"),
    ("show", "", "output ext-diff"),
    ("format-patch", "o", "output output-directory"),
    ("bisect", "", "run"),
    ("rebase", "x", "exec"),
    ("submodule", "", "foreach"),
    ("filter-branch", "", "*"),
    ("difftool", "x", "extcmd"),
    ("mergetool", "", "tool"),
    ("grep", "O", "open-files-in-pager"),
    ("hook", "", "run"),
    ("for-each-repo", "", "*"),
    ("fetch", "", "upload-pack"),
    ("pull", "", "upload-pack"),
    ("clone", "uc", "upload-pack config template"),
    ("ls-remote", "", "upload-pack exec"),
    ("push", "", "receive-pack exec"),
    ("archive", "o", "exec output"),
    ("init", "", "template"),
];
