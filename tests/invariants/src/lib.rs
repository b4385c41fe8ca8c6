//! The rules of the repository, as tests. Each fails with a sentence that names the place, the rule
//! and the fix. `ARCHITECTURE.md` lists them; a rule without its test there fails too (`documents.rs`).
#![cfg(test)]

mod capabilities;
mod contract;
mod coverage;
mod dependencies;
mod documents;
mod machine_code;
mod parameters;
mod programs;
mod purity;
mod reference;
mod report;
mod source;
mod unsafety;
