//! Bundler: ES modules of one constrained style, concatenated into one script.
//!
//! A document that opens from disk cannot load modules, and its content security policy names each
//! script by its hash. So the page's modules are written in a style that can be bundled line by
//! line: an import is one line `import {a, b as c} from "./x.js";`, and an export is the keyword
//! before a function, class or constant. Each module becomes a function that returns its exports.

/// Keywords that an exported declaration starts with.
const DECLARATIONS: &[&str] = &[
    "async function* ",
    "async function ",
    "function* ",
    "function ",
    "class ",
    "const ",
];

/// A module that does not have the style that can be bundled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// A module is imported that does not exist.
    #[error("{importer}:{line}: there is no module {name:?}")]
    Missing {
        /// The module that imports it, or the entry itself.
        importer: String,
        /// The line, from 1.
        line: usize,
        /// The module.
        name: String,
    },
    /// Modules import each other.
    #[error("{0}: the module imports itself, directly or through others")]
    Cycle(String),
    /// A line cannot be bundled.
    #[error("{module}:{line}: {why}")]
    Style {
        /// The module.
        module: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Bundles a module and all modules that it imports into one script. `load` returns the text of a
/// module by its name.
///
/// # Errors
/// If a module does not exist, imports itself, or is written in another style.
pub fn bundle<'a>(
    entry: &str,
    load: impl Fn(&str) -> Option<&'a str>,
) -> Result<String, BundleError> {
    let mut bundler = Bundler {
        load,
        modules: Vec::new(),
        script: "\"use strict\";\n".to_owned(),
    };
    bundler.add(entry, entry, 1)?;
    Ok(bundler.script)
}

struct Bundler<F> {
    load: F,
    /// Modules by name, and whether they are complete.
    modules: Vec<(String, bool)>,
    script: String,
}

impl<'a, F: Fn(&str) -> Option<&'a str>> Bundler<F> {
    /// Adds a module unless it was added before, and returns its number.
    fn add(&mut self, name: &str, importer: &str, line: usize) -> Result<usize, BundleError> {
        match self.modules.iter().position(|(known, _)| known == name) {
            Some(at) if self.modules.get(at).is_some_and(|it| it.1) => return Ok(at),
            Some(_) => return Err(BundleError::Cycle(name.to_owned())),
            None => {}
        }
        let text = (self.load)(name).ok_or_else(|| BundleError::Missing {
            importer: importer.to_owned(),
            line,
            name: name.to_owned(),
        })?;
        let number = self.modules.len();
        self.modules.push((name.to_owned(), false));
        let (mut body, mut exports) = (String::with_capacity(text.len()), Vec::new());
        for (line, text) in (1..).zip(text.lines()) {
            let style = |why| BundleError::Style {
                module: name.to_owned(),
                line,
                why,
            };
            match statement(text).map_err(style)? {
                Statement::Import { names, from } => {
                    let module = self.add(from, name, line)?;
                    body.push_str(&format!("const {{{}}} = module{module};\n", renamed(names)));
                }
                Statement::Export { declaration, name } => {
                    exports.push(name);
                    body.push_str(declaration);
                    body.push('\n');
                }
                Statement::Other(text) => {
                    body.push_str(text);
                    body.push('\n');
                }
            }
        }
        let exports = exports.join(", ");
        self.script.push_str(&format!(
            "// {name}\nconst module{number} = (() => {{\n{body}return {{{exports}}};\n}})();\n"
        ));
        if let Some(module) = self.modules.get_mut(number) {
            module.1 = true;
        }
        Ok(number)
    }
}

/// A line of a module.
enum Statement<'a> {
    Import { names: &'a str, from: &'a str },
    Export { declaration: &'a str, name: &'a str },
    Other(&'a str),
}

fn statement(line: &str) -> Result<Statement<'_>, &'static str> {
    if line.to_ascii_lowercase().contains("</script") || line.contains("<!--") {
        return Err("`</script` and `<!--` cannot be in a script of a document: split the string");
    }
    if let Some(rest) = line.strip_prefix("import ") {
        return import(rest)
            .ok_or("an import must be `import {a, b} from \"./x.js\";` on one line");
    }
    if let Some(declaration) = line.strip_prefix("export ") {
        let rest = DECLARATIONS
            .iter()
            .find_map(|keyword| declaration.strip_prefix(keyword));
        let rest =
            rest.ok_or("an export must be a function, class or constant: `export const x`")?;
        let end = rest.find(|c: char| !is_identifier(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        if name.is_empty() {
            return Err("an exported declaration needs a name");
        }
        return Ok(Statement::Export { declaration, name });
    }
    let start = line.trim_start();
    if ["import ", "import{", "import\"", "export ", "export{"]
        .iter()
        .any(|keyword| start.starts_with(keyword))
    {
        return Err("imports and exports start at the beginning of a line, with one space");
    }
    if line.contains("import(") || line.contains("import.meta") {
        return Err("`import()` and `import.meta` cannot be bundled");
    }
    if line.starts_with("await ") {
        return Err("a module cannot wait at its top level");
    }
    Ok(Statement::Other(line))
}

/// Parses the rest of an import: `{a, b as c} from "./x.js";`.
fn import(rest: &str) -> Option<Statement<'_>> {
    let (names, from) = rest.strip_prefix('{')?.split_once("} from \"./")?;
    let from = from.strip_suffix("\";")?;
    let is_name = |name: &str| !name.is_empty() && name.chars().all(is_identifier);
    let are_names = names
        .split(',')
        .all(|name| match name.trim().split_once(" as ") {
            Some((name, own)) => is_name(name) && is_name(own),
            None => is_name(name.trim()),
        });
    let is_file = from.ends_with(".js") && !from.contains(['"', '/', '\\']);
    (are_names && is_file).then_some(Statement::Import { names, from })
}

/// Converts the names of an import into a pattern: `b as c` becomes `b: c`.
fn renamed(names: &str) -> String {
    names.trim().replace(" as ", ": ")
}

fn is_identifier(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundled(modules: &[(&str, &'static str)]) -> Result<String, String> {
        let load = |name: &str| modules.iter().find(|it| it.0 == name).map(|it| it.1);
        bundle("app.js", load).map_err(|error| error.to_string())
    }

    #[test]
    fn modules_become_one_script_in_the_order_of_their_dependencies() {
        let script = bundled(&[
            (
                "app.js",
                "import {a, b as c} from \"./x.js\";\nimport {d} from \"./y.js\";\nrun(a, c, d);\n",
            ),
            (
                "x.js",
                "import {d} from \"./y.js\";\nconst own = 1;\nexport function a() {\n  return own + d;\n}\n\
                 export const b = {\n};\nexport async function e() {}\nexport class F {}\n",
            ),
            ("y.js", "const own = 2;\nexport const d = own;\n"),
        ]);
        let want = "\"use strict\";\n\
            // y.js\nconst module2 = (() => {\nconst own = 2;\nconst d = own;\nreturn {d};\n})();\n\
            // x.js\nconst module1 = (() => {\nconst {d} = module2;\nconst own = 1;\n\
            function a() {\n  return own + d;\n}\nconst b = {\n};\nasync function e() {}\nclass F {}\n\
            return {a, b, e, F};\n})();\n\
            // app.js\nconst module0 = (() => {\nconst {a, b: c} = module1;\nconst {d} = module2;\n\
            run(a, c, d);\nreturn {};\n})();\n";
        assert_eq!(script.unwrap(), want);
    }

    #[test]
    fn other_styles_are_errors_with_their_line() {
        for (text, line) in [
            ("import x from \"./x.js\";", 1),
            ("import * as x from \"./x.js\";", 1),
            ("import \"./x.js\";", 1),
            ("import {a} from './x.js';", 1),
            ("import {a} from \"./x.js\"", 1),
            ("import {a} from \"x.js\";", 1),
            ("import {a} from \"./d/x.js\";", 1),
            ("import {", 1),
            ("// fine\nexport default a;", 2),
            ("export {a};", 1),
            ("export let a = 1;", 1),
            ("export * from \"./x.js\";", 1),
            ("  export const a = 1;", 1),
            ("const x = await import(\"./x.js\");", 1),
            ("new Worker(new URL(\"w.js\", import.meta.url));", 1),
            ("await start();", 1),
            ("const x = \"</SCRIPT>\";", 1),
        ] {
            let error = bundled(&[("app.js", text), ("x.js", "")]).unwrap_err();
            assert!(
                error.starts_with(&format!("app.js:{line}: ")),
                "{text}: {error}"
            );
        }
        let missing = bundled(&[("app.js", "\nimport {a} from \"./x.js\";")]).unwrap_err();
        assert_eq!(missing, "app.js:2: there is no module \"x.js\"");
        let cycle = bundled(&[
            ("app.js", "import {a} from \"./x.js\";"),
            ("x.js", "import {b} from \"./app.js\";"),
        ]);
        assert!(
            cycle
                .unwrap_err()
                .starts_with("app.js: the module imports itself")
        );
    }
}
