//! On a real kube-apiserver with Kueue's own definitions. Nobody else writes: each test plays Kueue where it must.

mod activation;
mod admin;
mod bad_input;
mod checks;
mod counts;
mod duties;
mod examples;
mod explain;
mod faults;
mod gated_pods;
mod left_behind;
mod ownership;
mod process;
mod program;
mod recovery;
mod replicas;
mod rules;
mod verdicts;
mod world;
