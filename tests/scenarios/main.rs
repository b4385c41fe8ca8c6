//! Scenarios against real parts: docker-registry, the plane and the host, each a process of its own.

#![expect(clippy::unwrap_used, reason = "tests")]

mod air_gap;
mod crashes;
mod credentials;
mod denials;
mod devices;
mod identity;
mod interruptions;
mod limits;
mod partition;
mod planes;
mod policies;
mod recordings;
mod recovery;
mod refusals;
mod stage_a_model;
mod submissions;
mod telemetry;
mod transfers;

use fettle_tests::Programs;

/// The programs under test.
const PROGRAMS: Programs =
    Programs { host: env!("CARGO_BIN_EXE_host-under-test"), plane: env!("CARGO_BIN_EXE_plane-under-test") };

/// A policy bundle that most scenarios use.
const POLICY: &str = r"
revision: 1
roots: { models: models, config: config }
profiles:
  - { id: count_lines, command: /usr/bin/wc, allowed_args: [--lines], arg_schema: [{ name: file, value: { path: { root: config } } }] }
  - { id: sleep, command: /usr/bin/sleep, arg_schema: [{ name: seconds, value: { integer: { minimum: 0, maximum: 1000 } } }], timeout_seconds: 1000 }
  - { id: mkdir, command: /usr/bin/mkdir, arg_schema: [{ name: directory, value: { pattern: '/tmp/fettle-[A-Za-z0-9./_-]+' } }] }
ceiling:
  exec: { profiles: ['*'] }
  files: { write: [models, config] }
  transfer: { hosts: ['*'] }
  facts: { read: [system, memory, filesystems, processes, kernel-log] }
  gpu: { read: true }
egress: { private: { '127.0.0.1': [127.0.0.1/32], localhost: [127.0.0.0/8, '::1/128'] } }
";

/// An operation of one step that does nothing.
const NOOP: &str = r"
operation_type: test.noop
version: v1
backend_type: node_agent
input_schema: { type: object }
steps:
  - { id: nothing, uses: noop@v1 }
";

/// An operation that writes a file and then looks at it: safe to repeat at every point.
const RENDER: &str = r"
operation_type: test.render
version: v1
backend_type: node_agent
input_schema: { type: object, required: [text], properties: { text: { type: string } } }
steps:
  - id: render
    uses: file.render@v1
    with: { template: '{{ text }}', values: { text: '${{ inputs.text }}' }, path: config/rendered.txt }
    grants: { files: { write: [config] } }
  - id: after
    uses: noop@v1
    needs: [render]
";

/// An operation whose command may not be repeated: the second `mkdir` of a directory fails.
const CONSUME: &str = r"
operation_type: test.consume
version: v1
backend_type: node_agent
input_schema: { type: object, required: [directory], properties: { directory: { type: string } } }
steps:
  - id: make
    uses: command.exec_allowlisted@v1
    with: { profile: mkdir, arguments: { directory: '${{ inputs.directory }}' } }
    grants: { exec: { profiles: [mkdir] } }
";

/// An operation whose step writes where it was not granted to.
const DENIED: &str = r"
operation_type: test.denied
version: v1
backend_type: node_agent
input_schema: { type: object }
steps:
  - id: render
    uses: file.render@v1
    with: { template: 'x', values: {}, path: config/rendered.txt }
    grants: { files: { write: [models] } }
";

/// An operation that takes as long as it is told.
const SLEEP: &str = r"
operation_type: test.sleep
version: v1
backend_type: node_agent
input_schema: { type: object, required: [seconds], properties: { seconds: { type: integer } } }
steps:
  - id: sleep
    uses: command.exec_allowlisted@v1
    with: { profile: sleep, arguments: { seconds: '${{ inputs.seconds }}' } }
    grants: { exec: { profiles: [sleep] } }
  - { id: after, uses: noop@v1, needs: [sleep] }
";
