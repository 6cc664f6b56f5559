// Package pgtest gives every test a new PostgreSQL database, on the server that package pgserver
// finds or starts.
//
// A package that uses it runs its tests with Main:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// A test then gets a database with the project's migrations:
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		db := pgtest.New(t)
//		pool := db.Pool(t)
//		// ...
//	}
//
// The first test that needs the server starts it, and [Main] stops it. The migrations run once, in
// a template, and each test's database is a copy of it. A copy takes ten milliseconds if the server
// keeps its data in memory, and up to a few hundred on a disk. Hundreds of parallel tests, and
// several test processes, can share one server.
//
// When a test ends, its database is dropped. The database of a failed test is kept, and its URL is
// logged, if DEDUP_DATABASE_URL names the server; otherwise the log tells how to keep it. Databases
// that were kept, and those of killed test processes, are named dedup_test_...
//
// Without a server a test fails, and the error has a fix. No test is skipped.
package pgtest
