package fettle.dispatch_test

import data.fettle.dispatch

task(operation_type, running) := {
	"operation": {"operation_type": operation_type},
	"node": {"name": "node-a", "running_tasks": running},
}

test_a_host_is_changed_when_it_is_idle if {
	count(dispatch.deny) == 0 with input as task("gpu.host.bootstrap", 0)
}

test_a_host_is_not_changed_while_it_works if {
	count(dispatch.deny) == 1 with input as task("gpu.host.bootstrap", 1)
}

test_other_tasks_go_to_a_node_that_works if {
	count(dispatch.deny) == 0 with input as task("model.artifact.stage", 3)
}
