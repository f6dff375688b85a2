//! On a real kube-apiserver with Kueue's own definitions. Nobody else writes: each test plays Kueue where it must.

mod verdicts;
mod world;
