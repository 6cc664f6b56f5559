// Package pgtest gives every test a PostgreSQL database of its own, on the server
// that package pgserver finds or starts.
//
// A package whose tests use it hands its tests over once:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// and a test then asks for a database, which carries the project's migrations:
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		db := pgtest.New(t)
//		pool := db.Pool(t)
//		// ...
//	}
//
// The server is started by the first test that needs it and stopped by [Main].
// The migrations run once, into a template, and each test's database is a copy of
// it: made in ten milliseconds where the server keeps its data in memory, and in
// up to a few hundred on a disk. All of this may be used by hundreds of parallel
// tests, and by several test processes on one server at a time.
//
// A database is dropped when its test ends. That of a failed test is kept, and its
// URL logged, if the server outlives the tests, that is if DEDUP_DATABASE_URL
// names it; otherwise the log says how to keep it next time. Databases that were
// kept, and those of test processes that were killed, are named dedup_test_...
//
// A test that needs a server and finds none fails, and says what to do. None is
// ever skipped.
package pgtest
