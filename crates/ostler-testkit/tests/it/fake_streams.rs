//! Streams of the fake agent: raw bytes, floods, long lines, its input, and its dumps.

use std::fs;

use ostler_testkit::fake;

use crate::{agent, finish, json_lines, play};

#[test]
fn raw_output_is_exactly_what_the_script_says() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("rec.jsonl"), "{\"a\":1}\n").unwrap();
    let script = "# a comment\n\n  print a  b\\n\nprint-nonl half\nbytes ff 0a\nfile $DIR/rec.jsonl\n\
        chunks 3 1 späte\nloop 2\nprint x\nloop 2\nprint y\nend\nend";
    let output = finish(agent(dir.path(), script).spawn().unwrap(), "");
    let expected = b"a  b\\n\nhalf\xff\n{\"a\":1}\nsp\xc3\xa4te\nx\ny\ny\nx\ny\ny\n";
    assert_eq!(
        output.stdout,
        expected,
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn print_knows_the_session() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = agent(dir.path(), "print s=$SESSION\nstderr e=$SESSION");
    let output = finish(command.arg("--session-id=abc").spawn().unwrap(), "");
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (&b"s=abc\n"[..], &b"e=abc\n"[..])
    );
}

#[test]
fn a_flood_is_valid_lines_of_the_size_asked_for() {
    let output = play("flood 20000000 1000\nresult done", "");
    let flood = output.stdout.len();
    assert!((20_000_000..20_010_000).contains(&flood), "{flood}");
    let first = output
        .stdout
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    assert_eq!(first, 1000);
    assert_eq!(json_lines(&output).len(), 20_001);
}

#[test]
fn long_lines_and_floods_on_stderr() {
    let output = play("stderr-flood 300000\nlong-line 5000000\nprint short", "");
    assert!((300_000..300_200).contains(&output.stderr.len()));
    let line = output
        .stdout
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    assert_eq!(line, 5_000_000);
    assert!(output.stdout.ends_with(b"\nshort\n"));
}

#[test]
fn reading_at_the_end_of_input_ends_the_agent_well() {
    let output = play("loop forever\nread\nprint again\nend", "1\n2\n");
    assert_eq!(output.stdout, b"again\nagain\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn it_reports_what_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let script = "read\nread-until-eof\ndump-stdin $DIR/in\ndump-args $DIR/args\ndump-env $DIR/env\n\
        dump-cwd $DIR/cwd\nreport-fds $DIR/fds\npid-file $DIR/pid";
    let mut command = agent(dir.path(), script);
    command
        .args(["-p", "a b"])
        .env("MARK", "1=2")
        .current_dir(dir.path());
    let child = command.spawn().unwrap();
    let pid = child.id();
    finish(child, "first\nrest\nhalf");
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(read("in"), "first\nrest\nhalf");
    assert_eq!(read("args"), r#"["-p","a b"]"#);
    assert!(read("env").split('\0').any(|pair| pair == "MARK=1=2"));
    assert_eq!(
        fs::canonicalize(read("cwd")).unwrap(),
        fs::canonicalize(dir.path()).unwrap()
    );
    assert_eq!(read("pid"), pid.to_string());
    // The test runner may have left more files open for every child.
    let fds = read("fds");
    for standard in ["0 pipe:", "1 pipe:", "2 pipe:"] {
        assert!(fds.lines().any(|line| line.starts_with(standard)), "{fds}");
    }
    assert!(!fds.contains("/fd\n"), "{fds}");
}

#[test]
fn a_fake_put_on_the_path_finds_its_script_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let program = fake::install_as(dir.path(), "claude", "print it is me");
    let direct = std::process::Command::new(&program)
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(direct.stdout, b"it is me\n");
    let mut relative = std::process::Command::new("./claude");
    relative
        .env_clear()
        .env("PATH", "/usr/bin")
        .current_dir(dir.path());
    assert_eq!(relative.output().unwrap().stdout, b"it is me\n");
    let mut by_name = std::process::Command::new("claude");
    let by_name = by_name
        .env_clear()
        .env("PATH", dir.path())
        .output()
        .unwrap();
    assert_eq!(by_name.stdout, b"it is me\n");
}
