package counts

// RecordedSQL is for tests of its plan.
var RecordedSQL = recordedSQL
