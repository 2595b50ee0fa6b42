//! `karpenter-ibm crds`: the custom resource definitions, on stdout or one file each.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{BadInput, output};
use crate::api::crd::{Definition, definitions};

/// Prints the custom resource definitions, to be applied before the controller starts.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write one file per definition into this directory instead of printing them.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints or writes all definitions.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let definitions = definitions().context("generating the custom resource definitions")?;
    match &args.dir {
        None => Ok(output::data(documents(&definitions)?.trim_end())?),
        Some(dir) => definitions
            .iter()
            .try_for_each(|definition| write(dir, definition)),
    }
}

fn documents(definitions: &[Definition]) -> anyhow::Result<String> {
    let texts: Vec<String> = definitions.iter().map(to_yaml).collect::<anyhow::Result<_>>()?;
    Ok(texts.concat())
}

fn write(dir: &Path, definition: &Definition) -> anyhow::Result<()> {
    let path = dir.join(&definition.file_name);
    let unwritable = |error: std::io::Error| {
        BadInput::new(format!("cannot write {}: {error}", path.display()))
            .hint("--dir takes a directory that exists or can be made, and that you may write to")
    };
    let text = to_yaml(definition)?;
    fs::create_dir_all(dir).map_err(unwritable)?;
    fs::write(&path, text).map_err(unwritable)?;
    output::talk(format_args!("wrote {}", path.display()));
    Ok(())
}

/// One YAML document, the same for the same definition.
pub fn to_yaml(definition: &Definition) -> anyhow::Result<String> {
    // Folding would break long patterns and rules over lines, which nobody can compare with anything.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(&definition.object, options)
        .with_context(|| format!("writing {} as YAML", definition.file_name))?;
    Ok(format!("---\n{text}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn every_definition_survives_yaml() {
        for definition in definitions().unwrap() {
            assert_eq!(read(&to_yaml(&definition).unwrap()), definition.object);
        }
    }

    #[test]
    fn strings_that_yaml_reads_otherwise_survive_it() {
        for text in [
            "True",
            "no",
            "null",
            "~",
            "1e3",
            "0x10",
            "1:30",
            "",
            " a",
            "a ",
            "a: b",
            "# a",
            "a #b",
            "- a",
            "a\nb\n",
            "\n a\n",
            "it's",
            "\"",
            "\\",
            "^(\\+|-)?$",
            "!has(self.a)",
            "*",
            "&a",
            "@daily",
            "`",
            "%",
            "2026-11-16",
            ".5",
            "a\tb",
            "ä",
            "y",
            "=",
            "<<",
            "0o7",
            "1_000",
            "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
        ] {
            let definition = Definition {
                file_name: String::new(),
                object: json!({"a": [text], text: {"b": text}}),
            };
            assert_eq!(
                read(&to_yaml(&definition).unwrap()),
                definition.object,
                "{text:?}"
            );
        }
    }

    #[test]
    fn the_documents_can_be_read_one_by_one() {
        let definitions = definitions().unwrap();
        let read: Vec<Value> = serde_saphyr::from_multiple(&documents(&definitions).unwrap()).unwrap();
        assert_eq!(
            read,
            definitions.into_iter().map(|it| it.object).collect::<Vec<_>>()
        );
    }
}
