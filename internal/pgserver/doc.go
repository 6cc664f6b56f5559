// Package pgserver finds a PostgreSQL server, or starts one, for the tests, the
// demo and the benchmarks of this module.
//
// The ways are tried in a fixed order, and the first that works is taken:
//
//  1. the server named by the environment variable DEDUP_DATABASE_URL;
//  2. a container of [Image], where a Docker daemon answers within two seconds;
//  3. server programs that are installed on this machine, newest version first;
//  4. server programs downloaded by github.com/fergusstrange/embedded-postgres.
//
// A way that is there but fails is passed over, and [Server.Source] says why.
// Where none works the error lists each way: what was tried, and what would help.
//
// The servers of ways 3 and 4 are private: they listen on 127.0.0.1 only, trust
// whoever connects there, and keep their data in a temporary folder. A watchdog
// ends them and removes the folder when the process that started them ends,
// however it ends. PostgreSQL refuses to run as root, so for root they run as the
// account "postgres" or, where there is none, "nobody". On Windows the package
// does not compile: WSL runs it.
package pgserver
