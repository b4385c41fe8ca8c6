# Whether a node may be given a task now. While there is a reason to deny, the task waits.
package fettle.dispatch

# What changes a host has the node to itself.
deny contains message if {
	startswith(input.operation.operation_type, "gpu.host.")
	input.node.running_tasks > 0
	message := sprintf("%s waits until node %s is idle", [input.operation.operation_type, input.node.name])
}
