//! Build and test tools of a project, detected by the files at its root.

use std::collections::BTreeSet;
use std::path::Path;

use ostler_core::matching::matches_wildcard;

/// File names that identify the kind of a project, and the tools that build and test it.
const MARKERS: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        "cargo rustc rustfmt rustdoc clippy-driver cargo-clippy cargo-fmt cargo-nextest rustup",
    ),
    ("rust-toolchain*", "cargo rustc rustfmt"),
    (
        "package.json",
        "npm npx pnpm yarn node tsc eslint prettier jest vitest mocha tsx vite webpack turbo nx",
    ),
    ("tsconfig.json", "node tsc npx"),
    ("*.js *.mjs *.cjs *.ts", "node"),
    ("bun.lock bun.lockb bunfig.toml", "bun bunx node"),
    ("deno.json deno.jsonc deno.lock", "deno"),
    (
        "pyproject.toml setup.py setup.cfg requirements*.txt Pipfile poetry.lock uv.lock tox.ini noxfile.py environment.yml *.py",
        "python python3 pytest py.test uv pip pip3 poetry pipenv pdm hatch tox nox ruff mypy pyright black isort flake8 pylint coverage",
    ),
    ("manage.py", "python python3"),
    (
        "go.mod go.work *.go",
        "go gofmt goimports golangci-lint staticcheck gotestsum",
    ),
    ("Makefile makefile GNUmakefile *.mk", "make gmake"),
    ("justfile Justfile .justfile", "just"),
    ("Taskfile.yml Taskfile.yaml", "task go-task"),
    (
        "build.gradle build.gradle.kts settings.gradle settings.gradle.kts",
        "gradle java javac kotlinc",
    ),
    ("gradlew", "./gradlew java"),
    ("pom.xml", "mvn java javac"),
    ("mvnw", "./mvnw java"),
    ("build.xml", "ant java javac"),
    ("build.sbt", "sbt java scala scalac"),
    ("*.java", "java javac jar"),
    ("*.kt *.kts", "kotlinc kotlin java"),
    ("project.clj deps.edn", "lein clj clojure java"),
    (
        "CMakeLists.txt CMakePresets.json",
        "cmake ctest cpack ninja make cc c++ gcc g++ clang clang++ clang-format clang-tidy",
    ),
    ("meson.build", "meson ninja cc gcc clang"),
    ("build.ninja", "ninja"),
    (
        "configure configure.ac",
        "make ./configure autoconf automake autoreconf cc gcc",
    ),
    (
        "*.c *.h *.cc *.cpp *.cxx *.hpp",
        "cc c++ gcc g++ clang clang++ make clang-format clang-tidy",
    ),
    (
        "WORKSPACE WORKSPACE.bazel MODULE.bazel BUILD.bazel",
        "bazel bazelisk",
    ),
    ("BUCK .buckconfig", "buck buck2"),
    ("SConstruct", "scons"),
    (
        "Gemfile Rakefile *.gemspec *.rb",
        "bundle rake ruby rspec rubocop rails gem",
    ),
    ("composer.json *.php", "php composer phpunit phpstan"),
    ("mix.exs", "mix elixir erl"),
    ("rebar.config", "rebar3 erl erlc"),
    (
        "*.csproj *.fsproj *.vbproj *.sln *.slnx global.json",
        "dotnet msbuild",
    ),
    ("Package.swift", "swift swiftc xcodebuild"),
    (
        "*.cabal stack.yaml cabal.project package.yaml",
        "cabal stack ghc runghc hlint",
    ),
    ("dune dune-project *.opam", "dune opam ocaml ocamlfind"),
    ("build.zig", "zig"),
    ("pubspec.yaml", "dart flutter"),
    ("*.nimble", "nim nimble"),
    ("shard.yml", "crystal shards"),
    ("Project.toml", "julia"),
    ("DESCRIPTION *.R", "R Rscript"),
    ("*.lua *.rockspec", "lua luajit luarocks busted"),
    ("cpanfile Makefile.PL Build.PL *.pl *.pm", "perl prove make"),
    ("*.tf", "terraform tofu tflint"),
    ("*.sh", "shellcheck shfmt"),
    ("*.tex", "latexmk pdflatex xelatex lualatex bibtex biber"),
    ("mkdocs.yml", "mkdocs"),
    ("foundry.toml", "forge cast anvil"),
    ("gleam.toml", "gleam"),
];

/// Tools that read, compare and print. Those with options that run or write something have rules in
/// `tools.toml`.
const READERS: &str = "\
    ls cat head tail wc grep egrep fgrep rg find fd fdfind sort cut tr diff cmp comm join paste nl fold column stat file tree du df \
    pwd echo printf true false test which date jq basename dirname realpath readlink sha256sum sha1sum md5sum cksum xxd od hexdump \
    strings tac rev seq expr uname nproc";

/// Maximum number of entries examined per directory, and of directories below the root.
const MAX_ENTRIES: usize = 2_000;
const MAX_DIRECTORIES: usize = 200;

/// Returns the tools of a project with files of these names.
#[must_use]
pub fn tools<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for name in names {
        for (patterns, tools) in MARKERS {
            if patterns
                .split(' ')
                .any(|pattern| matches_wildcard(pattern, name))
            {
                found.extend(tools.split(' '));
            }
        }
    }
    found
}

/// Returns the read-only tools.
pub(super) fn readers() -> impl Iterator<Item = &'static str> {
    READERS.split(' ')
}

/// Returns the names of files at a workspace's root and one level below.
#[must_use]
pub fn names(root: &Path) -> Vec<String> {
    let (mut names, directories) = entries(root);
    let is_skipped = |name: &str| {
        name.starts_with('.')
            || ["node_modules", "target", "vendor", "dist", "build"].contains(&name)
    };
    for directory in directories
        .iter()
        .filter(|name| !is_skipped(name))
        .take(MAX_DIRECTORIES)
    {
        names.extend(entries(&root.join(directory)).0);
    }
    names
}

/// Returns the names of files and of directories in a directory. Links are skipped.
fn entries(directory: &Path) -> (Vec<String>, Vec<String>) {
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .take(MAX_ENTRIES)
    {
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else {
            continue;
        };
        match () {
            () if kind.is_dir() => directories.push(name),
            () if kind.is_file() => files.push(name),
            () => {}
        }
    }
    (files, directories)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_tools_are_detected_by_files() {
        for (files, expected, unexpected) in [
            (
                "Cargo.toml README.md",
                "cargo rustc rustfmt",
                "npm python3 bash sh",
            ),
            ("package.json", "npm pnpm yarn node npx tsc", "cargo"),
            (
                "pyproject.toml",
                "python python3 pytest uv tox ruff mypy",
                "cargo node",
            ),
            ("setup.py", "python3 pytest", ""),
            ("requirements-dev.txt", "python3 pytest", ""),
            ("main.py", "python3", ""),
            ("go.mod", "go gofmt", ""),
            ("Makefile", "make", "cargo"),
            ("justfile", "just", ""),
            ("build.gradle.kts gradlew", "gradle ./gradlew java", ""),
            ("pom.xml mvnw", "mvn ./mvnw", ""),
            ("CMakeLists.txt", "cmake ctest ninja make", ""),
            ("meson.build", "meson ninja", ""),
            ("MODULE.bazel", "bazel", ""),
            ("Gemfile", "bundle rake ruby rspec", ""),
            ("composer.json", "php composer phpunit", ""),
            ("mix.exs", "mix elixir", ""),
            ("App.csproj", "dotnet", ""),
            ("Package.swift", "swift", ""),
            ("deno.json", "deno", ""),
            ("README.md LICENSE", "", "cargo node python3 make bash"),
        ] {
            let found = tools(files.split(' '));
            for tool in expected.split(' ').filter(|tool| !tool.is_empty()) {
                assert!(found.contains(tool), "{files}: {tool}");
            }
            for tool in unexpected.split(' ').filter(|tool| !tool.is_empty()) {
                assert!(!found.contains(tool), "{files}: {tool}");
            }
        }
    }

    // No project's tools include a shell, or a program that starts any other.
    #[test]
    fn no_marker_adds_a_shell() {
        let shells = "sh bash zsh dash fish env xargs sudo ssh curl wget docker nc eval tee dd rm mv cp chmod sed awk perl";
        let all: BTreeSet<&str> = MARKERS
            .iter()
            .flat_map(|(_, tools)| tools.split(' '))
            .collect();
        for shell in shells.split(' ').filter(|shell| *shell != "perl") {
            assert!(
                !all.contains(shell) && !readers().any(|reader| reader == shell),
                "{shell}"
            );
        }
        assert!(!readers().any(|reader| reader == "perl"));
    }

    #[test]
    fn files_are_found_at_the_root_and_one_level_below() {
        let dir = tempfile::tempdir().unwrap();
        for place in ["web", "a/b", "node_modules", ".hidden"] {
            std::fs::create_dir_all(dir.path().join(place)).unwrap();
        }
        for file in [
            "Cargo.toml",
            "web/package.json",
            "a/b/go.mod",
            "node_modules/pom.xml",
            ".hidden/mix.exs",
        ] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        let mut found = names(dir.path());
        found.sort();
        assert_eq!(found, ["Cargo.toml", "package.json"]);
    }
}
