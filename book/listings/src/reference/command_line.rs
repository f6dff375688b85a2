//! The commands and flags that each check binary has.

use std::fmt::Write;

use clap::{Arg, Command, Subcommand};

use super::cell;

pub(super) fn page() -> String {
    let whole = kueue_check::cli::Command::augment_subcommands(Command::new("CHECK"));
    let mut text = String::new();
    for command in whole.get_subcommands() {
        let _ = writeln!(
            text,
            "## {0}\n\n`CHECK {0}{1}`\n\n{2}\n",
            command.get_name(),
            values(command),
            cell(&about(command))
        );
        let flags: Vec<&Arg> = command
            .get_arguments()
            .filter(|argument| !argument.is_hide_set())
            .collect();
        if !flags.is_empty() {
            text += "| flag | environment | default | what |\n| --- | --- | --- | --- |\n";
        }
        for flag in &flags {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} |",
                name(flag),
                flag.get_env().map(code).unwrap_or_default(),
                default(flag),
                cell(&help(flag))
            );
        }
        if !flags.is_empty() {
            text += "\n";
        }
    }
    text.trim_end().to_owned() + "\n"
}

/// Returns the positional arguments of `command`.
fn values(command: &Command) -> String {
    let names = command.get_positionals().filter_map(|argument| {
        let name = argument.get_value_names()?.first()?;
        Some(if argument.is_required_set() {
            format!(" {name}")
        } else {
            format!(" [{name}]")
        })
    });
    names.collect()
}

fn about(command: &Command) -> String {
    let about = command.get_long_about().or(command.get_about());
    about.map(ToString::to_string).unwrap_or_default()
}

fn help(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    help.map(ToString::to_string).unwrap_or_default()
}

fn name(argument: &Arg) -> String {
    let value = argument.get_value_names().and_then(<[_]>::first);
    match (argument.get_long(), value) {
        (Some(long), Some(value)) => format!("`--{long} {value}`"),
        (Some(long), None) => format!("`--{long}`"),
        (None, Some(value)) => format!("`{value}`"),
        (None, None) => format!("`{}`", argument.get_id()),
    }
}

fn default(argument: &Arg) -> String {
    let values = argument.get_default_values();
    let words: Vec<String> = values.iter().map(|value| code(value)).collect();
    words.join(", ")
}

fn code(text: &std::ffi::OsStr) -> String {
    format!("`{}`", text.to_string_lossy())
}
