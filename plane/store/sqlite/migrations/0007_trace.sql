-- Where the work on an operation continues in a trace (W3C `traceparent`).
ALTER TABLE operations ADD COLUMN trace_parent TEXT;
