package fettle.submit_test

import data.fettle.submit

request(operation_type, weekday, token, key) := {
	"operation": {"operation_type": operation_type},
	"at": {"weekday": weekday},
	"requested_by": concat(":", ["token", "01", token]),
	"has_idempotency_key": key,
}

test_a_host_is_changed_on_weekdays if {
	count(submit.deny) == 0 with input as request("gpu.host.bootstrap", 5, "ann", true)
}

test_a_host_is_not_changed_on_weekends if {
	count(submit.deny) == 1 with input as request("gpu.host.bootstrap", 6, "ann", true)
}

test_other_operations_are_submitted_on_weekends if {
	count(submit.deny) == 0 with input as request("model.artifact.stage", 7, "ann", true)
}

test_a_program_sends_a_key if {
	count(submit.deny) == 1 with input as request("model.artifact.stage", 1, "ci-nightly", false)
	count(submit.deny) == 0 with input as request("model.artifact.stage", 1, "ci-nightly", true)
}

test_a_program_retries_without_a_key if {
	retry := object.union(request("model.artifact.stage", 1, "ci-nightly", false), {"is_retry": true})
	count(submit.deny) == 0 with input as retry
}

test_a_person_needs_no_key if {
	count(submit.deny) == 0 with input as request("model.artifact.stage", 1, "ann", false)
}
