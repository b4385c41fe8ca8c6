# Whether an operation may be submitted. Each message is a reason to deny; without one it may.
package fettle.submit

# What changes a host is done on weekdays, when somebody is there to look at it.
deny contains message if {
	startswith(input.operation.operation_type, "gpu.host.")
	input.at.weekday >= 6
	message := sprintf("%s is not submitted on weekends; submit it from Monday on", [input.operation.operation_type])
}

# Requests of programs can be lost on the way, and a lost one is sent again.
deny contains message if {
	not input.is_retry
	not input.has_idempotency_key
	token_name := split(input.requested_by, ":")[2]
	startswith(token_name, "ci-")
	message := sprintf("token %s is a program's; send an idempotency key", [token_name])
}
