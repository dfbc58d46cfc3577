//! Tests of commands from data: what each program may run, argument by argument.

use super::*;

/// Splits a line at blanks. A word `?x` is open: it could become any words.
fn split(line: &str) -> Vec<Word> {
    let word = |text: &str| match text.strip_prefix('?') {
        Some(text) => Word {
            is_open: true,
            ..Word::literal(text)
        },
        None => Word::literal(text),
    };
    line.split(' ')
        .filter(|text| !text.is_empty())
        .map(word)
        .collect()
}

/// Renders what a program runs: its commands, `*` for anything, or an empty text.
fn runs(line: &str, is_fed: bool) -> String {
    let word = |word: &Word| match word.is_open {
        true => format!("?{}", word.text),
        false => word.text.clone(),
    };
    let command = |words: &Vec<Word>| words.iter().map(word).collect::<Vec<_>>().join(" ");
    match takes(&split(line), is_fed) {
        Takes::Nothing => String::new(),
        Takes::Anything => "*".into(),
        Takes::Commands(all) => all.iter().map(command).collect::<Vec<_>>().join(" ; "),
    }
}

fn check(table: &[(&str, &str)]) {
    for (line, expected) in table {
        assert_eq!(runs(line, false), *expected, "{line}");
    }
}

fn anything(lines: &[&str]) {
    for line in lines {
        assert_eq!(runs(line, false), "*", "{line}");
    }
}

fn nothing(lines: &[&str]) {
    for line in lines {
        assert_eq!(runs(line, false), "", "{line}");
    }
}

/// Checks lines that run anything only if they have input.
fn only_if_fed(lines: &[&str]) {
    for line in lines {
        assert_eq!(
            (runs(line, true).as_str(), runs(line, false).as_str()),
            ("*", ""),
            "{line}"
        );
    }
}

#[test]
fn xargs_runs_its_command_with_data_at_the_end_or_in_place() {
    check(&[
        ("xargs", ""),
        ("xargs -0", ""),
        ("xargs rm -f", "rm -f ?"),
        ("xargs -0r rm", "rm ?"),
        ("xargs -n 1 rm", "rm ?"),
        ("xargs -n1 rm", "rm ?"),
        ("xargs -0n 1 rm", "rm ?"),
        ("xargs -P 4 -a list rm", "rm ?"),
        ("xargs -- rm -- x", "rm -- x ?"),
        ("xargs - x", "- x ?"),
        ("xargs ?-n rm", "?-n rm ?"),
        ("xargs -I % cp % dir", "cp ?% dir"),
        ("xargs -I% cp %/x dir", "cp ?%/x dir"),
        ("xargs -J % cp % dir", "cp ?% dir"),
        ("xargs -i cp {} dir", "cp ?{} dir"),
        ("xargs -i% cp % {}", "cp ?% {}"),
        ("xargs -0i cp {} dir", "cp ?{} dir"),
        ("xargs --replace cp {} dir", "cp ?{} dir"),
        ("xargs --replace=% cp % {}", "cp ?% {}"),
        ("xargs --replace= cp {}", "cp {} ?"),
        ("xargs --max-args 1 rm", "rm ?"),
        ("xargs --max-args=1 rm", "rm ?"),
        ("xargs --no-run-if-empty rm", "rm ?"),
    ]);
}

#[test]
fn find_runs_the_commands_of_its_actions() {
    check(&[
        ("find . -name x", ""),
        ("find . -exec rm {} ;", "rm ?{}"),
        ("find . -exec rm {} + -name x", "rm ?{}"),
        (
            "find . -execdir a {} ; -ok b x ; -okdir c {}",
            "a ?{} ; b x ; c ?{}",
        ),
        ("find . -exec", ""),
        ("find . -exec ; -delete", "rm -r -f"),
        ("find . ?$X", "*"),
        ("find . ?`x`", "*"),
        ("find . ?*.rs", ""),
        ("find . $X", ""),
    ]);
}

#[test]
fn fd_runs_the_rest_of_the_line() {
    for fd in ["fd", "fdfind"] {
        for (args, expected) in [
            ("x", ""),
            ("-e rs x", ""),
            ("-x rm", "rm ?"),
            ("-HX rm -f", "rm -f ?"),
            ("--exec rm {}", "rm ?{}"),
            ("--exec-batch rm {//} ; x", "rm ?{//}"),
            ("--exec=rm -f", "rm -f ?"),
            ("--exec-batches rm", ""),
        ] {
            assert_eq!(runs(&format!("{fd} {args}"), false), expected, "{args}");
        }
    }
}

#[test]
fn a_shell_runs_anything_unless_its_script_is_in_a_file() {
    for shell in ["sh", "bash", "zsh.exe"] {
        let with = |args: &[&str]| {
            args.iter()
                .map(|a| format!("{shell} {a}"))
                .collect::<Vec<_>>()
        };
        let lines = |all: &[String], check: fn(&[&str])| {
            check(&all.iter().map(String::as_str).collect::<Vec<_>>());
        };
        lines(
            &with(&[
                "-s",
                "-es",
                "?x",
                "-c",
                "-c ?x",
                "-ec ?x",
                "--command ?x",
                "/dev/stdin",
                "/dev/fd/3",
                "/proc/self/fd/0",
                "-o pipefail /dev/stdin",
            ]),
            anything,
        );
        lines(
            &with(&[
                "x.sh",
                "-c ls",
                "-e x.sh",
                "+x x.sh",
                "--posix x.sh",
                "x.sh -s",
                "-c ls ?x",
                "-o pipefail x.sh",
                "--rcfile y x.sh",
                "--c ls",
            ]),
            nothing,
        );
        lines(
            &with(&["", "-", "-e", "+x", "-o pipefail", "--login", "-- -"]),
            only_if_fed,
        );
    }
}

#[test]
fn an_interpreter_runs_text_and_input_but_not_files() {
    anything(&[
        "python3 -c x",
        "python3.12 -Bc x",
        "python3 -W x -c y",
        "python3 ?$X",
        "python3 -",
        "python3 /dev/stdin",
        "perl -ne x",
        "perl -I x -e y",
        "ruby -r x -e y",
        "node -p x",
        "node --eval=x",
        "node --PRINT x",
        "bun repl",
        "deno eval x",
        "php -r x",
        "lua -l x -e y",
        "julia --eval x",
        "pwsh -EncodedCommand x",
    ]);
    nothing(&[
        "python3 x.py -c",
        "python3 -m pytest -c x",
        "python3 -Bm x",
        "python3 -W c x.py",
        "python3 ?x.py",
        "python3 ?/x/*.py",
        "python3 ?./x",
        "node x.js --eval",
        "node -r e x.js",
        "node --evaluate x.js",
        "deno run eval",
        "php -d r x.php",
        "perl x.pl -e",
    ]);
    only_if_fed(&[
        "python3",
        "python3 -B",
        "node",
        "perl -w",
        "python3 -W x",
        "lua",
    ]);
}

#[test]
fn other_programs_run_what_their_options_name() {
    anything(&[
        "vim -c x",
        "vim +x y",
        "vim --cmd x",
        "sqlite3 x .shell",
        "tar xf y --to-command=x",
        "tar -I x -cf y",
        "rsync -ae x a b",
        "psql -c x",
        "psql x \\!y",
        "mapfile -C x",
        "go test -exec x",
        "cargo --config x run",
        "parallel x",
        "alias x=y",
        "rg --pre x y",
    ]);
    nothing(&[
        "vim x",
        "nano +x y",
        "tar xf y",
        "tar xf to-command",
        "rsync -av a b",
        "mapfile -t x",
        "cargo run",
        "parallel",
        "frob -c x",
        "less x",
        "go test exec",
    ]);
    only_if_fed(&["parallel", "crontab", "ed"]);
    anything(&[
        "env -S x",
        "env -iS x",
        "env --split-string=x",
        "env --split x",
    ]);
    nothing(&["env x", "env -i x", "env S", "env -s x", "env --s x"]);
}

#[test]
fn a_login_shell_reads_its_input() {
    only_if_fed(&[
        "su", "su -", "su x", "runuser", "sg x", "sudo -s", "sudo -i", "doas -s",
    ]);
    for line in [
        "su -c x",
        "su --command=x",
        "sudo x",
        "sudo -u x",
        "sudo -si x",
        "sudo s",
    ] {
        assert_eq!(runs(line, true), "", "{line}");
    }
    only_if_fed(&["source", "."]);
    anything(&["source /dev/stdin", ". ?x", "source -"]);
    nothing(&["source x", ". /x"]);
}

#[test]
fn ssh_runs_its_input_without_a_command_and_some_settings() {
    only_if_fed(&[
        "ssh host",
        "ssh -p 22 host",
        "ssh -v host",
        "ssh -p22 host",
        "ssh -i x host",
    ]);
    for line in [
        "ssh host ls",
        "ssh -p 22 host ls",
        "ssh host -v ls",
        "ssh -vp 22 host",
    ] {
        assert_eq!(runs(line, true), "", "{line}");
    }
    anything(&[
        "ssh -oProxyCommand=x host ls",
        "ssh -o ProxyCommand=x host ls",
        "ssh -o localcommand host ls",
        "ssh -F permit-command host ls",
    ]);
    nothing(&[
        "ssh host command",
        "ssh -v command ls",
        "ssh -o Port=1 host ls",
    ]);
}

#[test]
fn git_runs_what_its_settings_and_options_name() {
    anything(&[
        "git -c x.y=z log",
        "git -c",
        "git -c ?x log",
        "git -C x -c x.y=z log",
        "git --config-env=x log",
        "git --exec-path=x log",
        "git -p -c x.y=z log",
        "git config x.y z",
        "git config set x.y z",
        "git config --global x.y z",
        "git clone ext::x",
        "git bisect run x",
        "git rebase -x y",
        "git rebase -ix y",
        "git rebase --exec=y",
        "git rebase --ex y",
        "git filter-branch",
        "git clone -u x y",
        "git log --output=x",
        "git -C x rebase -x y",
        "git --git-dir x rebase -x y",
    ]);
    nothing(&[
        "git",
        "git -c user.name=x log",
        "git -c USER.NAME=x log",
        "git log",
        "git config x.y",
        "git config get x.y",
        "git config --list",
        "git config user.name x",
        "git config set user.name x",
        "git rebase -i x",
        "git rebase exe",
        "git log -x",
        "git bisect start",
        "git -C rebase log -x",
        "git --exec-path",
        "git --work-tree rebase log -x",
        "git -p log",
        "git commit -m ext:x",
    ]);
}

#[test]
fn awk_runs_commands_by_pipes_and_functions() {
    let awk = |program: &str| {
        let words = [Word::literal("awk"), Word::literal(program)];
        takes(&words, false) == Takes::Anything
    };
    for (program, expected) in [
        ("{ print $1 }", false),
        ("$1 || $2", false),
        ("{ print | \"x\" }", true),
        ("$1 || $2 { print | \"x\" }", true),
        ("BEGIN { system(\"x\") }", true),
        ("@load \"x\"", true),
    ] {
        assert_eq!(awk(program), expected, "{program}");
    }
}

#[test]
fn a_script_from_stdin_is_anything() {
    anything(&[
        "make -f -",
        "make -f-",
        "make -kf -",
        "make --file -",
        "make --file=/dev/stdin",
        "make --makefile -",
        "make -f ?x",
        "sed -f -",
        "sed -nf -",
        "sed --file=-",
        "awk -f -",
        "gawk -f/dev/stdin",
        "awk --file -",
    ]);
    nothing(&[
        "make -f x",
        "make -fx",
        "make --file=x",
        "make f -",
        "awk -f x",
        "awk -F - x",
        "make",
    ]);
}

#[test]
fn sed_runs_scripts_that_are_not_certainly_tame() {
    for (script, tame) in [
        ("", true),
        ("1,5p", true),
        ("$!d", true),
        ("1~2d;5,+3p", true),
        ("{p;n}", true),
        ("/e/d", true),
        ("/e/Ip", true),
        ("/\\/e/d", true),
        ("/e", false),
        ("/\\/", false),
        ("s/e/e/", true),
        ("s/e/e/gI2p", true),
        ("s|e|e|;p", true),
        ("s/\\/e/e/", true),
        ("sée/ée/é", true),
        ("y/e/f/", true),
        ("s", false),
        ("s/e", false),
        ("s/e/f", false),
        ("s/a/b/e", false),
        ("s/a/b/ge", false),
        ("s/a/b/;e", false),
        ("1e x", false),
        ("e", false),
        ("p;e x", false),
        ("a e x", true),
        ("a x\\ne x", true),
        ("a x\ne x", false),
        ("# e\np", true),
        ("# p\ne", false),
        ("b e", true),
        ("b x;e", false),
        (":e\np", true),
        ("t x\ne", false),
        ("v", false),
        ("  p", true),
    ] {
        assert_eq!(is_tame(script), tame, "{script:?}");
    }
}

#[test]
fn every_script_of_sed_counts() {
    anything(&[
        "sed e",
        "sed -n e x",
        "sed -e e x",
        "sed -e p -e e x",
        "sed -ne e x",
        "sed -ee x",
        "sed -es/a/b/e x",
        "sed -i.ex e x",
        "sed -i.e e x",
        "sed --expr=e x",
        "sed --expression e",
        "sed --expression=e x",
    ]);
    nothing(&[
        "sed p e",
        "sed -e p e",
        "sed -ne p e",
        "sed -ep e",
        "sed --expression=p e",
        "sed --expression p e",
        "sed",
        "sed -n",
        "sed --null-date p",
    ]);
}
